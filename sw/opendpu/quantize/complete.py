# SPDX-License-Identifier: Apache-2.0
"""Models that come quantized: fix points for the constants that they leave in float."""

import numpy as np

from opendpu.ir import Graph, Node, QuantizedGraph
from opendpu.ir.graph import has_any_scale
from opendpu.ops import operator_of
from opendpu.quantize.layers import is_layer, parameters_of
from opendpu.quantize.scales.grid import GRID, best_fix_point, rounded
from opendpu.quantize.scales.shifts import SHIFT_BIAS
from opendpu.quantize.transforms.approximate import approximate

ANY = range(GRID.limits[0], GRID.limits[1] + 1)
"""Fix points that a signed byte of an instruction's or file's field can say."""


def is_quantized(graph: Graph) -> bool:
    """Return whether a graph has tensors that are quantized already."""
    return any(node.kind == "fix" for node in graph)


def complete(graph: Graph) -> QuantizedGraph:
    """Return a quantized graph with a ``fix`` wherever the DPU needs one and it is known.

    What only moves or compares data gets its input's behind it. Weights without a ``fix`` get the
    fix point with the least squared error. Biases, which other quantizers keep in 32 bits, get 8
    bits at the finest fix point at which none saturates and that the DPU can shift to the
    accumulator's.

    Of a graph with other scales than the DPU's, only what moves or compares data is completed.
    """
    graph = graph.moved(QuantizedGraph)
    if has_any_scale(graph):  # nothing is quantized that the model leaves in float
        return _tidy(graph)
    approximate(graph)
    for node in graph:
        if not is_layer(node) or graph[node.inputs["input"][0]].kind != "fix":
            continue
        arguments = parameters_of(node)
        weights = _quantized(graph, node, arguments.weights, ANY, "minmse")
        accumulator = np.array(weights) + graph[node.inputs["input"][0]].fix_point
        if node.inputs.get(arguments.bias):
            most = int(accumulator.min()) + 1 - SHIFT_BIAS[0]
            least = min(most, int(accumulator.max()) + 1 - SHIFT_BIAS[-1])
            allowed = range(least, most + 1)
            _quantized(graph, node, arguments.bias, allowed, "nonoverflow")
    return _tidy(graph)


def _tidy(graph: QuantizedGraph) -> QuantizedGraph:
    """Put a ``fix`` behind what has its inputs' scale; return the graph without unused ops."""
    graph.sort()
    for node in graph:
        _fix_behind(graph, node)
    graph.sort()
    graph.prune()
    return graph


def _quantized(graph: Graph, layer: Node, arg: str, allowed: range, method: str) -> tuple[int, ...]:
    """Put a ``fix`` behind a constant that has none; return its fix points."""
    source = graph[layer.inputs[arg][0]]
    if source.kind == "fix":
        return source.fix_points
    if source.value is None:
        return (0,)
    point = best_fix_point(source.value, method=method)
    point = min(max(point, allowed[0]), allowed[-1])
    name = graph.add_const(f"{source.name}_rounded", rounded(source.value, point)).name
    fix = graph.add_fix(f"{name}_fix", name, GRID.at(point))
    layer.inputs[arg] = [fix.name]
    return (point,)


def _fix_behind(graph: Graph, node: Node) -> None:
    """Put a ``fix`` behind a node whose result is on its inputs' grid and has none."""
    sources = [graph[name] for name in node.sources()]
    users = graph.consumers(node.name)
    operator = operator_of(node)
    exact = operator.on_dpu and operator.keeps_grid(node)
    if not exact or any(user.kind == "fix" for user in users):
        return
    if any(
        source.kind != "fix" or source.quantization != sources[0].quantization for source in sources
    ):
        return
    fix = graph.add_fix(f"{node.name}_fix", node.name, sources[0].quantization)
    graph.replace(node.name, fix.name)
    fix.inputs = {"input": [node.name]}
