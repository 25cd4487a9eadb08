# SPDX-License-Identifier: Apache-2.0
"""Graphs as operators of TensorFlow: for networks that are trained, and for frozen graphs.

Every function takes a node, the tensors of its inputs and the name that its result gets. Feature
maps are NHWC in both, so that nothing is transposed but weights.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Graph, Node
from opendpu.ops.foreign import KIND as FOREIGN
from opendpu.ops.pooling import counted_elements
from opendpu.ops.window import explicit_pad, pair, transposed_pad, whole_window
from opendpu_arch.errors import UnsupportedError
from vai_q_tensorflow2 import elementwise
from vai_q_tensorflow2.elementwise import Emit, Given, Name, Tensor
from vai_q_tensorflow2.onnx_operators import translate_call

LOWEST = float(np.finfo(np.float32).min)


def translate(
    graph: Graph,
    feeds: Mapping[str, Tensor],
    *,
    constant: Callable[[Node], Tensor],
    named: Callable[[Node], Name] = lambda node: None,
    rounded: Callable[[Node, Tensor], Tensor] = lambda node, value: value,
) -> dict[str, Tensor]:
    """Return what every node of a graph makes, as tensors of TensorFlow.

    Parameters
    ----------
    graph
        The graph; its first axis is the batch, of any size.
    feeds
        Inputs by name.
    constant
        Gives the tensor of a constant.
    named
        Gives the name of a node's operator.
    rounded
        Told every computed tensor; returns what is read instead of it.

    Raises
    ------
    UnsupportedError
        An op that has no form in TensorFlow.
    """
    values: dict[str, Tensor] = {}
    for node in graph:
        if node.kind == "data":
            made = feeds[node.name]
        elif node.value is not None:
            values[node.name] = constant(node)
            continue
        else:
            emit = EMITS.get(node.kind)
            if emit is None:
                raise UnsupportedError(
                    f"op {node.name!r} of kind {node.kind!r} has no form in TensorFlow here; leave "
                    "it out of the quantized part, or use opendpu quantize"
                )
            given = {arg: [values[n] for n in names] for arg, names in node.inputs.items()}
            made = emit(graph, node, given, named(node))
        values[node.name] = rounded(node, made)
    return values


def _padded(x: Tensor, pad: Sequence[int], fill: float = 0.0) -> Tensor:
    left, right, top, bottom = pad
    if not any(pad):
        return x
    return tf.pad(x, [[0, 0], [top, bottom], [left, right], [0, 0]], constant_values=fill)


def _biased(given: Given, make: Callable[[Name], Tensor], name: Name) -> Tensor:
    """Return a sum with its bias; the name belongs to what comes out."""
    if not given.get("bias"):
        return make(name)
    inner = None if name is None else f"{name}/product"
    return tf.nn.bias_add(make(inner), given["bias"][0], name=name)


def _conv(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    (source,) = node.inputs["input"]
    x = _padded(given["input"][0], explicit_pad(node, graph[source].shape))
    kernel = tf.transpose(given["weights"][0], [1, 2, 3, 0])  # OHWI; of depthwise ones MHWC
    stride, gaps = pair(node, "stride")[::-1], pair(node, "dilation")[::-1]
    if node.kind == "depthwise-conv2d":
        steps = [1, *stride, 1]
        return _biased(given, lambda named: tf.nn.depthwise_conv2d(
            x, kernel, steps, "VALID", dilations=list(gaps), name=named), name)  # fmt: skip
    groups = int(node.attrs.get("group") or 1)

    def product(named: Name) -> Tensor:
        if groups == 1:
            return tf.nn.conv2d(x, kernel, list(stride), "VALID", dilations=list(gaps), name=named)
        parts = zip(tf.split(x, groups, -1), tf.split(kernel, groups, -1), strict=True)
        made = [tf.nn.conv2d(a, b, list(stride), "VALID", dilations=list(gaps)) for a, b in parts]
        return tf.concat(made, -1, name=named)

    return _biased(given, product, name)


def _transposed(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    """Emit the gradient of a convolution, whose kernel is XIR's rotated by half a turn."""
    x, weights = given["input"][0], given["weights"][0]
    shape, stride = graph[node.inputs["input"][0]].shape, pair(node, "stride")[::-1]
    if pair(node, "dilation") != (1, 1) or int(node.attrs.get("group") or 1) != 1:
        raise UnsupportedError(
            f"op {node.name!r}: transposed convolutions with dilation or groups have no form in "
            "TensorFlow"
        )
    kernel = tf.reverse(weights, [1, 2])
    if node.kind == "transposed-depthwise-conv2d":  # [1, h, w, c]: a full kernel with zeros
        kernel = tf.transpose(kernel[0], [0, 1, 2])[..., None] * tf.eye(shape[3])
    else:
        kernel = tf.transpose(kernel, [1, 2, 0, 3])
    window = [int(size) for size in kernel.shape[:2]]
    sizes = [(n - 1) * s + k for n, s, k in zip(shape[1:3], stride, window, strict=True)]
    left, right, top, bottom = transposed_pad(node)

    steps, channels = [1, *stride, 1], int(kernel.shape[2])

    def product(named: Name) -> Tensor:
        if min(left, right, top, bottom) >= 0:
            within = [sizes[0] - top - bottom, sizes[1] - left - right]
            pads = [[0, 0], [top, bottom], [left, right], [0, 0]]
            return tf.nn.conv2d_transpose(
                x, kernel, [tf.shape(x)[0], *within, channels], steps, pads, name=named
            )
        whole = tf.nn.conv2d_transpose(
            x, kernel, [tf.shape(x)[0], *sizes, channels], steps, "VALID"
        )
        made = whole[:, top : sizes[0] - bottom, left : sizes[1] - right]
        return tf.identity(made, name=named)

    return _biased(given, product, name)


