# SPDX-License-Identifier: Apache-2.0
"""Bias correction: the means of what layers compute, before and after quantization, made equal."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph, Node
from opendpu.quantize.fold import LAYERS
from opendpu.reference.floating import check_inputs, compute, walk

Array = npt.NDArray[Any]


def add_biases(graph: Graph) -> None:
    """Give every layer without a bias one of zeros, in place."""
    for node in graph:
        if node.kind in LAYERS and not node.inputs.get("bias"):
            zeros = np.zeros(node.shape[-1])
            node.inputs["bias"] = [graph.add_const(f"{node.name}_bias", zeros).name]
    graph.sort()


def correct_biases(graph: Graph, quantized: Graph, samples: Mapping[str, Array]) -> None:
    """Shift the biases of a quantized graph, in place, layer by layer from the inputs on.

    Quantized weights and activations move the mean of a channel; the difference to the float
    graph, measured on all ``samples`` at once, goes into the bias, on the bias's grid.
    """
    means = {
        name: mean_of(array) for name, array in walk(graph, samples) if graph[name].kind in LAYERS
    }
    results: dict[str, Array] = dict(check_inputs(quantized, samples))
    users = {name: len(nodes) for name, nodes in quantized.consumer_map().items()}
    for node in quantized:
        if node.value is not None:
            results[node.name] = node.value
        elif stands_on_grid(quantized, node):
            results[node.name] = results[node.inputs["input"][0]]
        elif node.kind != "data":
            given = {arg: [results[n] for n in names] for arg, names in node.inputs.items()}
            array = compute(node, given)
            if node.name in means and node.inputs.get("bias"):
                change = bias_change(quantized, node, means[node.name] - mean_of(array))
                constant = quantized[quantized[node.inputs["bias"][0]].inputs["input"][0]]
                constant.value = constant.value + change
                array = array + change
            results[node.name] = array
        for name in dict.fromkeys(node.sources()):
            users[name] -= 1
            if not users[name]:
                del results[name]


def stands_on_grid(quantized: Graph, node: Node) -> bool:
    """Return whether a node is the ``fix`` of a constant, whose values are on its grid already."""
    return node.kind == "fix" and quantized[node.inputs["input"][0]].value is not None


def mean_of(array: Array) -> Array:
    """Return the mean of each channel."""
    return np.asarray(array.reshape(-1, array.shape[-1]).mean(axis=0, dtype=np.float64))


def bias_change(quantized: Graph, layer: Node, wanted: Array) -> Array:
    """Return the change nearest to ``wanted`` that the bias of a layer can make on its grid."""
    fix = quantized[layer.inputs["bias"][0]]
    value = quantized[fix.inputs["input"][0]].value
    assert value is not None
    scale = 2.0**fix.fix_point
    integers = np.clip(np.floor((value + wanted) * scale + 0.5), -128, 127)
    return np.asarray((integers / scale - value).astype(np.float32))
