# SPDX-License-Identifier: Apache-2.0
"""Models that come quantized: positions for the constants that they leave in float."""

import numpy as np

from opendpu.ir import Graph, Node, Quantization, QuantizedGraph
from opendpu.quantize.approximate import approximate
from opendpu.quantize.calibrate import best_position
from opendpu.quantize.fold import LAYERS
from opendpu.quantize.legality import SHIFT_BIAS

EXACT = (
    "reshape", "flatten", "squeeze", "transpose", "strided_slice", "concat", "maxpool2d",
    "reduction_max", "relu",
)  # fmt: skip
"""Kinds whose result is on the grid of their inputs."""


def is_quantized(graph: Graph) -> bool:
    """Return whether a graph has tensors that are quantized already."""
    return any(node.kind == "fix" for node in graph)


def complete(graph: Graph) -> QuantizedGraph:
    """Return a quantized graph with a ``fix`` wherever the DPU needs one and it is known.

    What only moves or compares data gets its input's behind it. Weights without a ``fix`` get the
    position with the least squared error. Biases, which other quantizers keep in 32 bits, get 8
    bits at the finest position at which none saturates and that the DPU can shift to the
    accumulator's.
    """
    graph = graph.moved(QuantizedGraph)
    approximate(graph)
    for node in graph:
        if node.kind not in LAYERS or graph[node.inputs["input"][0]].kind != "fix":
            continue
        weights = _quantized(graph, node, "weights", range(-128, 128))
        accumulator = weights + graph[node.inputs["input"][0]].fix_point
        if node.inputs.get("bias"):
            most = accumulator + 1
            _quantized(graph, node, "bias", range(most - SHIFT_BIAS[-1], most + 1))
    graph.sort()
    for node in graph:
        _fix_behind(graph, node)
    graph.sort()
    graph.prune()
    return graph


def _quantized(graph: Graph, layer: Node, arg: str, allowed: range) -> int:
    """Put a ``fix`` behind a constant that has none; return its position."""
    source = graph[layer.inputs[arg][0]]
    if source.kind == "fix":
        return source.fix_point
    if source.value is None:
        return 0
    method = "minmse" if arg == "weights" else "nonoverflow"
    position = best_position(source.value, method=method)
    position = min(max(position, allowed[0]), allowed[-1])
    integers = np.clip(np.floor(source.value * 2.0**position + 0.5), -128, 127)
    name = graph.add_const(f"{source.name}_rounded", integers * 2.0**-position).name
    fix = graph.add_fix(f"{name}_fix", name, Quantization.power_of_two(position))
    layer.inputs[arg] = [fix.name]
    return position


def _fix_behind(graph: Graph, node: Node) -> None:
    """Put a ``fix`` behind a node whose result is on its inputs' grid and has none."""
    sources = [graph[name] for name in node.sources()]
    users = graph.consumers(node.name)
    if node.kind not in EXACT or any(user.kind == "fix" for user in users):
        return
    if any(
        source.kind != "fix" or source.quantization != sources[0].quantization for source in sources
    ):
        return
    fix = graph.add_fix(f"{node.name}_fix", node.name, sources[0].quantization)
    graph.replace(node.name, fix.name)
    fix.inputs = {"input": [node.name]}
