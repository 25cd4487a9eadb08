# SPDX-License-Identifier: Apache-2.0
"""Weights with zero points, as bytes around zero.

The array multiplies bytes. A weight less its zero point may need nine bits; it then is a sum of two
bytes, and the layer reads every number of its input twice: as channels of their own, or, where
channels do not meet, as two pixels side by side.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from opendpu.compiler.legalize.context import Context
from opendpu.ir import Node, TensorType
from opendpu.ops.formats import along

Bytes = npt.NDArray[np.int8]
LEAST, MOST = -128, 127


def around_zero(context: Context, layer: Node) -> None:
    """Give a layer weights without zero points, where it can have such."""
    weights = context.result[layer.inputs["weights"][0]]
    found = weights.quantization
    if weights.value is None or not any(found.zero_point):
        return
    values = weights.value.astype(np.int16)
    values -= along(found.zero_point, found, values.ndim, np.int16)
    first = np.clip(values, LEAST, MOST).astype(np.int8)
    second = (values - first).astype(np.int8)
    if not second.any():
        _take(context, layer, weights, first)
    elif layer.kind == "conv2d-fix" and layer.attrs.get("group", 1) == 1:
        source = _twice(context, layer, "concat-fix", 3, {"axis": 3})
        _take(context, layer, weights, np.concatenate([first, second], axis=3), source)
    elif layer.kind in ("conv2d-fix", "depthwise-conv2d-fix") and (
        layer.attrs["dilation"][0] == 1 or layer.attrs["kernel"][0] == 1
    ):
        attrs = {
            "mode": "NEAREST", "scale": [2.0, 1.0], "align_corners": False,
            "half_pixel_centers": False,
        }  # fmt: skip
        source = _twice(context, layer, "upsample-fix", 2, attrs)
        taps = np.stack([first, second], axis=3).reshape(*first.shape[:2], -1, first.shape[3])
        width, height = layer.attrs["kernel"]
        across, down = layer.attrs["stride"]
        left, right, *rest = layer.attrs["pad"]
        layer.attrs |= {
            "kernel": [2 * width, height], "stride": [2 * across, down],
            "pad": [2 * left, 2 * right, *rest], "dilation": [1, layer.attrs["dilation"][1]],
        }  # fmt: skip
        _take(context, layer, weights, taps, source)


def _twice(
    context: Context, layer: Node, kind: str, axis: int, attrs: dict[str, object]
) -> str:  # fmt: skip
    """Add the input of a layer with everything along an axis twice."""
    (source,) = layer.inputs["input"]
    given = context.result[source]
    shape = tuple(2 * size if at == axis else size for at, size in enumerate(given.shape))
    inputs = {"input": [source] * (2 if kind == "concat-fix" else 1)}
    name = context.result.unique(f"{layer.name}_twice")
    return context.result.add(
        name, kind, given.type.with_shape(shape), inputs, attrs, origin=layer.origin,
        tensor=f"{layer.tensor_name}_twice",
    ).name  # fmt: skip


def _take(
    context: Context, layer: Node, weights: Node, values: Bytes, source: str = ""
) -> None:  # fmt: skip
    """Let a layer compute with these weights, and another input."""
    grid = dataclasses.replace(weights.quantization, zero_point=(0,))
    made = context.result.add(
        context.result.unique(f"{weights.name}_around_zero"), "const-fix",
        TensorType(values.shape, values.dtype, grid), value=values, origin=weights.origin,
    )  # fmt: skip
    layer.inputs["weights"] = [made.name]
    if source:
        layer.inputs["input"] = [source]
    del context.result.nodes[layer.name]
    context.result.nodes[layer.name] = layer  # behind its inputs
