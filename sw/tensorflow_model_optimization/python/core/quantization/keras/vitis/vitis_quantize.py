# SPDX-License-Identifier: Apache-2.0
"""``VitisQuantizer`` and ``quantize_scope``, see :mod:`vai_q_tensorflow2`."""

from vai_q_tensorflow2.network import quantize_scope
from vai_q_tensorflow2.quantizer import VitisQuantizer

__all__ = ["VitisQuantizer", "quantize_scope"]
