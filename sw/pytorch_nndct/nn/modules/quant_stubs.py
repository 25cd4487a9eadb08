# SPDX-License-Identifier: Apache-2.0
"""Where AMD's examples of training import the stubs from."""

from pytorch_nndct.nn.modules.stubs import DeQuantStub, QuantStub

__all__ = ["DeQuantStub", "QuantStub"]
