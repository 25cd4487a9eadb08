# SPDX-License-Identifier: Apache-2.0
"""Where scripts of AMD's model zoo look for the quantizer's class."""

from pytorch_nndct.apis.quantizer import torch_quantizer as TORCHQuantizer

__all__ = ["TORCHQuantizer"]
