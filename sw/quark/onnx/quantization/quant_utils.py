# SPDX-License-Identifier: Apache-2.0
"""Quark's enumerations."""

import enum

from vai_q_onnx.enums import (
    ExtendedQuantFormat,
    ExtendedQuantType,
    PowerOfTwoMethod,
    VitisQuantFormat,
)

VitisQuantType = ExtendedQuantType
"""What element types were called before."""


class LayerWiseMethod(enum.Enum):
    """Ways to choose scales by what they do to the results of layers; there are none here."""

    LayerWisePercentile = 0


__all__ = [
    "ExtendedQuantFormat", "ExtendedQuantType", "LayerWiseMethod", "PowerOfTwoMethod",
    "VitisQuantFormat", "VitisQuantType",
]  # fmt: skip
