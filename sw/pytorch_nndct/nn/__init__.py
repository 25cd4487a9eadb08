# SPDX-License-Identifier: Apache-2.0
"""Modules that say in a network what is to be quantized."""

from pytorch_nndct.nn.modules import functional
from pytorch_nndct.nn.modules.stubs import DeQuantStub, QuantStub

__all__ = ["DeQuantStub", "QuantStub", "functional"]
