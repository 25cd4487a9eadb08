# SPDX-License-Identifier: Apache-2.0
"""AMD's pruners for PyTorch (the guide's chapter 2), over :mod:`opendpu.optimize`."""

from pytorch_nndct.pruning.first_pruner import InputSpec, Pruner
from pytorch_nndct.pruning.iterative import IterativePruningRunner
from pytorch_nndct.pruning.ofa import OFAPruner
from pytorch_nndct.pruning.one_step import OneStepPruningRunner
from pytorch_nndct.pruning.runners import get_pruning_runner
from pytorch_nndct.pruning.sparse_pruner import SparsePruner

__all__ = [
    "InputSpec", "IterativePruningRunner", "OFAPruner", "OneStepPruningRunner", "Pruner",
    "SparsePruner", "get_pruning_runner",
]  # fmt: skip
