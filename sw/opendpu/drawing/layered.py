# SPDX-License-Identifier: Apache-2.0
"""Directed graphs from top to bottom: ranks by longest path, few crossings, straight enough."""

import dataclasses
from collections.abc import Iterable, Sequence

from opendpu.drawing.canvas import Box, Canvas, Line, Text, text_width

FONT = 11
LINE_HEIGHT = 14
MARGIN = 20
GAP_X = 24
GAP_Y = 40
SWEEPS = 6


@dataclasses.dataclass(frozen=True)
class Vertex:
    """A box with lines of text, in ``ink``; ``title``, else the name, shows up under the mouse."""

    name: str
    lines: tuple[str, ...]
    fill: str = "#eeeeee"
    ink: str = "#000000"
    title: str = ""


@dataclasses.dataclass
class _Cell:
    """A vertex, or a bend of an edge that crosses its rank."""

    vertex: Vertex | None
    rank: int
    width: float
    height: float
    above: list["_Cell"] = dataclasses.field(default_factory=list)
    below: list["_Cell"] = dataclasses.field(default_factory=list)
    x: float = 0
    """Centre."""


def draw_layered(vertices: Sequence[Vertex], edges: Iterable[tuple[str, str]]) -> Canvas:
    """Return the picture of an acyclic graph; ``vertices`` come in topological order."""
    cells = {v.name: _cell(v) for v in vertices}
    known = [(a, b) for a, b in dict.fromkeys(edges) if a in cells and b in cells and a != b]
    _rank(cells, known)
    rows = _rows(cells, known)
    for sweep in range(SWEEPS):
        _order(rows, down=sweep % 2 == 0)
    _place(rows)
    return _render(rows)


def _cell(vertex: Vertex) -> _Cell:
    width = max(text_width(line, FONT) for line in vertex.lines) + 12
    return _Cell(vertex, 0, width, len(vertex.lines) * LINE_HEIGHT + 8)


def _rank(cells: dict[str, _Cell], edges: list[tuple[str, str]]) -> None:
    sources: dict[str, list[str]] = {}
    for a, b in edges:
        sources.setdefault(b, []).append(a)
    for name, cell in cells.items():
        cell.rank = max((cells[s].rank + 1 for s in sources.get(name, ())), default=0)


def _rows(cells: dict[str, _Cell], edges: list[tuple[str, str]]) -> list[list[_Cell]]:
    rows: list[list[_Cell]] = [
        [] for _ in range(1 + max((c.rank for c in cells.values()), default=0))
    ]
    for cell in cells.values():
        rows[cell.rank].append(cell)
    for a, b in edges:
        last = cells[a]
        for rank in range(cells[a].rank + 1, cells[b].rank):
            bend = _Cell(None, rank, 4, 0)
            rows[rank].append(bend)
            _join(last, bend)
            last = bend
        _join(last, cells[b])
    return rows


def _join(above: _Cell, below: _Cell) -> None:
    above.below.append(below)
    below.above.append(above)


def _order(rows: list[list[_Cell]], *, down: bool) -> None:
    """Sort every row by the mean place of the neighbours in the row before it."""
    for row in rows if down else reversed(rows):
        for place, cell in enumerate(row):
            cell.x = place
        near = {
            id(cell): [n.x for n in (cell.above if down else cell.below)] or [cell.x]
            for cell in row
        }
        row.sort(key=lambda cell: sum(near[id(cell)]) / len(near[id(cell)]))
        for place, cell in enumerate(row):
            cell.x = place


def _place(rows: list[list[_Cell]]) -> None:
    """Give every cell a centre close to its neighbours' and apart from those beside it."""
    for row in rows:
        at = 0.0
        for cell in row:
            cell.x = at + cell.width / 2
            at += cell.width + GAP_X
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wishes = []
            for cell in row:
                near = cell.above if down else cell.below
                wishes.append(sum(n.x for n in near) / len(near) if near else cell.x)
            _spread(row, wishes)
    left = min(cell.x - cell.width / 2 for row in rows for cell in row)
    for row in rows:
        for cell in row:
            cell.x += MARGIN - left


def _spread(row: list[_Cell], wishes: list[float]) -> None:
    low = float("-inf")
    for cell, wish in zip(row, wishes, strict=True):
        cell.x = max(wish, low + cell.width / 2)
        low = cell.x + cell.width / 2 + GAP_X
    shift = sum(wishes) - sum(cell.x for cell in row)
    for cell in row:
        cell.x += shift / len(row)


def _render(rows: list[list[_Cell]]) -> Canvas:
    width = max(cell.x + cell.width / 2 for row in rows for cell in row) + MARGIN
    tops, at = [], float(MARGIN)
    for row in rows:
        tops.append(at)
        at += max(cell.height for cell in row) + GAP_Y
    canvas = Canvas(width, at - GAP_Y + MARGIN)
    for row in rows:
        for cell in row:
            if cell.vertex is not None:
                for start in cell.below:
                    canvas.add(_edge(cell, start, tops))
    for row, top in zip(rows, tops, strict=True):
        for cell in row:
            if cell.vertex is None:
                continue
            left = cell.x - cell.width / 2
            title = cell.vertex.title or cell.vertex.name
            canvas.add(Box(left, top, cell.width, cell.height, cell.vertex.fill, "#333333", title))
            for number, line in enumerate(cell.vertex.lines):
                y = top + LINE_HEIGHT * (number + 1)
                canvas.add(Text(cell.x, y, line, FONT, "middle", cell.vertex.ink))
    return canvas


def _edge(cell: _Cell, following: _Cell, tops: list[float]) -> Line:
    points = [(cell.x, tops[cell.rank] + cell.height)]
    while following.vertex is None:
        points.append((following.x, tops[following.rank]))
        (following,) = following.below
    points.append((following.x, tops[following.rank]))
    return Line(tuple(points), arrow=True)
