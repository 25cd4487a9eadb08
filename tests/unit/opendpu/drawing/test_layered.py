# SPDX-License-Identifier: Apache-2.0
"""Layered graphs: boxes that do not overlap, edges that go down."""

import itertools
import random

import pytest

from opendpu.drawing import Vertex, draw_layered
from opendpu.drawing.canvas import Box, Line


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs(seed: int) -> None:
    pick = random.Random(seed)
    names = [f"n{i}" * pick.randint(1, 3) for i in range(pick.randint(1, 40))]
    edges = [
        (names[a], names[b])
        for b in range(len(names))
        for a in {pick.randrange(b) for _ in range(pick.randint(0, 3)) if b}
    ]
    canvas = draw_layered([Vertex(name, (name, "second line")) for name in names], edges)
    boxes = [s for s in canvas.shapes if isinstance(s, Box)]
    lines = [s for s in canvas.shapes if isinstance(s, Line)]
    assert sorted(box.title for box in boxes) == sorted(names)
    assert len(lines) == len(set(edges))
    for a, b in itertools.combinations(boxes, 2):
        apart_x = a.x + a.width <= b.x or b.x + b.width <= a.x
        apart_y = a.y + a.height <= b.y or b.y + b.height <= a.y
        assert apart_x or apart_y, (a.title, b.title)
    for box in boxes:
        assert box.x >= 0
        assert box.x + box.width <= canvas.width
        assert box.y + box.height <= canvas.height
    place = {box.title: box for box in boxes}
    ends = sorted((line.points[0][1], line.points[-1][1]) for line in lines)
    wanted = sorted((place[a].y + place[a].height, place[b].y) for a, b in edges)
    assert ends == wanted
    for line in lines:
        assert list(line.points) == sorted(line.points, key=lambda p: p[1])


def test_edges_from_elsewhere_are_left_out() -> None:
    canvas = draw_layered([Vertex("a", ("a",))], [("no", "a"), ("a", "a")])
    assert not any(isinstance(shape, Line) for shape in canvas.shapes)
