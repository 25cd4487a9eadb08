# SPDX-License-Identifier: Apache-2.0
"""Operator-level references: what a graph computes, in float and in the DPU's integers."""

from opendpu.reference.floating import evaluate as evaluate_float
from opendpu.reference.integer import evaluate as evaluate_quantized

__all__ = ["evaluate_float", "evaluate_quantized"]
