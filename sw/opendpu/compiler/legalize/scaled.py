# SPDX-License-Identifier: Apache-2.0
"""Ops between tensors of any scale and zero point: the extension ``scaled``.

Windows, views and cuts are those of the rules for powers of two; what is added is how results are
requantized: attributes ``multiplier``, ``shift`` and ``clamp`` of the op.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from opendpu.compiler.legalize import multipliers, scaled_functions, scaled_pairs
from opendpu.compiler.legalize.average import excluding_padding
from opendpu.compiler.legalize.context import feature_shape
from opendpu.compiler.legalize.multipliers import Multipliers, clamp_of, rounding_of
from opendpu.compiler.legalize.pool import add_pool, pool
from opendpu.compiler.legalize.reduce import CHANNELS
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import RULES, Call, Rule
from opendpu.compiler.legalize.scaled_pairs import requantizes
from opendpu.compiler.legalize.zero_points import around_zero
from opendpu.ir import Node, Quantization, Rounding, TensorType
from opendpu.ops.bilinear import weights_of
from opendpu.ops.fixed.product import KIND as PRODUCT
from opendpu.ops.fixed.requantize import Halves
from opendpu.ops.window import explicit_pad

SOFTMAX_SCALE, SOFTMAX_ZERO = 1 / 256, -128
"""What the result of LiteRT's softmax in integers has."""
DENSE = ("inner-product", "matmul")
ROWS = "FULLY_CONNECTED"
"""TFLite's operator of them, which is a convolution where there are several rows."""
PRODUCTS = (
    "DPU only supports products of two feature maps whose scales are powers of two around zero; "
    "quantizing the float model would lift it"
)
INT32 = np.dtype(np.int32)
BIAS_TOLERANCE = 1e-5
"""How far the scale of a bias may be from the product of the other two, relatively: float32."""


def _layer(call: Call) -> str:
    """Make a convolution, whatever the layer; each output channel has a multiplier."""
    context, node = call.context, call.node
    if node.kind == "matmul" and context.result[call.sources[1]].value is None:
        return _product(call)
    weights_name = node.inputs["weights" if "weights" in node.inputs else "input"][-1]
    given, weights = (
        context.result[context.fixed(name)].quantization
        for name in (node.inputs["input"][0], weights_name)
    )
    dense = node.kind in DENSE or node.origin.op_type == ROWS
    found = (multipliers.of_inner_product if dense else multipliers.of_layer)(
        given, weights, call.fix.quantization
    )
    if node.inputs.get("bias"):
        _bias(call, given, weights)
    made = context.result[RULES[node.kind](call)]
    channels = made.shape[-1]
    if len(found.multiplier) == 1:
        found = Multipliers(found.multiplier * channels, found.shift * channels)
    requantizes(call, made, found, dense=dense)
    around_zero(context, made)
    return made.name


def _product(call: Call) -> str:
    """Make the product of two feature maps, for the CPU."""
    node, factors = call.node, [call.context.result[name] for name in call.sources]
    if node.inputs.get("bias") or call.fix.quantization.rounding != Rounding.STD_ROUND:
        raise Refusal(PRODUCTS, "XCOM_UNSUPPORT_QUANTIZATION")
    attrs = {key: bool(node.attrs.get(key)) for key in ("transpose_a", "transpose_b")}
    name = call.context.add(node, call.fix, PRODUCT, {"input": call.sources}, attrs)
    made = call.context.result[name]
    one, other = (factor.quantization for factor in factors)
    requantizes(call, made, multipliers.of_layer(one, other, call.fix.quantization))
    made.reason = str(Refusal(PRODUCTS, "XCOM_UNSUPPORT_QUANTIZATION"))
    return name


def _bias(call: Call, given: Quantization, weights: Quantization) -> None:
    """Bring the bias of a layer to the accumulator's scale, if it is not there."""
    context, (name,) = call.context, call.node.inputs["bias"]
    scale = np.array(given.scale) * np.array(weights.scale)
    real = context.graph[name]
    if real.kind in ("fix", "fix2float"):
        stored = context.result[context.fixed(name)]
        own = np.array(stored.quantization.scale)
        if not stored.quantization.zero_point[0] and np.allclose(
            own, scale, rtol=BIAS_TOLERANCE, atol=0.0
        ):
            return
        assert stored.value is not None
        values = stored.value.ravel() * own
    else:
        assert real.value is not None
        values = real.value.ravel().astype(np.float64)
    made = Quantization(
        tuple(scale.tolist()), axis=0 if scale.size > 1 else None, bits=32,
        rounding=Rounding.PY3_ROUND,
    )  # fmt: skip
    limits = np.iinfo(INT32)
    integers = np.clip(np.rint(values / scale), limits.min, limits.max).astype(INT32)
    constant = context.result.add(
        context.result.unique(f"{name}_integers"), "const-fix",
        TensorType(integers.shape, INT32, made), value=integers, origin=real.origin,
    )  # fmt: skip
    context.take(name, constant.name)


