# SPDX-License-Identifier: Apache-2.0
"""Activations that stand alone, between two ``fix`` ops."""

import dataclasses

from opendpu.compiler.fixed import point_of
from opendpu.compiler.legalize.activation import LEAKY_SLOPE, is_leaky_slope, nonlinear
from opendpu.compiler.legalize.affine import affine
from opendpu.compiler.legalize.context import feature_shape
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call, legalizes

MAX_SLOPE_SHIFT = 31
"""Bits that the slope of a leaky-relu is shifted right at most."""


@legalizes("relu")
def relu(call: Call) -> str:
    """Make an addition of one term."""
    return call.context.copy(call.sources[0], call.node, call.fix, "RELU")


@legalizes("relu6")
def relu6(call: Call) -> str:
    """Make a depthwise convolution of one pixel, with the activation."""
    function = nonlinear(call.node, call.point)
    return affine(dataclasses.replace(call, nonlinear=function), call.sources[0])


@legalizes("leaky-relu")
def leaky_relu(call: Call) -> str:
    """Make ``leaky-relu-fix``: negative values times ``factor / 2**shift``."""
    factor, shift = _slope(float(call.node.attrs["alpha"]))
    return _pointwise(call, {"factor": factor, "shift": shift})


@legalizes("prelu")
def prelu(call: Call) -> str:
    """Make ``prelu-fix``, with one slope a channel."""
    (slope,) = (call.context.fixed(n) for n in call.node.inputs["weight"])
    value, channels = call.context.result[slope].value, call.shape()[-1]
    if value is None or value.size not in (1, channels) or value.shape[-1] != value.size:
        shape = list(call.context.result[slope].shape)
        raise Refusal(
            f'DPU only supports prelu with one constant slope a channel, but "weight" is '
            f"{'computed' if value is None else f'of shape {shape}'}; that would lift it",
            "XCOM_ACGEN_PRELU_ERROR",
        )
    made = call.context.constant(
        f"{call.node.name}_slopes", value.reshape(-1).repeat(channels // value.size),
        point_of(call.context.result[slope]),
    )  # fmt: skip
    return _pointwise(call, {}, {"weight": [made]})


@legalizes("hard-sigmoid")
def hard_sigmoid(call: Call) -> str:
    """Make ``hard-sigmoid-fix``."""
    return _pointwise(call, {})


@legalizes("hard-swish")
def hard_swish(call: Call) -> str:
    """Refuse: the engines round the hard-sigmoid before they multiply by it."""
    raise Refusal(
        "DPU only supports hard-swish as hard-sigmoid and mul with a fix op between them, which "
        "rounds twice; quantizing it so would lift it",
        "XCOM_UNSUPPORT_QUANTIZATION",
    )


def _pointwise(
    call: Call, attrs: dict[str, int], inputs: dict[str, list[str]] | None = None
) -> str:
    context, node = call.context, call.node
    four = context.view(call.sources[0], feature_shape(call.shape()))
    return context.add(
        node, call.fix, f"{node.kind}-fix", {"input": [four], **(inputs or {})}, attrs,
        shape=context.result[four].shape,
    )  # fmt: skip


def _slope(alpha: float) -> tuple[int, int]:
    """Return factor (int8) and right shift that are exactly ``alpha``."""
    if is_leaky_slope(alpha):
        alpha = LEAKY_SLOPE
    for shift in range(MAX_SLOPE_SHIFT + 1):
        factor = alpha * 2**shift
        if factor == int(factor) and -128 <= factor <= 127:
            return int(factor), shift
    raise Refusal(
        f'DPU only supports "alpha"({alpha:g}) of leaky-relu that is int8 / 2**n; '
        f"{round(alpha * 256)}/256 would lift it",
        "XCOM_UNSUPPORT_NONLINEAR_TYPE",
    )
