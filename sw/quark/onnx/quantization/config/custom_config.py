# SPDX-License-Identifier: Apache-2.0
"""Quark's configurations under the names that scripts import, in both forms."""

from typing import Any

from quark.onnx.quantization.config.defaults import (
    DEFAULT_CONFIG_MAPPING,
    get_default_config,
    get_default_config_mapping,
)
from quark.onnx.quantization.config.presets import second_form

__all__ = ["DEFAULT_CONFIG_MAPPING", "get_default_config", "get_default_config_mapping"]


def __getattr__(name: str) -> Any:
    """Return a configuration by the name of its constant, each time a new one.

    ``A8W8_CONFIG`` is one in the first form, ``A8W8_QCONFIG`` one in the second.
    """
    base, _, form = name.rpartition("_")
    if form == "CONFIG" and base in DEFAULT_CONFIG_MAPPING:
        return get_default_config(base)
    found = second_form(base) if form == "QCONFIG" else None
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
