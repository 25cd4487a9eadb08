# SPDX-License-Identifier: Apache-2.0
"""Batch normalization and per-channel scales, folded into the layer before or behind them."""

import math

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph, Node
from opendpu.ops.foreign import KIND
from opendpu.ops.window import explicit_pad, pixel_window
from opendpu.quantize.layers import (
    bias_of,
    by_output,
    has_constant_weights,
    is_layer,
    scaled_inputs,
    scaled_outputs,
    set_parameters,
    weights_of,
)

Array = npt.NDArray[np.float64]

_READERS = ("conv2d", "depthwise-conv2d", "inner-product")
"""Layers that factors and offsets of their input can be folded into: every result of theirs meets
all taps."""
_SPREAD = 4.0
"""The largest factor over the smallest that a layer behind takes: it has one scale for the weights
of all its input channels."""

_MOST_OF_A_GUARD = 1e-3
"""The largest constant that is taken for one that keeps a variance from zero."""


def fold(graph: Graph) -> None:
    """Fold every ``batchnorm`` and ``scale`` into the layer before it, in place.

    Reshapes that keep channels, as those of a normalization over all tokens of a batch, are looked
    through. One that stands alone on a feature map is folded into the layers behind it, where these
    are all that reads it and none sees its padding; else it becomes a 1x1 ``depthwise-conv2d``.
    """
    for name in reversed(_fold_back(graph)):
        if name in graph.nodes:  # else an output that came behind gave it its name
            _fold_forward(graph, graph[name])
    graph.sort()
    graph.prune()


def _fold_back(graph: Graph) -> list[str]:
    """Fold into the layers before; return what stands alone, as depthwise convolutions now."""
    found = []
    for node in graph:
        if node.kind not in ("batchnorm", "scale") or not _is_channelwise(graph, node):
            continue
        factor, offset = _affine(graph, node)
        source = _unshaped(graph, node)
        alone = graph.is_read_once(source.name)
        layer = is_layer(source) and has_constant_weights(graph, source)
        if layer and alone and source.shape[-1] == factor.size:
            _into_layer(graph, source, factor, offset)
            _take_over(graph, node.name, node.inputs["input"][0])
        elif (
            _is_pixels(node) or _is_pixels(source) or _are_inner_features(graph, node)
        ) and not _is_guard(graph, node, factor, offset):
            whole = _as_feature_map(graph, node)
            _to_depthwise(graph, whole, factor, offset)
            found.append(whole.name)
    return found


def _unshaped(graph: Graph, node: Node) -> Node:
    """Return what an op reads, in front of reshapes that keep channels and that only it reads."""
    source = graph[node.inputs["input"][0]]
    while source.kind == "reshape" and graph.is_read_once(source.name):
        before = graph[source.inputs["input"][0]]
        if before.shape[-1:] != node.shape[-1:]:
            break
        source = before
    return source


def _is_pixels(node: Node) -> bool:
    """Return whether a result is a feature map, or one in another shape: tokens, heads."""
    return len(node.shape) == 4 or (len(node.shape) > 2 and node.shape[0] == 1)


def _are_inner_features(graph: Graph, node: Node) -> bool:
    """Return whether a result is features without space that something reads.

    At the end of a network they stay in float.
    """
    return len(node.shape) == 2 and node.shape[0] == 1 and bool(_readers(graph, node))


def _as_feature_map(graph: Graph, node: Node) -> Node:
    """Return an op of four axes that computes the same; the op itself reshapes its result then."""
    if len(node.shape) == 4:
        return node
    shape = (1, math.prod(node.shape[:-2]), *node.shape[-2:])
    rows = graph.add(
        graph.unique(f"{node.name}_rows"), "reshape", shape, {"input": node.inputs["input"]},
        {"shape": list(shape)}, origin=node.origin,
    )  # fmt: skip
    made = graph.add(
        graph.unique(f"{node.name}_scaled"), node.kind, shape,
        {**node.inputs, "input": [rows.name]}, node.attrs, origin=node.origin,
    )  # fmt: skip
    node.kind, node.inputs = "reshape", {"input": [made.name]}
    node.attrs = {"shape": list(node.shape)}
    return made


def _is_guard(graph: Graph, node: Node, factor: Array, offset: Array) -> bool:
    """Return whether a sum only keeps an operator of the CPU, such as a root, from zero.

    In eight bits it would be lost, and a corrected bias could be below zero: it stays in float.
    """
    added = bool(np.all(factor == 1) and np.all((offset > 0) & (offset <= _MOST_OF_A_GUARD)))
    readers = graph.consumers(node.name)
    return added and bool(readers) and all(reader.kind == KIND for reader in readers)


def _fold_forward(graph: Graph, node: Node) -> None:
    """Fold a depthwise convolution of one pixel into all that reads it, if that is possible."""
    factor, offset = weights_of(graph, node).astype(np.float64).ravel(), bias_of(graph, node)
    size = np.abs(factor)
    if not 0 < size.max() <= _SPREAD * size.min():
        return
    readers = _readers(graph, node)
    if not readers or not all(_takes(graph, one, node, offset) for one in readers):
        return
    for layer in readers:
        weights = weights_of(graph, layer)
        bias = bias_of(graph, layer) + _response(layer, weights.astype(np.float64), offset)
        set_parameters(graph, layer, scaled_inputs(layer, weights, factor), bias)
    graph.replace(node.name, node.inputs["input"][0])
    del graph.nodes[node.name]


def _readers(graph: Graph, node: Node) -> list[Node]:
    """Return what reads a result; of one pixel, through reshapes; none if it is an output."""
    found: list[Node] = []
    waiting = [node]
    features = math.prod(node.shape[:-1]) == 1
    while waiting:
        made = waiting.pop()
        if made.name in graph.outputs:
            return []
        for reader in graph.consumers(made.name):
            views = features and reader.kind == "reshape" and reader.shape[-1:] == node.shape[-1:]
            (waiting if views else found).append(reader)
    return found


def _takes(graph: Graph, layer: Node, node: Node, offset: Array) -> bool:
    """Return whether a layer computes the same of the input of ``node`` with other parameters."""
    if layer.kind not in _READERS or not has_constant_weights(graph, layer):
        return False
    shape = weights_of(graph, layer).shape
    if layer.kind == "depthwise-conv2d":
        matches = shape[0] == 1
    elif layer.kind == "conv2d":
        matches = shape[-1] == offset.size
    else:
        matches = shape[-1] % offset.size == 0
    padded = layer.kind != "inner-product" and any(explicit_pad(layer, node.shape))
    return matches and not (padded and np.any(offset))


def _response(layer: Node, weights: Array, offset: Array) -> Array:
    """Return what a layer without padding makes of a map that is ``offset`` at every pixel."""
    if layer.kind == "depthwise-conv2d":
        return np.asarray(by_output(layer, weights).sum(axis=1) * offset)
    taps = weights.reshape(weights.shape[0], -1, offset.size)
    return np.asarray(taps.sum(axis=1) @ offset)


def _is_channelwise(graph: Graph, node: Node) -> bool:
    """Return whether an op has a constant factor and offset for each index of its last axis."""
    constants = [name for arg, names in node.inputs.items() if arg != "input" for name in names]
    last = int(node.attrs.get("axis", -1)) % len(node.shape) == len(node.shape) - 1
    return last and all(graph[name].value is not None for name in constants)


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
    scaled = scaled_outputs(layer, weights_of(graph, layer), factor)
    bias = bias_of(graph, layer) * factor + offset
    set_parameters(graph, layer, scaled, bias)


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
    node.attrs = pixel_window()