def _inner_product(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    shape = graph[node.inputs["input"][0]].shape
    axis = int(node.attrs["axis"]) % len(shape)
    x, weights = given["input"][0], given["weights"][0]
    if axis != len(shape) - 1:
        x = tf.reshape(x, [-1, *shape[1:axis], math.prod(shape[axis:])])
    matrix = tf.transpose(tf.reshape(weights, [weights.shape[0], -1]))
    product = tf.matmul if len(x.shape) == 2 else lambda a, b, name: tf.tensordot(a, b, 1, name)
    return _biased(given, lambda named: product(x, matrix, name=named), name)


def _max_pool(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    kernel, stride, pad = whole_window(node, graph[node.inputs["input"][0]].shape)
    x = _padded(given["input"][0], pad, LOWEST)
    return tf.nn.max_pool2d(x, list(kernel[::-1]), list(stride[::-1]), "VALID", name=name)


def _average_pool(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    shape = graph[node.inputs["input"][0]].shape
    kernel, stride, pad = whole_window(node, shape)
    x = _padded(given["input"][0], pad)
    counted = counted_elements(node, shape)
    plain = bool((counted == math.prod(kernel)).all())
    named = name if plain else None
    made = tf.nn.avg_pool2d(x, list(kernel[::-1]), list(stride[::-1]), "VALID", name=named)
    if plain:
        return made
    factor = (math.prod(kernel) / counted).astype(np.float32)[None, :, :, None]
    return tf.multiply(made, factor, name=name)


def _reduction(function: str) -> Emit:
    def emit(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
        axes = [int(axis) for axis in node.attrs["axis"]]
        keep = bool(node.attrs["keep_dims"])
        return getattr(tf, function)(given["input"][0], axes, keepdims=keep, name=name)

    return emit


def _joined(function: Callable[..., Tensor]) -> Emit:
    """Return the emitter of a function of two tensors, applied from the left on."""

    def emit(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
        made, *others = given["input"]
        for number, other in enumerate(others, 1):
            made = function(made, other, name=name if number == len(others) else None)
        return made

    return emit


def _reshape(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    return tf.reshape(given["input"][0], [-1, *node.shape[1:]], name=name)


def _rearranged(split: Callable[[Node, Sequence[int]], tuple[list[int], list[int]]]) -> Emit:
    """Return the emitter of a reshape, a transpose and a reshape."""

    def emit(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
        sizes, order = split(node, graph[node.inputs["input"][0]].shape)
        made = tf.transpose(tf.reshape(given["input"][0], [-1, *sizes]), order)
        return tf.reshape(made, [-1, *node.shape[1:]], name=name)

    return emit


def _shuffle(node: Node, shape: Sequence[int]) -> tuple[list[int], list[int]]:
    size, (_, height, width, channels) = int(node.attrs["scale"]), shape
    if node.attrs["upscale"]:
        return [height, width, channels // size**2, size, size], [0, 1, 4, 2, 5, 3]
    return [height // size, size, width // size, size, channels], [0, 1, 3, 5, 2, 4]


def _tile(node: Node, shape: Sequence[int]) -> tuple[list[int], list[int]]:
    size, (_, height, width, channels) = int(node.attrs["stride"]), shape
    if node.attrs["reverse"]:
        return [height, width, size, size, channels // size**2], [0, 1, 3, 2, 4, 5]
    return [height // size, size, width // size, size, channels], [0, 1, 3, 2, 4, 5]


def _transpose(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    return tf.transpose(given["input"][0], [int(a) for a in node.attrs["order"]], name=name)


def _concat(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    return tf.concat(list(given["input"]), int(node.attrs["axis"]), name=name)


def _slice(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    begin, end, strides = ([int(n) for n in node.attrs[key]] for key in ("begin", "end", "strides"))
    return tf.strided_slice(
        given["input"][0], begin, end, strides, begin_mask=1, end_mask=1, name=name
    )


def _pad(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    amounts = np.reshape([int(n) for n in node.attrs["paddings"]], (-1, 2)).tolist()
    fill = float((node.attrs.get("constant_values") or [0.0])[0])
    mode = str(node.attrs["mode"]).upper()
    return tf.pad(given["input"][0], amounts, mode, constant_values=fill, name=name)


def _resize(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    bilinear = str(node.attrs["mode"]).upper() == "BILINEAR"
    function = tf.raw_ops.ResizeBilinear if bilinear else tf.raw_ops.ResizeNearestNeighbor
    return function(
        images=given["input"][0], size=list(node.shape[1:3]), name=name,
        align_corners=bool(node.attrs.get("align_corners")),
        half_pixel_centers=bool(node.attrs.get("half_pixel_centers")),
    )  # fmt: skip


def _foreign(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    return translate_call(node, given.get("input", []), name)


def _matmul(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    a, b = given["input"]
    turned = {key: bool(node.attrs.get(key)) for key in ("transpose_a", "transpose_b")}
    return _biased(given, lambda named: tf.matmul(a, b, **turned, name=named), name)


def _softmax(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    return tf.nn.softmax(given["input"][0], int(node.attrs["axis"]), name=name)


def _argmax(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    axis = int(node.attrs["axis"])
    return tf.argmax(given["input"][0], axis, output_type=tf.int32, name=name)


def _fix(graph: Graph, node: Node, given: Given, name: Name) -> Tensor:
    """Emit TensorFlow's own operator, which rounds halves up, as the DPU does."""
    low, high = node.quantization.limits
    scale = 2.0**-node.fix_point
    return tf.quantization.fake_quant_with_min_max_args(
        given["input"][0], low * scale, high * scale, num_bits=node.quantization.bits, name=name
    )


EMITS: dict[str, Emit] = {
    **dict.fromkeys(("conv2d", "depthwise-conv2d"), _conv),
    **dict.fromkeys(("transposed-conv2d", "transposed-depthwise-conv2d"), _transposed),
    "inner-product": _inner_product, "maxpool2d": _max_pool, "avgpool2d": _average_pool,
    "reduction_max": _reduction("reduce_max"), "reduction_mean": _reduction("reduce_mean"),
    "reduction_sum": _reduction("reduce_sum"), "reduction_product": _reduction("reduce_prod"),
    "argmax": _argmax, "softmax": _softmax, "fix": _fix,
    "add": _joined(tf.add), "sub": _joined(tf.subtract), "mul": _joined(tf.multiply),
    "div": _joined(tf.divide), "min": _joined(tf.minimum), "max": _joined(tf.maximum),
    **elementwise.EMITS,
    **dict.fromkeys(("reshape", "flatten", "squeeze"), _reshape),
    "matmul": _matmul, FOREIGN: _foreign,
    "transpose": _transpose, "concat": _concat, "strided_slice": _slice, "pad": _pad,
    "resize": _resize, "pixel-shuffle": _rearranged(_shuffle), "gstiling": _rearranged(_tile),
}  # fmt: skip
"""By kind of op."""
