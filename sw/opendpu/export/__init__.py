# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs in the forms that other tools read."""

from opendpu.export.forms import FORMS
from opendpu.export.onnx_qdq import to_onnx

__all__ = ["FORMS", "to_onnx"]
