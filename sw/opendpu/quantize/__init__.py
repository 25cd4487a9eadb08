# SPDX-License-Identifier: Apache-2.0
"""Post-training quantization of float XIR graphs to powers of two, as the DPU wants it."""

from opendpu.quantize.quantizer import METHODS, quantize

__all__ = ["METHODS", "quantize"]
