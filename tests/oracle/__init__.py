# SPDX-License-Identifier: Apache-2.0
"""Operator-level references: what a graph computes, in float and in the DPU's integers."""

from oracle.floating import evaluate as evaluate_float
from oracle.integer import evaluate as evaluate_quantized

__all__ = ["evaluate_float", "evaluate_quantized"]
