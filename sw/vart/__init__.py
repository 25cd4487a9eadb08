# SPDX-License-Identifier: Apache-2.0
"""VART: runs compiled subgraphs, with the Python interface of AMD's ``vart``.

Programs written for AMD's module run unchanged; where AMD's talks to a board, this one takes the
device and memory model from keyword arguments or the environment (``OPENDPU_DEVICE``,
``OPENDPU_MEMORY``).
"""

from opendpu.runtime.tensor_buffer import TensorBuffer
from vart.runner import Runner, RunnerExt

__all__ = ["Runner", "RunnerExt", "TensorBuffer"]
