# SPDX-License-Identifier: Apache-2.0
"""Blocks of pixels traded for channels."""

from typing import Any

from opendpu.frontend.context import Call
from opendpu.frontend.ops.registry import Layout, handles
from opendpu.frontend.refusal import Refusal


@handles("DepthToSpace", layout=Layout.SPATIAL)
def depth_to_space(call: Call) -> None:
    """Convert to ``pixel-shuffle`` (mode CRD) or ``gstiling`` (DCR, rows and columns first)."""
    node, (batch, height, width, channels) = call.feature_map()
    size = int(call.attrs["blocksize"])
    if channels % size**2:
        raise Refusal(f"{channels} channels are no multiple of {size**2}")
    shape = (batch, height * size, width * size, channels // size**2)
    if call.attrs.get("mode", "DCR") == "CRD":
        _emit(call, "pixel-shuffle", node, shape, {"scale": size, "upscale": True})
    else:
        _emit(call, "gstiling", node, shape, {"stride": size, "reverse": True})


@handles("SpaceToDepth", layout=Layout.SPATIAL)
def space_to_depth(call: Call) -> None:
    """Convert to ``gstiling``, or ``pixel-shuffle`` (mode CRD of set 28)."""
    node, (batch, height, width, channels) = call.feature_map()
    size = int(call.attrs["blocksize"])
    if height % size or width % size:
        raise Refusal(f"{height}x{width} is no multiple of the block size {size}")
    shape = (batch, height // size, width // size, channels * size**2)
    if call.attrs.get("mode", "DCR") == "CRD":
        _emit(call, "pixel-shuffle", node, shape, {"scale": size, "upscale": False})
    else:
        _emit(call, "gstiling", node, shape, {"stride": size, "reverse": False})


def _emit(call: Call, kind: str, node: str, shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    name = call.context.emit(call.output, kind, shape, {"input": [node]}, attrs)
    call.set_feature_map(name, 4)
