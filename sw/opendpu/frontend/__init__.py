# SPDX-License-Identifier: Apache-2.0
"""Front ends: from model files to float XIR graphs."""

from opendpu.frontend.loading import load_model
from opendpu.frontend.lowering import load_onnx

__all__ = ["load_model", "load_onnx"]
