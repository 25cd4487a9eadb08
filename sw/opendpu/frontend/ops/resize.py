# SPDX-License-Identifier: Apache-2.0
"""Resize of feature maps."""

import numpy as np

from opendpu.frontend.context import Array, Call
from opendpu.frontend.ops.registry import Layout, handles
from opendpu.frontend.refusal import Refusal


@handles("Resize", "Upsample", layout=Layout.SPATIAL)
def resize(call: Call) -> None:
    """Convert to ``resize`` where XIR picks the same pixels.

    Before operator set 11 (``Upsample`` up to 9), element ``i`` comes from ``floor(i / scale)``.
    """
    rank = len(call.value(0).shape)
    node, shape = call.feature_map()
    scales, size = _scales(call, shape, rank)
    mode = call.attrs.get("mode", "nearest")
    old = call.context.opset < 11
    where = call.attrs.get("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    attrs = {"scale": [float(scales[1]), float(scales[0])], "mode": "NEAREST"}
    if mode == "nearest":
        rule = call.attrs.get("nearest_mode", "floor" if old else "round_prefer_floor")
        for axis in (0, 1):
            picked = _picked(shape[1 + axis], size[axis], scales[axis], where, rule)
            plain = np.floor(np.arange(size[axis]) / scales[axis]).astype(int)
            if not np.array_equal(picked, np.minimum(plain, shape[1 + axis] - 1)):
                raise Refusal(
                    f"nearest with {where!r}, {rule!r} and scale {scales[axis]:g} picks "
                    "other pixels than XIR's floor(out / scale)"
                )
    elif where == "pytorch_half_pixel" and 1 in size:
        raise Refusal(f"{where!r} takes the first element for a size of 1, XIR the middle one")
    elif mode in ("linear", "bilinear") and where in (
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
    ):
        attrs["mode"] = "BILINEAR"
        attrs["half_pixel_centers"] = where.endswith("half_pixel")
        attrs["align_corners"] = where == "align_corners"
    else:
        raise Refusal(f"mode {mode!r} with {where!r} is not supported")
    name = call.context.emit(
        call.output, "resize", (shape[0], *size, shape[3]), {"input": [node]}, attrs
    )
    call.set_feature_map(name, rank)


def _scales(
    call: Call, shape: tuple[int, int, int, int], rank: int
) -> tuple[tuple[float, float], tuple[int, int]]:
    """Return factors and new sizes of height and width; Refusal if batch or channels change."""
    for name, plain in (("antialias", 0), ("keep_aspect_ratio_policy", "stretch")):
        if call.attrs.get(name, plain) != plain:
            raise Refusal(f"{name} is {call.attrs[name]!r}, but must be {plain!r}")
    old = call.value(0).shape
    index = 1 if call.context.opset < 11 else 2
    given = call.weights(index, "scales").tolist() if call.has(index) else None
    given = call.attrs.get("scales", given)
    axes = [axis % rank for axis in call.attrs.get("axes", range(rank))]
    factors, sizes = [1.0] * rank, list(old)
    if given:
        for axis, factor in zip(axes, given, strict=True):
            factors[axis] = float(factor)
            sizes[axis] = int(np.floor(old[axis] * np.float32(factor)))
    elif call.has(3):
        for axis, size in zip(axes, call.weights(3, "sizes").tolist(), strict=True):
            factors[axis], sizes[axis] = _factor(old[axis], int(size)), int(size)
    else:
        raise Refusal("neither scales nor sizes are given")
    if factors[:2] != [1.0, 1.0]:
        raise Refusal(f"scales are {factors}, but only height and width may change")
    if rank == 3:
        return (1.0, factors[2]), (1, sizes[2])
    return (factors[2], factors[3]), (sizes[2], sizes[3])


def _factor(old: int, new: int) -> float:
    """Return the quotient of two sizes as float32, so that XIR's ``floor(old * factor)`` is new."""
    factor = np.float32(new / old)
    while int(float(factor) * old) < new:
        factor = np.nextafter(factor, np.float32(np.inf))
    return float(factor)


def _picked(size: int, new_size: int, scale: float, where: str, rule: str) -> Array:
    """Return which input element ONNX's nearest mode takes for each output element."""
    out = np.arange(new_size)
    match where:
        case "half_pixel" | "pytorch_half_pixel":
            position = (out + 0.5) / scale - 0.5
        case "asymmetric":
            position = out / scale
        case "align_corners":
            position = out * (size - 1) / max(1, new_size - 1)
        case _:
            raise Refusal(f"coordinate_transformation_mode {where!r} is not supported")
    match rule:
        case "floor":
            index = np.floor(position)
        case "ceil":
            index = np.ceil(position)
        case "round_prefer_ceil":
            index = np.floor(position + 0.5)
        case _:
            index = np.ceil(position - 0.5)
    return np.asarray(np.clip(index, 0, size - 1).astype(int))
