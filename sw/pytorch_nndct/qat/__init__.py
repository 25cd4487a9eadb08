# SPDX-License-Identifier: Apache-2.0
"""Quantization aware training."""

from pytorch_nndct.qat.processor import QatProcessor

__all__ = ["QatProcessor"]
