# SPDX-License-Identifier: Apache-2.0
"""Batch normalization and per-channel scales, folded into the layer before them."""

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph, Node

Array = npt.NDArray[np.float64]

LAYERS = (
    "conv2d", "depthwise-conv2d", "transposed-conv2d", "transposed-depthwise-conv2d",
    "inner-product",
)  # fmt: skip
"""Kinds with weights and bias."""


def fold(graph: Graph) -> None:
    """Fold every ``batchnorm`` and ``scale`` into the layer before it, in place.

    One that stands alone on a feature map becomes a 1x1 ``depthwise-conv2d``.
    """
    for node in graph:
        if node.kind not in ("batchnorm", "scale"):
            continue
        factor, offset = _affine(graph, node)
        source = graph[node.inputs["input"][0]]
        alone = len(graph.consumers(source.name)) == 1 and source.name not in graph.outputs
        if source.kind in LAYERS and alone and source.shape[-1] == factor.size:
            _into_layer(graph, source, factor, offset)
            _take_over(graph, node.name, source.name)
        elif len(node.shape) == 4:
            _to_depthwise(graph, node, factor, offset)
    graph.prune()
    graph.sort()


def _affine(graph: Graph, node: Node) -> tuple[Array, Array]:
    """Return factor and offset of each channel."""

    def values(arg: str) -> Array:
        value = graph[node.inputs[arg][0]].value
        assert value is not None
        return value.astype(np.float64)

    if node.kind == "scale":
        factor = values("scale")
        return factor, values("bias") if "bias" in node.inputs else np.zeros_like(factor)
    deviation = np.sqrt(values("moving_var") + node.attrs["epsilon"])
    factor = values("gamma") / deviation
    return factor, values("beta") - values("moving_mean") * factor


def _into_layer(graph: Graph, layer: Node, factor: Array, offset: Array) -> None:
    weights = graph[layer.inputs["weights"][0]].value
    assert weights is not None
    per_output = factor.reshape((-1,) + (1,) * (weights.ndim - 1))
    scaled = weights * (factor if "depthwise" in layer.kind else per_output)
    bias = bias_of(graph, layer) * factor + offset
    set_parameters(graph, layer, scaled, bias)


def bias_of(graph: Graph, layer: Node) -> Array:
    """Return the bias of a layer, zeros if it has none."""
    if not layer.inputs.get("bias"):
        return np.zeros(layer.shape[-1])
    value = graph[layer.inputs["bias"][0]].value
    assert value is not None
    return value.astype(np.float64)


def set_parameters(graph: Graph, layer: Node, weights: Array, bias: Array) -> None:
    """Give a layer other weights and another bias; the old constants stay for other users."""
    for arg, array in (("weights", weights), ("bias", bias)):
        old = layer.inputs.get(arg, [])
        if old and len(graph.consumers(old[0])) == 1:
            constant = graph[old[0]]
            constant.value = array.astype(np.float32)
            constant.type = constant.type.with_shape(array.shape)
        else:
            layer.inputs[arg] = [graph.add_const(f"{layer.name}_{arg}", array).name]
    graph.sort()


def _take_over(graph: Graph, name: str, source: str) -> None:
    """Let ``source`` do the work of node ``name``, and take its name if that is an output."""
    output = name in graph.outputs
    graph.replace(name, source)
    del graph.nodes[name]
    if output:
        graph.rename(source, name)


def _to_depthwise(graph: Graph, node: Node, factor: Array, offset: Array) -> None:
    weights = graph.add_const(f"{node.name}_weights", factor.reshape(1, 1, 1, -1))
    bias = graph.add_const(f"{node.name}_bias", offset)
    node.kind = "depthwise-conv2d"
    node.inputs = {"input": node.inputs["input"], "weights": [weights.name], "bias": [bias.name]}
    node.attrs = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
