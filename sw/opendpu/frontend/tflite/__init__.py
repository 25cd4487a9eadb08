# SPDX-License-Identifier: Apache-2.0
"""TFLite files as float graphs, those with quantized tensors included."""

from opendpu.frontend.tflite.model import Requantize, load_tflite

__all__ = ["Requantize", "load_tflite"]
