# SPDX-License-Identifier: Apache-2.0
"""The quantizer: its class, its configurations, its enumerations."""

from quark.onnx.quantization.api import ModelQuantizer
from quark.onnx.quantization.config import Config, QConfig, QuantizationConfig

__all__ = ["Config", "ModelQuantizer", "QConfig", "QuantizationConfig"]