def _pooling(rule: Rule) -> Rule:
    """Return a rule whose pooling ops are told how they requantize."""

    def wrapped(call: Call) -> str:
        graph = call.context.result
        before = set(graph.nodes)
        made = rule(call)
        clamp = clamp_of(call.activation, call.fix.quantization)
        for node in graph:
            if node.name in before or node.kind != "pool-fix":
                continue
            given = graph[node.inputs["input"][0]].quantization
            found = Multipliers((), ())
            if node.attrs["type"] == "AVG" and (
                _is_mean(call) or not given.same_grid(node.quantization)
            ):
                count = math.prod(node.attrs["kernel"])
                found = multipliers.of_mean(given, node.quantization, count)
            node.attrs |= found.attributes(rounding_of(call.fix.quantization), clamp)
        return made

    return wrapped


def _is_mean(call: Call) -> bool:
    """Tell whether an average is MEAN of TFLite, which multiplies where scales are equal too.

    That of a whole feature map is a pooling, as AVERAGE_POOL_2D never is.
    """
    whole = call.node.attrs.get("global") and call.fix.quantization.rounding == Rounding.STD_ROUND
    return call.node.kind == "reduction_mean" or bool(whole)


def _pool(call: Call) -> str:
    """Make pooling; averages do not count padding, and may change the scale."""
    given = call.context.result[call.sources[0]].quantization
    made = call.fix.quantization
    average = call.node.kind == "avgpool2d"
    if not average and not given.same_grid(made):
        before = dataclasses.replace(
            call, fix=Node(call.fix.name, "fix", call.fix.type.with_quantization(given))
        )
        return call.context.copy(pool(before), call.node, call.fix)
    if not average:
        return pool(call)
    node, shape = call.node, call.shape()
    kernel, stride = list(node.attrs["kernel"]), list(node.attrs["stride"])
    pad = explicit_pad(node, shape)
    if node.attrs.get("global"):
        kernel, stride, pad = [shape[2], shape[1]], [shape[2], shape[1]], [0, 0, 0, 0]
    if any(pad):
        if node.attrs.get("count_include_pad", True):
            raise Refusal(
                "DPU only supports averages with scales of their own that do not count padding, "
                "but count_include_pad is true; no padding would lift it",
                "XCOM_UNIMPLEMENT",
            )
        return excluding_padding(call, kernel, stride, pad)
    attrs = {"kernel": kernel, "stride": stride, "pad": pad, "type": "AVG"}
    return add_pool(call, attrs, node.shape)


