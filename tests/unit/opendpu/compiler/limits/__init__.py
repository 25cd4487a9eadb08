# SPDX-License-Identifier: Apache-2.0
"""Graphs with an op at a limit of the DPU, and the same just beyond it."""

from limits import layers, moves, others, refusals
from limits.case import CASES, Case, Drawing

__all__ = ["CASES", "Case", "Drawing", "layers", "moves", "others", "refusals"]
