# SPDX-License-Identifier: Apache-2.0
"""One factor and one offset a channel: a depthwise convolution of one pixel."""

from collections.abc import Sequence

import numpy as np

from opendpu.compiler.fixed import point_of
from opendpu.compiler.legalize.context import feature_shape
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call

MAX_LEFT = 6
"""Bits that a factor of int8, a power of two, can shift left."""


def affine(
    call: Call,
    source: str,
    *,
    factors: Sequence[int] | None = None,
    point: int = 0,
    bias: Sequence[int] | None = None,
    bias_point: int = 0,
) -> str:
    """Make ``nonlinear(source * factors / 2**point + bias / 2**bias_point)``, rounded once.

    Both are one for all channels or one a channel; without ``factors`` they are one.
    """
    context, node = call.context, call.node
    four = context.view(source, feature_shape(context.result[source].shape))
    shape = context.result[four].shape
    if factors is None:
        here = point_of(context.result[source])
        left = max(0, call.point - here, 0 if bias is None else bias_point - here - 1)
        if left > MAX_LEFT:
            raise Refusal(
                f'DPU only supports {node.kind} with a "fix_point" at most {MAX_LEFT} above the '
                f"input's {here}, but here it is {here + left}; fewer bits would lift it",
                "XCOM_UNSUPPORT_QUANTIZATION",
            )
        factors, point = [1 << left], left
    weights = np.broadcast_to(np.asarray(factors, np.int8), shape[-1:]).reshape(1, 1, 1, -1)
    inputs = {
        "input": [four],
        "weights": [context.constant(f"{node.name}_factors", weights, point)],
    }
    if bias is not None:
        offsets = np.broadcast_to(np.asarray(bias, np.int8), shape[-1:])
        inputs["bias"] = [context.constant(f"{node.name}_offsets", offsets, bias_point)]
    attrs = {
        "kernel": [1, 1], "stride": [1, 1], "dilation": [1, 1], "pad": [0, 0, 0, 0],
        "nonlinear": call.nonlinear, "pad_mode": "FLOOR",
    }  # fmt: skip
    return context.add(node, call.fix, "depthwise-conv2d-fix", inputs, attrs, shape=shape)
