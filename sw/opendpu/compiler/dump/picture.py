# SPDX-License-Identifier: Apache-2.0
"""Values between passes as pictures: graphs from top to bottom, programs along time."""

from collections.abc import Mapping, Sequence

import xir
from opendpu.compiler.fixed import CONSTANT, is_fixed
from opendpu.compiler.network import Network
from opendpu.compiler.partition import Partitioned
from opendpu.compiler.plan import CascadePlan, Plan
from opendpu.compiler.planner.cascade.costs import Cascade
from opendpu.compiler.planner.proposal import Proposal, Residency, Tiled
from opendpu.compiler.program import Command, CommandStream, Program
from opendpu.drawing import Canvas, Vertex, draw_layered
from opendpu.drawing.canvas import Box, Line, Text, text_width
from opendpu.ir import Graph
from opendpu_arch.isa import Engine

COLOURS = {
    "DPU": "#cfe8cf", "CPU": "#f6d5c3", "USER": "#d9e2f3", "float": "#f3f0d0", "int8": "#cfe8cf",
    "LOAD": "#8db9dd", "SAVE": "#d7a3c8", "CONV": "#9ccf8f", "MISC": "#e8bf72",
}  # fmt: skip
CHART_WIDTH = 1600
TRACK = 34
HEAD = 70


def picture(value: object) -> Canvas:
    """Return the picture of a value."""
    match value:
        case Graph():
            return _graph(value, {})
        case Partitioned():
            return _graph(
                value.graph, {n: p.device for p in value.partition.parts for n in p.nodes}
            )
        case Network():
            return _network(value)
        case Proposal():
            return _proposed(value)
        case Residency():
            return _resident(value)
        case Tiled():
            return _tiled(value)
        case Plan():
            return _planned(value)
        case Program():
            made = value.schedule
            spans = zip(made.instructions, made.start, made.end, made.layers, strict=True)
            return _chart([(i.ENGINE, a, b, layer) for i, a, b, layer in spans], made.cycles)
        case CommandStream():
            return _sequence(value.commands)
        case xir.Graph():
            return _compiled(value)
        case _:
            raise TypeError(f"a {type(value).__name__} has no picture")


def _graph(graph: Graph, devices: dict[str, str]) -> Canvas:
    vertices, edges = [], []
    for node in graph:
        if node.kind in CONSTANT or _is_constant_fix(node.name, graph):
            continue
        colour = devices.get(node.name) or ("int8" if is_fixed(node) else "float")
        shape = "x".join(map(str, node.shape))
        vertices.append(Vertex(node.name, (node.kind, node.name, shape), COLOURS[colour]))
        edges += [(source, node.name) for source in node.sources()]
    return draw_layered(vertices, edges)


def _is_constant_fix(name: str, graph: Graph) -> bool:
    node = graph[name]
    return node.kind == "fix" and graph[node.inputs["input"][0]].value is not None


def _proposed(proposal: Proposal) -> Canvas:
    """Return the network with its cascades."""
    return _network(proposal.network, _cascade_lines(proposal.network, proposal.cascades))


def _resident(residency: Residency) -> Canvas:
    """Return the network with what stays on chip."""
    lines = {}
    for layer in residency.network.layers:
        region = residency.regions.get(layer.output)
        if region is not None:
            where = f"words {region.base}+{region.words}"
            lines[layer.name] = [f"group {region.bank_group}, {where}, on chip"]
    return _network(residency.network, lines)


def _tiled(tiled: Tiled) -> Canvas:
    """Return the network with loops, places in the banks, and cascades."""
    lines = {}
    for placed in tiled.layers:
        nest, out = placed.nest, placed.output
        stays = "on chip" if out.whole else "circular buffer"
        lines[placed.layer.name] = [
            f"{nest.columns} columns, {nest.rows} rows, {nest.groups} groups",
            f"group {out.bank_group}, words {out.base}+{out.words}, {stays}",
        ]
    for name, more in _cascade_lines(tiled.network, tiled.cascades).items():
        lines[name] += more
    return _network(tiled.network, lines)


def _planned(plan: Plan) -> Canvas:
    """Return the network with places in DDR."""
    lines = {}
    for placed in plan.layers:
        memory = plan.memory.get(placed.layer.output)
        if memory is not None:
            lines[placed.layer.name] = [f"REG_{memory.reg_id}+{memory.address}"]
    return _network(plan.network, lines)


