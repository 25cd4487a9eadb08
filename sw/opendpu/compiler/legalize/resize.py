# SPDX-License-Identifier: Apache-2.0
"""Resize of feature maps."""

from opendpu.compiler.legalize.move import at_result
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call, legalizes
from opendpu.ops.bilinear import bilinear_weights

FACTORS = "XCOM_UNEXPECTED_VALUE"


@legalizes("resize")
def resize(call: Call) -> str:
    """Make ``upsample-fix``, or a slice where pixels are left out."""
    attrs, mode = call.node.attrs, str(call.node.attrs["mode"]).upper()
    if len(call.shape()) != 4 or mode not in ("NEAREST", "BILINEAR"):
        raise Refusal(
            f'DPU only supports "mode"({mode}) NEAREST or BILINEAR of 4 dimensions, but there are '
            f"{len(call.shape())}; that would lift it",
            FACTORS,
        )
    scale = [float(s) for s in attrs["scale"]]
    if call.shape()[1:3] == (1, 1):  # a single pixel is repeated, however it is interpolated
        mode, attrs = "NEAREST", {}
    half, corners = bool(attrs.get("half_pixel_centers")), bool(attrs.get("align_corners"))
    factors = [round(s) if s >= 1 else round(1 / s) for s in scale]
    down = all(s <= 1 for s in scale)
    exact = all(abs(s - (1 / f if down else f)) < 1e-6 for s, f in zip(scale, factors, strict=True))
    if corners or not exact or (half and mode == "NEAREST"):
        raise Refusal(
            call.node.reason
            or f'DPU only supports "scale"({scale}) of whole numbers, without '
            f'"align_corners"({corners}), and NEAREST without "half_pixel_centers"({half}), in a '
            f"{mode} resize; {_lift(mode)} would lift it",
            FACTORS,
        )
    if down and mode == "NEAREST":
        return _left_out(call, factors)
    made = {
        "mode": mode, "scale": scale, "align_corners": False, "half_pixel_centers": half,
    }  # fmt: skip
    if mode == "NEAREST":
        return call.context.add(
            call.node, call.fix, "upsample-fix", {"input": [at_result(call)]}, made
        )
    if down or bilinear_weights(factors[1], factors[0], half=half) is None:
        raise Refusal(
            call.node.reason
            or f'DPU only supports "scale"({scale}) of BILINEAR that are powers of '
            f"two, together at most 64, or 16 with half_pixel_centers({half}); {_lift(mode)} or a "
            "smaller scale would lift it",
            FACTORS,
        )
    return call.context.add(call.node, call.fix, "upsample-fix", {"input": call.sources}, made)


def _lift(mode: str) -> str:
    """Return what else would do."""
    return (
        "a float model, whose resizes the quantizer makes layers where that is faster,"
        if mode == "BILINEAR"
        else "that"
    )


def _left_out(call: Call, factors: list[int]) -> str:
    """Make a slice of every ``factors``-th column and row."""
    _, height, width, channels = call.node.shape
    steps = [1, factors[1], factors[0], 1]
    ends = [1, (height - 1) * factors[1] + 1, (width - 1) * factors[0] + 1, channels]
    attrs = {"begin": [0, 0, 0, 0], "end": ends, "strides": steps}
    return call.context.add(
        call.node, call.fix, "strided_slice-fix", {"input": [at_result(call)]}, attrs
    )