def _mean(call: Call) -> str:
    """Make pooling of a mean over rows and columns, a convolution of one over channels too."""
    context, node = call.context, call.node
    rank = len(call.shape())
    axes = {int(a) % rank + 4 - rank for a in node.attrs["axis"]}
    if rank > 4 or min(axes) < 4 - rank + 1:
        raise Refusal(
            f'DPU only supports "axis"({list(node.attrs["axis"])}) of {node.kind} of {rank} '
            "dimensions that are rows, columns and channels of up to 4; that would lift it",
            "XCOM_UNEXPECTED_VALUE",
        )
    source = context.view(call.sources[0], feature_shape(call.shape()))
    shape = context.result[source].shape
    window = [shape[a] if a in axes else 1 for a in (2, 1)]
    if CHANNELS in axes:
        return _mean_of_channels(call, source, window)
    attrs = {"kernel": window, "stride": window, "pad": [0] * 4, "type": "AVG"}
    size = (1, shape[1] // window[1], shape[2] // window[0], shape[3])
    call = dataclasses.replace(call, sources=[source])
    return context.view(add_pool(call, attrs, size), node.shape, call.fix.name)


def _mean_of_channels(call: Call, source: str, window: list[int]) -> str:
    """Make a convolution whose weights are one, and the multiplier that of a mean."""
    context, node = call.context, call.node
    shape = context.result[source].shape
    weights = np.ones((1, window[1], window[0], shape[3]), np.int8)
    inputs = {
        "input": [source], "weights": [context.constant(f"{node.name}_ones", weights, 0)],
    }  # fmt: skip
    attrs = {
        "kernel": window, "stride": [1, 1], "dilation": [1, 1], "pad": [0] * 4,
        "nonlinear": "NONE", "pad_mode": "FLOOR",
    }  # fmt: skip
    size = (1, shape[1] // window[1], shape[2] // window[0], 1)
    name = context.add(node, call.fix, "conv2d-fix", inputs, attrs, shape=size)
    given = context.result[source].quantization
    requantizes(
        call, context.result[name], multipliers.of_mean(given, call.fix.quantization, weights.size)
    )
    return context.view(name, node.shape, call.fix.name)


def _activation(call: Call) -> str:
    """Make a requantization with bounds."""
    return call.context.copy(call.sources[0], call.node, call.fix, activation=call.node)


def _function(call: Call) -> str:
    """Make the table of an activation as LiteRT computes it, in integers."""
    given, made = call.context.result[call.sources[0]].quantization, call.fix.quantization
    if made.rounding != Rounding.STD_ROUND:
        raise Refusal(
            f"DPU does not support {call.node.kind}; a table stands for it",
            "XCOM_OPERATOR_UNUPPORT",
        )
    if call.node.kind == "hard-swish":
        return scaled_functions.add_table(call, scaled_functions.hard_swish(given, made))
    slope = float(call.node.attrs["alpha"])
    return scaled_functions.add_table(call, scaled_functions.leaky_relu(given, made, slope))


def _softmax(call: Call) -> str:
    """Make LiteRT's softmax in integers, for the CPU."""
    made, (axis,) = call.fix.quantization, [int(call.node.attrs["axis"])]
    exact = made.scale[0] == SOFTMAX_SCALE and made.zero_point[0] == SOFTMAX_ZERO
    if made.rounding != Rounding.STD_ROUND or not exact or axis % len(call.shape()) != (
        len(call.shape()) - 1
    ):  # fmt: skip
        raise Refusal(
            "DPU does not support softmax; it is computed in float on the CPU",
            "XCOM_OPERATOR_UNUPPORT",
        )
    attrs = {"input_scale": call.context.result[call.sources[0]].quantization.scale[0]}
    return call.context.add(call.node, call.fix, "softmax-fix", {"input": [call.sources[0]]}, attrs)


def _resize(call: Call) -> str:
    """Repeat pixels, leave some out, or interpolate; the CPU has what layers do not."""
    context, node, attrs = call.context, call.node, call.node.attrs
    if str(attrs["mode"]).upper() != "BILINEAR" or call.shape()[1:3] == (1, 1):
        return RULES["resize"](call)
    given, made = context.result[call.sources[0]].quantization, call.fix.quantization
    try:
        found = _interpolating(call, given)
        name = RULES["resize"](call)
    except Refusal as refusal:
        if made.rounding != Rounding.STD_ROUND or len(call.shape()) != 4:
            raise
        kept = ("mode", "scale", "align_corners", "half_pixel_centers")
        name = context.add(
            node, call.fix, "upsample-fix", {"input": call.sources},
            {key: attrs.get(key, False) for key in kept} | {"mode": "BILINEAR"},
        )  # fmt: skip
        context.result[name].reason, found = str(refusal), Multipliers((), ())
    context.result[name].attrs |= found.attributes(Halves.ONCE, clamp_of(None, made))
    return name


def _interpolating(call: Call, given: Quantization) -> Multipliers:
    """Return what becomes of sums of pixels; nothing where the scale stays.

    Pixels of another scale are not given the result's before: a sum is rounded, and bounded, once.
    """
    if given.same_grid(call.fix.quantization):
        return Multipliers((), ())
    weights = weights_of(call.node.attrs)
    if weights is None:
        return Multipliers((), ())  # it is refused for that
    factor = given.scale[0] / (call.fix.quantization.scale[0] * (1 << weights[0]))
    if factor >= 1:
        raise Refusal(
            f"DPU only supports a BILINEAR resize to a scale above {1 / (1 << weights[0]):g} of "
            f"its input's, but they are {call.fix.quantization.scale[0]:g} and "
            f"{given.scale[0]:g}; a larger scale would lift it",
            "XCOM_UNSUPPORT_QUANTIZATION",
        )
    return Multipliers.of([factor])


MOVING = (
    "reshape", "flatten", "squeeze", "concat", "strided_slice", "pad", "gstiling", "reorg",
    "pixel-shuffle", "transpose",
)  # fmt: skip
"""Kinds that only move what is requantized before: their rules are those for powers of two."""
FUSING = (
    "conv2d", "depthwise-conv2d", "transposed-conv2d", "transposed-depthwise-conv2d",
    "inner-product", "matmul", "add", "sub", "mul", "avgpool2d", "maxpool2d",
)  # fmt: skip
"""Kinds in front of them."""
SCALED_RULES: dict[str, Callable[[Call], str]] = {
    **dict.fromkeys(
        ("conv2d", "depthwise-conv2d", "transposed-conv2d", "transposed-depthwise-conv2d",
         "inner-product", "matmul"), _layer,
    ),
    **scaled_pairs.PAIR_RULES,
    "avgpool2d": _pooling(_pool), "maxpool2d": _pooling(_pool),
    "reduction_mean": _pooling(_mean),
    "relu": _activation, "relu6": _activation, "softmax": _softmax,
    "leaky-relu": _function, "hard-swish": _function,
    "resize": _resize, **{kind: RULES[kind] for kind in MOVING},
}  # fmt: skip
"""Rules of the kinds that compute with any scale."""
