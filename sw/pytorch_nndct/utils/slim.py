# SPDX-License-Identifier: Apache-2.0
"""Slim networks without the pruner: from the unpruned network and a slim state."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from opendpu_arch.errors import UnsupportedError


def load_state_dict(model: nn.Module, state_dict: Mapping[str, torch.Tensor]) -> nn.Module:
    """Give a network the shapes and values of a slim state, in place; return it.

    Parameters
    ----------
    model
        The unpruned network.
    state_dict
        What ``slim_state_dict`` of a sparse network, or ``state_dict`` of a slim one, returned;
        names may begin with ``module.``, as of a ``DataParallel``.

    Raises
    ------
    UnsupportedError
        The state is none, or is of another network: a name is missing, or a tensor has another
        rank or is larger than the network's.
    """
    from opendpu.optimize.surgery import resize

    if not isinstance(state_dict, Mapping):
        raise UnsupportedError(
            f"state_dict is a {type(state_dict).__name__}, but must be a state: tensors by name",
            code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
        )
    own: dict[str, Any] = dict(model.state_dict())
    prefix = "module."
    wrapped = all(name.startswith(prefix) for name in state_dict) and bool(state_dict)
    given = {name[len(prefix) :] if wrapped else name: value for name, value in state_dict.items()}
    strange = sorted(set(given) ^ set(own))
    if strange:
        where = "the state" if strange[0] in given else "the model"
        raise _refused(model, f"only {where} has {strange[0]!r}")
    changed = {}
    for name, value in given.items():
        old = tuple(own[name].shape)
        new = tuple(value.shape)
        if len(old) != len(new) or any(n > o for n, o in zip(new, old, strict=True)):
            raise _refused(model, f"{name!r} has shape {new}, but {old} in the model")
        if old != new:
            changed[name] = value
    resize(model, changed)
    model.load_state_dict(given)
    return model


def _refused(model: nn.Module, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"the state is not one of {type(model).__name__}, slim: {reason}",
        code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
    )
