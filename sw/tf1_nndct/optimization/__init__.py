# SPDX-License-Identifier: Apache-2.0
"""Where scripts look for the runner."""

from tf1_nndct.runner import IterativePruningRunner

__all__ = ["IterativePruningRunner"]
