# SPDX-License-Identifier: Apache-2.0
"""Adaptive batch normalization: statistics of a pruned network, found by running it.

A network whose channels were cut has other means and variances behind every layer. With the
statistics renewed, its score before training says how good it will be after (Li et al.,
*EagleEye*, 2020, arXiv:2007.02491).
"""

import contextlib
from collections.abc import Iterator

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from opendpu_arch.errors import UnsupportedError


def normalizations(model: nn.Module) -> list[_BatchNorm]:
    """Return the batch normalizations of a network that have running statistics."""
    found = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    return [module for module in found if module.running_mean is not None]


def need_normalizations(model: nn.Module) -> None:
    """Refuse a network whose statistics cannot be renewed.

    Raises
    ------
    UnsupportedError
        It has no batch normalization.
    """
    if not normalizations(model):
        raise UnsupportedError(
            f"{type(model).__name__} has no batch normalization, which one-step pruning needs; use "
            "method 'iterative'",
            code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
        )


def reset_statistics(model: nn.Module) -> None:
    """Forget running statistics; the next forward passes find them, as plain averages.

    The normalizations are in training mode afterwards, whatever mode the network is in.
    """
    for module in normalizations(model):
        module.reset_running_stats()
        module.momentum = None
        module.train()


@contextlib.contextmanager
def renewed_statistics(model: nn.Module) -> Iterator[None]:
    """Let the forward passes of a block find the statistics; momenta are restored behind it."""
    before = [(module, module.momentum) for module in normalizations(model)]
    reset_statistics(model)
    try:
        yield
    finally:
        for module, momentum in before:
            module.momentum = momentum
