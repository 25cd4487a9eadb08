# SPDX-License-Identifier: Apache-2.0
"""Networks that keep their shapes while channels stay zero, and what is left of their state.

A sparse network has the parameters, names and hooks of the one it was made of; it is trained as
that one. Its masks are applied before every forward pass and before its state is taken, so no
optimizer can bring channels back.
"""

import copy
import types
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from opendpu.optimize.surgery import Axes, Removed, cut, grown, removed_axes, slim, zero
from opendpu.pruning.structure import Dependencies

AXES = "_opendpu_removed_axes"
"""Attribute of a pruned network: what is removed of which parameter and buffer."""


class Masks:
    """Keeps channels of a network zero; a hook of the network, so a copy of that has its own."""

    def __init__(self, masks: Mapping[str, torch.Tensor]) -> None:
        self.masks = dict(masks)

    def __call__(self, model: nn.Module, *_: Any) -> None:
        """Set the channels to zero."""
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                mask = self.masks.get(name)
                if mask is not None:
                    if mask.device != parameter.device:
                        mask = self.masks[name] = mask.to(parameter.device)
                    parameter.mul_(mask)


def sparse_network(model: nn.Module, dependencies: Dependencies, removed: Removed) -> nn.Module:
    """Return a copy of a network in which channels are zero and stay so.

    It has a method ``slim_state_dict``: the state of the network without these channels.
    """
    made = copy.deepcopy(model)
    _forget(made)
    keep = Masks(zero(made, dependencies, removed))
    setattr(made, AXES, removed_axes(made, dependencies, removed))
    network: Any = made
    network.register_forward_pre_hook(keep)
    network.register_state_dict_pre_hook(keep)
    network.slim_state_dict = types.MethodType(slim_state_dict, made)
    return made


def slim_network(model: nn.Module, dependencies: Dependencies, removed: Removed) -> nn.Module:
    """Return a copy of a network without channels.

    It has a method ``sparse_state_dict``: the state of the network with zeros there.
    """
    bare = copy.deepcopy(model)
    _forget(bare)
    axes = removed_axes(bare, dependencies, removed)
    made = slim(bare, dependencies, removed)
    setattr(made, AXES, axes)
    network: Any = made
    network.sparse_state_dict = types.MethodType(sparse_state_dict, made)
    return made


def slim_state_dict(self: nn.Module, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
    """Return the state of a sparse network without the channels that are zero."""
    axes: Axes = getattr(self, AXES)
    state = self.state_dict(*args, **kwargs)
    return {name: cut(t, axes[name]) if name in axes else t for name, t in state.items()}


def sparse_state_dict(self: nn.Module, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
    """Return the state of a slim network with zeros where channels were."""
    axes: Axes = getattr(self, AXES)
    state = self.state_dict(*args, **kwargs)
    return {name: grown(t, axes[name]) if name in axes else t for name, t in state.items()}


def unmasked(model: nn.Module) -> nn.Module:
    """Return a copy of a network without the masks of an earlier pruning; what is zero stays so."""
    made = copy.deepcopy(model)
    for hook in made._forward_pre_hooks.values():
        if isinstance(hook, Masks):
            hook(made)
    _forget(made)
    return made


def _forget(model: nn.Module) -> None:
    """Take away what an earlier pruning put on a network."""
    for name in (AXES, "slim_state_dict", "sparse_state_dict"):
        model.__dict__.pop(name, None)
    for hooks in (model._forward_pre_hooks, model._state_dict_pre_hooks):
        for key in [key for key, hook in hooks.items() if _is_masks(hook)]:
            del hooks[key]


def _is_masks(hook: Any) -> bool:
    return isinstance(getattr(hook, "hook", hook), Masks)
