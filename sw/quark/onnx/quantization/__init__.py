# SPDX-License-Identifier: Apache-2.0
"""The quantizer: its class, its configurations, its enumerations."""

from quark.onnx.quantization.api import ModelQuantizer

__all__ = ["ModelQuantizer"]
