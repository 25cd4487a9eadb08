# SPDX-License-Identifier: Apache-2.0
"""Where scripts find :mod:`quark.onnx.quantization.auto_search`, too."""

from quark.onnx.quantization.auto_search import AutoSearch, AutoSearchConfig

__all__ = ["AutoSearch", "AutoSearchConfig"]
