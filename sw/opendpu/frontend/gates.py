# SPDX-License-Identifier: Apache-2.0
"""Hard-sigmoids whose 3 a converter has put into the bias of the layer before them.

TensorFlow's converter to TFLite makes ``relu6(layer(x) + 3) / 6`` a layer with another bias and
ReLU6, and a product. It is one operator of the DPU, as through the other doors.
"""

import numpy as np

from opendpu.ir import Graph, Node

LAYERS = ("conv2d", "depthwise-conv2d", "inner-product")
SHIFT, FACTOR = 3.0, 1 / 6
TOLERANCE = 1e-4
"""How far the factor may be from 1/6, as of a half-precision file."""


def join_gates(graph: Graph) -> None:
    """Make one operator of each, in place."""
    for node in list(graph):
        if node.kind == "scale" and _is_sixth(graph, node):
            _join(graph, node)
    graph.prune()


def _join(graph: Graph, product: Node) -> None:
    limited = graph[product.inputs["input"][0]]
    if limited.kind != "relu6" or not graph.is_read_once(limited.name):
        return
    layer = graph[limited.inputs["input"][0]]
    if layer.kind not in LAYERS or not graph.is_read_once(layer.name) or "bias" not in layer.inputs:
        return
    bias = graph[layer.inputs["bias"][0]].value
    if bias is None:
        return
    name = graph.unique(f"{layer.name}_bias")
    layer.inputs["bias"] = [graph.add_const(name, (bias - SHIFT).astype(bias.dtype)).name]
    product.kind, product.attrs = "hard-sigmoid", {}
    product.inputs = {"input": [layer.name]}


def _is_sixth(graph: Graph, node: Node) -> bool:
    """Return whether a scale multiplies by a sixth, and adds nothing."""
    factor, *added = (
        graph[node.inputs[arg][0]].value for arg in ("scale", "bias") if arg in node.inputs
    )
    if factor is None or not np.all(np.abs(factor - FACTOR) <= TOLERANCE * FACTOR):
        return False
    return all(value is not None and not np.any(value) for value in added)
