# SPDX-License-Identifier: Apache-2.0
"""Where the enumerations were in Quark's first releases."""

from quark.onnx.quantization.quant_utils import (
    ExtendedQuantFormat,
    ExtendedQuantType,
    PowerOfTwoMethod,
    VitisQuantFormat,
    VitisQuantType,
)

__all__ = [
    "ExtendedQuantFormat", "ExtendedQuantType", "PowerOfTwoMethod", "VitisQuantFormat",
    "VitisQuantType",
]  # fmt: skip
