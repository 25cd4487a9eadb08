# SPDX-License-Identifier: Apache-2.0
"""Where scripts find :mod:`pytorch_nndct.bfp`: ``from pytorch_nndct.quantization import bfp``."""

from pytorch_nndct import bfp
from pytorch_nndct.quantization import torchquantizer
from pytorch_nndct.quantization.torchquantizer import TORCHQuantizer

__all__ = ["TORCHQuantizer", "bfp", "torchquantizer"]
