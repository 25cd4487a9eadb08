# SPDX-License-Identifier: Apache-2.0
"""Where a graph is quantized: which results get a ``fix``, and which must share a position."""

import dataclasses

from opendpu.ir import Graph, Node
from opendpu.quantize.approximate import LEAKY_SLOPE
from opendpu.quantize.fold import LAYERS

FUSED = {
    "conv2d": ("relu", "relu6", "leaky-relu"),
    "transposed-conv2d": ("relu", "relu6", "leaky-relu"),
    "inner-product": ("relu", "relu6", "leaky-relu"),
    "depthwise-conv2d": ("relu", "relu6"),
    "transposed-depthwise-conv2d": ("relu", "relu6"),
    "add": ("relu",),
    "mul": ("relu",),
}
"""Activations that the DPU applies together with an op, before the only rounding."""

MOVING = (
    "reshape", "flatten", "squeeze", "transpose", "strided_slice", "pad", "resize", "gstiling",
    "reorg", "pixel-shuffle",
)  # fmt: skip
"""Kinds that only move data."""

SHARING = (*MOVING, "maxpool2d", "reduction_max", "concat")
"""Kinds whose result must have the position of their inputs."""

_ON_CPU = (
    "softmax",
    "sigmoid",
    "tanh",
    "exp",
    "neg",
    "mish",
    "gelu",
    "elu",
    "div",
    "sub",
    "min",
    "max",
    "matmul",
    "batchnorm",
    "scale",
    "lrn",
    "argmax",
    "reduction_sum",
)


@dataclasses.dataclass(frozen=True)
class Points:
    """The quantized results of a graph.

    ``names`` are the nodes that a ``fix`` follows, in topological order; ``leader`` maps each of
    them to one member of the group that shares its position; ``least`` holds lower bounds of
    positions by leader.
    """

    names: list[str]
    leader: dict[str, str]
    least: dict[str, int]

    def members(self, leader: str) -> list[str]:
        """Return the points of one group."""
        return [name for name in self.names if self.leader[name] == leader]


def find_points(graph: Graph) -> Points:
    """Decide where activations of a folded graph are quantized."""
    users = graph.consumer_map()
    floating = _floating(graph)
    names = []
    for node in graph:
        if node.kind == "const" or _is_fused(graph, node, users[node.name]):
            continue
        if node.name not in floating or any(u.name not in floating for u in users[node.name]):
            names.append(node.name)
    names += [name for name in _data_constants(graph) if name not in names]
    leader = _groups(graph, names)
    least: dict[str, int] = {}
    for name in names:
        if graph[name].kind == "relu6":
            least[leader[name]] = 4
    for node in graph:
        source = leader.get(node.inputs["input"][0]) if node.kind == "hard-sigmoid" else None
        if source is not None:  # the engine adds a 3 in units of the input
            least[source] = max(0, least.get(source, 0))
            own = leader.get(node.name)
            if own is not None and list(leader.values()).count(own) == 1:
                least[own] = 7  # the engine only stops at one where int8 does
    return Points(names, leader, least)


def layer_output(graph: Graph, layer: Node, points: Points) -> str:
    """Return the point that holds a layer's result: itself or its activation."""
    return layer.name if layer.name in points.leader else graph.consumers(layer.name)[0].name


def _floating(graph: Graph) -> set[str]:
    """Return the nodes that stay in float: CPU ops and what only moves their results."""
    result: set[str] = set()
    for node in graph:
        moves = node.kind in MOVING and node.inputs["input"][0] in result
        if node.kind in _ON_CPU or moves:
            result.add(node.name)
    users = graph.consumer_map()
    for node in graph:
        if (
            node.kind == "data"
            and users[node.name]
            and all(user.name in result for user in users[node.name])
        ):
            result.add(node.name)
    return result


def _is_fused(graph: Graph, node: Node, users: list[Node]) -> bool:
    return (
        len(users) == 1
        and node.name not in graph.outputs
        and users[0].kind in FUSED.get(node.kind, ())
        and users[0].attrs.get("alpha", LEAKY_SLOPE) == LEAKY_SLOPE
    )


def _data_constants(graph: Graph) -> list[str]:
    """Return the constants that take part in elementwise ops and concats."""
    found: dict[str, None] = {}
    for node in graph:
        if node.kind in _ON_CPU or node.kind in LAYERS:
            continue
        for source in (*node.inputs.get("input", []), *node.inputs.get("weight", [])):
            if graph[source].kind == "const":
                found[source] = None
    return list(found)


def _groups(graph: Graph, names: list[str]) -> dict[str, str]:
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for name in names:
        node = graph[name]
        nearest = node.kind != "resize" or node.attrs["mode"] == "NEAREST"
        if node.kind in SHARING and nearest:
            for source in node.inputs["input"]:
                if source in parent:
                    parent[root(source)] = root(name)
    return {name: root(name) for name in names}
