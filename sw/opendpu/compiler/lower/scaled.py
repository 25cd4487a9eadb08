# SPDX-License-Identifier: Apache-2.0
"""How layers requantize with multipliers: from attributes of ops to parameters of channels."""

from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.compiler.layers.requantization import Requantization, channels_of
from opendpu.compiler.lower.context import LoweringContext
from opendpu.ir import Node
from opendpu.ops.fixed.requantize import FRACTION
from opendpu_arch import latency, numerics, scaled

BYTES = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int64)
"""Integers in the order of their bytes."""
ONE = (1 << FRACTION) - 1
"""The multiplier that changes no integer of less than 30 bits."""


def requantization(context: LoweringContext, node: Node) -> Requantization:
    """Return what all channels of an op's result have in common."""
    low, high = (int(limit) for limit in node.attrs["clamp"])
    return Requantization(
        zero=node.quantization.zero_point[0], low=low, high=high,
        rounding=scaled.Rounding[node.attrs["rounding"]], padding=_zero(context, node),
        parallel=context.target.channel_parallel,
        interval=_interval(context),
    )  # fmt: skip


def layer_channels(context: LoweringContext, node: Node) -> npt.NDArray[np.void]:
    """Return bias, multiplier and shift of every output channel of a convolution.

    A channel without weights has the same result everywhere; that is its bias then, whatever the
    model's is.
    """
    count = node.shape[-1]
    bias = np.zeros(count, np.int64)
    for name in node.inputs.get("bias", ()):
        bias = np.asarray(context.graph[name].value, np.int64).ravel()
    made = channels_of(bias, node.attrs["multiplier"], node.attrs["shift"], count)
    weights = context.graph[node.inputs["weights"][0]].value
    assert weights is not None
    axis = weights.ndim - 1 if "depthwise" in node.kind else 0
    dead = ~weights.any(axis=tuple(a for a in range(weights.ndim) if a != axis))
    results = numerics.multiply_by_quantized_multiplier(
        made["bias"], made["multiplier"], made["shift"], scaled.Rounding[node.attrs["rounding"]]
    )
    made["bias"][dead] = np.clip(results[dead], -512, 511)
    made["multiplier"][dead], made["shift"][dead] = ONE, 0
    return made


def average_channels(node: Node, zero: int) -> npt.NDArray[np.void]:
    """Return the parameters of a mean: a quotient of the sum, or the op's own multiplier.

    ``2**31`` times the quotient is rounded up, so that halves are rounded away from zero.
    """
    count = int(np.prod(node.attrs["kernel"]))
    if node.attrs["multiplier"]:
        made = (-zero * count, node.attrs["multiplier"][0], node.attrs["shift"][0])
        return channels_of(*made, node.shape[-1])
    left = (count - 1).bit_length() - 1  # 2**left is less than the count
    left = max(left, 0)
    multiplier = min(-(-(1 << (FRACTION + left)) // count), ONE)
    return channels_of(0, multiplier, -left, node.shape[-1])


def bilinear_channels(node: Node, bits: int, zero: int) -> npt.NDArray[np.void]:
    """Return the parameters of sums that lose ``bits`` fractional bits, or the op's own multiplier.

    ``zero`` is the input's zero point, which stays where the scale does.
    """
    count = node.shape[-1]
    if node.attrs["multiplier"]:
        made = (-(zero << bits), node.attrs["multiplier"][0], node.attrs["shift"][0])
        return channels_of(*made, count)
    if not bits:
        return channels_of(0, ONE, 0, count)
    return channels_of(0, 1 << (FRACTION - 1), 1 - bits, count)


def eltwise_fields(context: LoweringContext, node: Node) -> dict[str, Any]:
    """Return how a sum or product requantizes, and what the bytes of its inputs count."""
    multiplier, shift = node.attrs["multiplier"], node.attrs["shift"]
    rounding = scaled.Rounding[node.attrs["rounding"]]
    zeros = [context.graph[name].quantization.zero_point[0] for name in node.inputs["input"]]
    terms = [BYTES - zero for zero in zeros]
    left = max(shift[-1], 0)
    if len(terms) == 1:
        terms = [terms[0] << left]
    elif node.attrs["type"] != "MUL":
        terms = [
            numerics.multiply_by_quantized_multiplier(
                term << node.attrs["left_shift"], np.array(m), np.array(-s), rounding
            )
            for term, m, s in zip(terms, multiplier, shift, strict=False)
        ]
    if node.attrs["type"] == "SUB":
        terms[1] = -terms[1]
    return {
        "terms": tuple(term.astype(np.int32) for term in terms),
        "bias": channels_of(0, multiplier[-1], min(shift[-1], 0), node.shape[-1]),
        "requantization": requantization(context, node),
    }


def table_fields(
    context: LoweringContext, node: Node, entries: npt.NDArray[np.int8]
) -> dict[str, Any]:
    """Return how terms that are results already become these."""
    return {
        "terms": (entries.astype(np.int32),),
        "bias": channels_of(0, ONE, 0, node.shape[-1]),
        "requantization": Requantization(
            zero=0, low=-128, high=127, rounding=scaled.Rounding.ONCE,
            parallel=context.target.channel_parallel, interval=_interval(context),
        ),
    }  # fmt: skip


def _interval(context: LoweringContext) -> int:
    """Return the cycles from a pixel of the misc engine to the next, at least."""
    return max(latency.SCALED_DISTANCE, context.target.alu_pixel_parallel)


def _zero(context: LoweringContext, node: Node) -> int:
    """Return what padding of an op's input reads."""
    return context.graph[node.inputs["input"][0]].quantization.zero_point[0]
