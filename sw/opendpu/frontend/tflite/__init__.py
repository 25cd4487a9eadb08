# SPDX-License-Identifier: Apache-2.0
"""TFLite files as float graphs, those with quantized tensors included."""

from opendpu.frontend.tflite.model import input_ranges, load_tflite

__all__ = ["input_ranges", "load_tflite"]
