# SPDX-License-Identifier: Apache-2.0
"""Front ends: from model files to float XIR graphs."""

from opendpu.frontend.lowering import load_onnx

__all__ = ["load_onnx"]
