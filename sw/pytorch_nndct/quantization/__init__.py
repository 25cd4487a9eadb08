# SPDX-License-Identifier: Apache-2.0
"""Where scripts find :mod:`pytorch_nndct.bfp`: ``from pytorch_nndct.quantization import bfp``."""

from pytorch_nndct import bfp

__all__ = ["bfp"]
