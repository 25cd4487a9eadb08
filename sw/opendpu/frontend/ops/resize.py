# SPDX-License-Identifier: Apache-2.0
"""Resize of feature maps."""

import numpy as np
import onnx

from opendpu.frontend.context import Array, Call
from opendpu.frontend.ops.along_axis import MOST_NEIGHBOURS, ROWS, multiplied
from opendpu.frontend.ops.registry import Layout, handles
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.single_node import evaluate
from opendpu.ops.banded import span_of

COORDINATES = ("align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric",
               "pytorch_half_pixel")  # fmt: skip
"""Ways to say where an element comes from by which each axis is for itself."""
MAP = 4


@handles("Resize", "Upsample", layout=Layout.SPATIAL)
def resize(call: Call) -> None:
    """Convert to ``resize`` where XIR picks the same pixels, else to products with matrices.

    Before operator set 11 (``Upsample`` up to 9), element ``i`` comes from ``floor(i / scale)``.
    """
    try:
        _xir_resize(call)
    except Refusal:
        matrices = _matrices(call)
        if matrices is None:
            raise
        rank = len(call.value(0).shape)
        node, _ = call.feature_map()
        for axis, matrix in matrices.items():
            name = call.output if axis == max(matrices) else f"{call.output}_rows"
            node = multiplied(call, name, node, axis, matrix)
        call.set_feature_map(node, rank)


def _matrices(call: Call) -> dict[int, Array] | None:
    """Return what rows and columns are made of, ``[made, given]``, by axis of an NHWC map.

    onnxruntime says it: of the rows of a unit matrix it makes those of the matrix. None where a
    result is no sum of neighbours, or of more than the DPU adds.
    """
    value, attrs = call.value(0), call.attrs
    where = attrs.get("coordinate_transformation_mode", "half_pixel")
    plain = attrs.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    shape = call.context.source.shape(call.output) or ()
    if call.proto.op_type != "Resize" or call.context.opset < 11 or not plain or (
        len(value.shape) != MAP or where not in COORDINATES or call.is_quantized(0)
        or shape[:2] != value.shape[:2]
    ):  # fmt: skip
        return None
    found = {}
    for axis, (size, made) in enumerate(zip(value.shape[2:], shape[2:], strict=True), ROWS):
        if size == made:
            continue
        node = onnx.NodeProto()
        node.CopyFrom(call.proto)
        kept = [a for a in call.proto.attribute if a.name not in ("axes", "antialias")]
        kept += [a for a in call.proto.attribute if a.name == "antialias" and a.i]
        del node.attribute[:]
        node.attribute.extend(kept)
        factors = _factors(call, axis + 1, size, made)
        node.input[:] = ["x", "", "factors"] if factors.dtype == np.float32 else (
            ["x", "", "", "factors"]
        )  # fmt: skip
        unit = np.eye(size, dtype=np.float32)[None, None]
        results = evaluate(call.context.source.dialect, node, {"x": unit, "factors": factors})
        matrix = results[call.output][0, 0] if results else np.ones((1, MOST_NEIGHBOURS + 1))
        if matrix.shape != (made, size) or max(map(span_of, matrix)) > MOST_NEIGHBOURS:
            return None
        found[axis] = matrix
    return found or None


def _factors(call: Call, axis: int, size: int, made: int) -> Array:
    """Return the factors, or sizes, that let one axis of ONNX's map change as the model says."""
    rank = len(call.value(0).shape)
    scales = call.weights(2, "scales") if call.has(2) else np.zeros(0)
    if not scales.size:
        return np.array([1, 1, made, size], np.int64)
    axes = [a % rank for a in call.attrs.get("axes", range(rank))]
    return np.array([1, 1, scales[axes.index(axis)], 1], np.float32)


def _xir_resize(call: Call) -> None:
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
