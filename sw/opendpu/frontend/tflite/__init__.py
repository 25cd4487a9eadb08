# SPDX-License-Identifier: Apache-2.0
"""TFLite files as float graphs, those with quantized tensors included."""

from opendpu.frontend.tflite.model import has_other_scales, input_ranges, load_tflite

__all__ = ["has_other_scales", "input_ranges", "load_tflite"]
