# SPDX-License-Identifier: Apache-2.0
"""Quark's enumerations."""

from vai_q_onnx.enums import (
    ExtendedQuantFormat,
    ExtendedQuantType,
    PowerOfTwoMethod,
    VitisQuantFormat,
)

VitisQuantType = ExtendedQuantType
"""What element types were called before."""

__all__ = [
    "ExtendedQuantFormat", "ExtendedQuantType", "PowerOfTwoMethod", "VitisQuantFormat",
    "VitisQuantType",
]  # fmt: skip
