# SPDX-License-Identifier: Apache-2.0
"""An inspection as a picture: operators in the colour of their device, edges between them."""

from opendpu.drawing import Canvas, Vertex, draw_layered
from opendpu.inspect.result import CPU, DPU, USER, InspectedNode, Inspection
from opendpu.inspect.text import said

COLOURS = {DPU: "blue", CPU: "red", USER: "black"}
"""As AMD's inspector has them."""
INK = "white"
LONGEST = 48
"""Characters of a line in a box; longer ones lose their beginning."""


def picture(inspection: Inspection) -> Canvas:
    """Return operators from top to bottom; pointing at one shows why it is on the CPU."""
    vertices = [
        Vertex(node.name, _lines(node), COLOURS[node.device], INK, _title(node))
        for node in inspection.nodes
    ]
    return draw_layered(vertices, _edges(inspection))


def dot(inspection: Inspection) -> str:
    """Return the same in the DOT language of Graphviz."""
    lines = [
        f"digraph {_quoted(inspection.model)} {{",
        f"  node [shape=box, style=filled, fontcolor={INK}];",
    ]
    for node in inspection.nodes:
        label, colour = "\n".join(_lines(node)), COLOURS[node.device]
        lines.append(
            f"  {_quoted(node.name)} [label={_quoted(label)}, fillcolor={colour}, "
            f"tooltip={_quoted(_title(node))}];"
        )
    lines += [f"  {_quoted(a)} -> {_quoted(b)};" for a, b in _edges(inspection)]
    return "\n".join([*lines, "}", ""])


def _edges(inspection: Inspection) -> list[tuple[str, str]]:
    return [(source, node.name) for node in inspection.nodes for source in node.inputs]


def _lines(node: InspectedNode) -> tuple[str, ...]:
    name = node.name if len(node.name) <= LONGEST else f"...{node.name[-LONGEST:]}"
    return (node.op_type, name, "x".join(map(str, node.shape)))


def _title(node: InspectedNode) -> str:
    return ": ".join(text for text in (f"{node.name} ({node.device})", said(node)) if text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
