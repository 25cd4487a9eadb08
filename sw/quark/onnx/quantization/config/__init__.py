# SPDX-License-Identifier: Apache-2.0
"""Configurations, by name and by their parts."""

from quark.onnx.quantization.config.config import Config, QConfig, QuantizationConfig
from quark.onnx.quantization.config.custom_config import (
    DEFAULT_CONFIG_MAPPING,
    get_default_config,
    get_default_config_mapping,
)

__all__ = [
    "DEFAULT_CONFIG_MAPPING", "Config", "QConfig", "QuantizationConfig", "get_default_config",
    "get_default_config_mapping",
]  # fmt: skip
