# SPDX-License-Identifier: Apache-2.0
"""Pass: the ops of one DPU part to layers and aliases, with one file for every family of ops."""

from opendpu.compiler.lower import conv, eltwise, pointwise, pool, shape, transposed
from opendpu.compiler.lower.run import lower

__all__ = ["conv", "eltwise", "lower", "pointwise", "pool", "shape", "transposed"]
