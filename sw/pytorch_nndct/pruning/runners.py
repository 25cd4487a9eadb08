# SPDX-License-Identifier: Apache-2.0
"""Which pruner a script asks for."""

from typing import TYPE_CHECKING, Any

from torch import nn

from opendpu.pruning.arguments import one_of
from pytorch_nndct.pruning.iterative import IterativePruningRunner
from pytorch_nndct.pruning.one_step import OneStepPruningRunner

if TYPE_CHECKING:
    from opendpu_arch.target import Target

METHODS = {"iterative": IterativePruningRunner, "one_step": OneStepPruningRunner}


def get_pruning_runner(
    model: nn.Module,
    inputs: Any,
    method: str,
    *,
    objective: str = "macs",
    target: "Target | str | None" = None,
) -> "IterativePruningRunner | OneStepPruningRunner":
    """Return what prunes a network by a method.

    Parameters
    ----------
    model
        The network; for a second round of iterative pruning what the first one returned, trained.
    inputs
        A tensor or several, of the shape and type of real data; values do not matter.
    method
        ``iterative`` or ``one_step``.
    objective, target
        What ratios are of, ``macs``, ``params`` or ``cycles``, and of which DPU; AMD's has MACs.

    Raises
    ------
    UnsupportedError
        The method is neither, or the network cannot be pruned by it.
    """
    runner = METHODS[one_of("method", method, METHODS)]
    return runner(model, inputs, objective=objective, target=target)
