# SPDX-License-Identifier: Apache-2.0
"""Post-training quantization of float XIR graphs to powers of two, as the DPU wants it."""

from opendpu.quantize.complete import complete, is_quantized
from opendpu.quantize.quantizer import METHODS, quantize

__all__ = ["METHODS", "complete", "is_quantized", "quantize"]
