# SPDX-License-Identifier: Apache-2.0
"""Where scripts of Vitis AI 3 look for what :mod:`pytorch_nndct.utils.profiler` has."""

from pytorch_nndct.utils.profiler import model_complexity

__all__ = ["model_complexity"]