def _cascade_lines(
    network: Network, cascades: Sequence[Cascade | CascadePlan]
) -> dict[str, list[str]]:
    return {
        network.layers[n].name: [f"cascade {number}"]
        for number, cascade in enumerate(cascades)
        for n in cascade.layers.numbers
    }


def _network(network: Network, more: Mapping[str, Sequence[str]] | None = None) -> Canvas:
    """Return layers with ``more`` lines about them."""
    vertices, edges = [], []
    maker: dict[str, str] = {}
    for name in network.inputs:
        vertices.append(Vertex(name, ("input", name, _size(network, name)), COLOURS["USER"]))
        maker[name] = name
    for layer in network.layers:
        lines = [layer.label, layer.name, _size(network, layer.output)]
        lines += (more or {}).get(layer.name, ())
        vertices.append(Vertex(f"{layer.name} ", tuple(lines), COLOURS["DPU"]))
        for source in layer.operands:
            for made in _makers(source, network, maker):
                edges.append((made, f"{layer.name} "))
        maker[layer.output] = f"{layer.name} "
    return draw_layered(vertices, edges)


def _makers(name: str, network: Network, maker: dict[str, str]) -> list[str]:
    """Return the vertices that make a feature map, or the bytes it shares with others."""
    if name in maker:
        return [maker[name]]
    holder = network.aliases[name].holder if name in network.aliases else name
    near = [holder, *(n for n, a in network.aliases.items() if a.holder == holder)]
    return list(dict.fromkeys(maker[n] for n in near if n in maker))


def _size(network: Network, name: str) -> str:
    feature = network.features[name]
    return f"{feature.height}x{feature.width}x{feature.channels}"


def _compiled(graph: xir.Graph) -> Canvas:
    vertices, edges = [], []
    for subgraph in graph.get_root_subgraph().get_children():
        device = str(subgraph.get_attr("device"))
        for op in subgraph.toposort():
            if op.get_type() in CONSTANT:
                continue
            shape = "x".join(map(str, op.get_output_tensor().dims))
            lines = (op.get_type(), op.get_name(), shape)
            vertices.append(Vertex(op.get_name(), lines, COLOURS.get(device, "#e0d0f0")))
            edges += [(o.get_name(), op.get_name()) for o in op.get_input_ops_list()]
    order = {op.get_name(): n for n, op in enumerate(graph.toposort())}
    return draw_layered(sorted(vertices, key=lambda v: order[v.name]), edges)


def _sequence(commands: tuple[Command, ...]) -> Canvas:
    """Return commands one after the other, as they stand."""
    at, spans = 0, []
    for command in commands:
        spans.append((command.instruction.ENGINE, at, at + command.cycles, command.layer))
        at += command.cycles
    return _chart(spans, at)


def _chart(spans: list[tuple[Engine, int, int, str]], cycles: int) -> Canvas:
    """Return one track an engine; what is narrower than a pixel runs into its neighbours."""
    left = text_width("LOAD ")
    scale = (CHART_WIDTH - left) / max(cycles, 1)
    canvas = Canvas(CHART_WIDTH + 20, HEAD + TRACK * len(Engine))
    canvas.add(Text(left, 20, f"{cycles} cycles expected", 13))
    for engine in Engine:
        y = HEAD - 20 + TRACK * engine
        canvas.add(Text(0, y + 18, engine.name))
        canvas.add(Line(((left, y + 27), (CHART_WIDTH, y + 27)), "#cccccc"))
        for start, end, layer in _merged([s for s in spans if s[0] == engine], 1 / scale):
            width = max((end - start) * scale, 0.3)
            box = Box(
                left + start * scale, y, width, 26, COLOURS[engine.name],
                title=f"{layer} {start}..{end}",
            )  # fmt: skip
            canvas.add(box)
            if text_width(layer, 9) < width:
                canvas.add(Text(left + start * scale + 2, y + 17, layer, 9))
    return canvas


def _merged(spans: list[tuple[Engine, int, int, str]], gap: float) -> list[tuple[int, int, str]]:
    """Return runs of instructions of one layer with gaps that a picture cannot show."""
    found: list[tuple[int, int, str]] = []
    for _, start, end, layer in sorted(spans, key=lambda s: (s[1], s[2])):
        if start == end:
            continue
        if found and found[-1][2] == layer and start - found[-1][1] < gap:
            found[-1] = (found[-1][0], max(end, found[-1][1]), layer)
        else:
            found.append((start, end, layer))
    return found
