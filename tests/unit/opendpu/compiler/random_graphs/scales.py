# SPDX-License-Identifier: Apache-2.0
"""Any scales and zero points in place of powers of two, for targets with ``scaled``."""

import math
import random

import numpy as np

from opendpu.integer import IntegerNetwork
from opendpu.ir import Graph, Quantization, QuantizedGraph, Rounding

SPREAD = 0.4
"""Largest logarithm of what a scale is changed by."""
OUTPUT_AXES = {
    "conv2d": 0, "transposed-conv2d": 0, "inner-product": 0,
    "depthwise-conv2d": 3, "transposed-depthwise-conv2d": 3,
}  # fmt: skip
"""Axis of the output channels in the weights of each kind of layer."""


def with_any_scales(graph: QuantizedGraph, pick: random.Random) -> None:
    """Give every ``fix`` of a graph a scale near its power of two, in place.

    Feature maps get a zero point, most weights a scale for each output channel. Results are
    rounded TFLite's way or ONNX's, the same in the whole graph.
    """
    rounding = pick.choice([Rounding.STD_ROUND, Rounding.PY3_ROUND])
    axes = {
        node.inputs["weights"][0]: OUTPUT_AXES[node.kind]
        for node in graph
        if node.kind in OUTPUT_AXES and pick.random() < 0.7
    }
    for node in graph:
        if node.kind != "fix":
            continue
        axis, point = axes.get(node.name), node.quantization.fix_points[0]
        scales = tuple(
            float(np.float32(2.0**-point * math.exp(pick.uniform(-SPREAD, SPREAD))))
            for _ in range(1 if axis is None else node.shape[axis])
        )
        if graph[node.inputs["input"][0]].kind == "const":
            made = Quantization(
                scales, axis=axis if len(scales) > 1 else None, rounding=Rounding.PY3_ROUND
            )
        else:
            zero = pick.choice([0, -128, pick.randint(-128, 127), pick.randint(-20, 20)])
            made = Quantization(scales, (zero,), rounding=rounding)
        node.type = node.type.with_quantization(made)


def by_integers(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what the integer reference computes, which is compared with LiteRT elsewhere."""
    assert isinstance(graph, QuantizedGraph)
    network = IntegerNetwork(graph, scaled=True)
    heads = {node.tensor_name for node in network.graph}  # without inputs that nobody reads
    return network.run({name: values for name, values in inputs.items() if name in heads})
