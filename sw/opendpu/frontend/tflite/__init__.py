# SPDX-License-Identifier: Apache-2.0
"""TFLite files as float graphs, those with quantized tensors included."""

from opendpu.frontend.tflite.model import input_ranges, load_tflite
from opendpu.frontend.tflite.quantization import Requantize

__all__ = ["Requantize", "input_ranges", "load_tflite"]
