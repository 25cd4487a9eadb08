# SPDX-License-Identifier: Apache-2.0
"""Quark's search for a configuration: all of a space are tried, those that lose little are kept."""

from quark.onnx.quantization.auto_search.search import AutoSearch, AutoSearchConfig

__all__ = ["AutoSearch", "AutoSearchConfig"]
