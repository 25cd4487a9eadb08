# SPDX-License-Identifier: Apache-2.0
"""Channels cut out of a network, set to zero in it, and its parameters with and without them.

A choice of channels is a mapping from groups to the units that are removed. ``slim`` networks are
without them, ``sparse`` ones have zeros there and compute the same.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from opendpu.optimize.groups import CONVOLUTIONS, TRANSPOSED
from opendpu.pruning.structure import IN, OUT, Dependencies

Removed = Mapping[str, Sequence[int]]
"""Removed units by group."""

Axes = dict[str, dict[int, list[int]]]
"""By name of a parameter or buffer and by axis: the indices that are removed."""


def removed_channels(
    dependencies: Dependencies, removed: Removed
) -> dict[tuple[str, str], list[int]]:
    """Return, by path and side, the channels of layers that a choice removes, ascending."""
    found: dict[tuple[str, str], set[int]] = {}
    for name, units in removed.items():
        gone = set(units)
        for member in dependencies.groups[name].members:
            chosen = {
                i for i, unit in zip(member.indices, member.units, strict=True) if unit in gone
            }
            if chosen:
                found.setdefault((member.path, member.side), set()).update(chosen)
    return {key: sorted(indices) for key, indices in found.items()}


def removed_axes(model: nn.Module, dependencies: Dependencies, removed: Removed) -> Axes:
    """Return what a choice removes of every parameter and buffer."""
    return axes_of(model, removed_channels(dependencies, removed))


def axes_of(model: nn.Module, channels: Mapping[tuple[str, str], list[int]]) -> Axes:
    """Return where channels of layers, by path and side, are in parameters and buffers."""
    modules = dict(model.named_modules())
    tensors = dict(model.state_dict(keep_vars=True))
    axes: Axes = {}

    def add(name: str, axis: int, indices: list[int]) -> None:
        axes.setdefault(name, {})[axis] = indices

    for (path, side), indices in channels.items():
        layer = modules.get(path)
        if layer is None:  # a parameter by itself: the last axis that is not of length one
            shape = tensors[path].shape
            add(path, max(i for i, size in enumerate(shape) if size > 1), indices)
            continue
        if isinstance(layer, (*CONVOLUTIONS, nn.Linear)):
            _layer_axes(path, layer, side, indices, add)
            continue
        for name, value in (
            *layer.named_parameters(recurse=False),
            *layer.named_buffers(recurse=False),
        ):
            if value.dim() == 1 and value.numel() > 1:
                add(f"{path}.{name}", 0, indices)
    return axes


def _layer_axes(path: str, layer: Any, side: str, indices: list[int], add: Any) -> None:
    grouped = isinstance(layer, CONVOLUTIONS) and layer.groups > 1
    depthwise = grouped and layer.groups == layer.in_channels == layer.out_channels
    outputs, inputs = (1, 0) if isinstance(layer, TRANSPOSED) else (0, 1)
    if depthwise:
        add(f"{path}.weight", 0, indices)
    else:
        # The input axis of a grouped convolution (the output axis of a transposed one) holds one
        # group; the same places are removed of each.
        axis = outputs if side == OUT else inputs
        short = grouped and axis == 1
        extent = layer.weight.shape[1]
        add(f"{path}.weight", axis, [i for i in indices if i < extent] if short else indices)
    if side == OUT and layer.bias is not None:
        add(f"{path}.bias", 0, indices)


def slim(model: nn.Module, dependencies: Dependencies, removed: Removed) -> nn.Module:
    """Return a copy of a network without the channels of a choice."""
    made = copy.deepcopy(model)
    axes = removed_axes(model, dependencies, removed)
    resize(made, {n: cut(t, axes[n]) for n, t in made.state_dict().items() if n in axes})
    return made


def cut(tensor: torch.Tensor, axes: Mapping[int, Sequence[int]]) -> torch.Tensor:
    """Return a tensor without the indices given by axis."""
    for axis, indices in axes.items():
        gone = set(indices)
        kept = [i for i in range(tensor.shape[axis]) if i not in gone]
        tensor = tensor.index_select(axis, torch.tensor(kept, device=tensor.device))
    return tensor


def grown(tensor: torch.Tensor, axes: Mapping[int, Sequence[int]]) -> torch.Tensor:
    """Return a tensor with zeros where :func:`cut` takes indices away."""
    for axis, indices in axes.items():
        gone = set(indices)
        total = tensor.shape[axis] + len(gone)
        kept = [i for i in range(total) if i not in gone]
        shape = list(tensor.shape)
        shape[axis] = total
        made = tensor.new_zeros(shape)
        tensor = made.index_copy(axis, torch.tensor(kept, device=tensor.device), tensor)
    return tensor


def keep_mask(tensor: torch.Tensor, axes: Mapping[int, Sequence[int]]) -> torch.Tensor:
    """Return ones of the tensor's shape, zeros where indices are removed."""
    mask = torch.ones_like(tensor)
    for axis, indices in axes.items():
        mask.index_fill_(axis, torch.tensor(list(indices), device=tensor.device), 0)
    return mask


def resize(model: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Give parameters and buffers of a network other shapes, and layers the sizes that follow."""
    modules = dict(model.named_modules())
    for name, value in state.items():
        path, _, leaf = name.rpartition(".")
        owner = modules[path]
        old = getattr(owner, leaf)
        if isinstance(old, nn.Parameter):
            value = nn.Parameter(value.detach().clone(), requires_grad=old.requires_grad)
        else:
            value = value.detach().clone()
        setattr(owner, leaf, value)
        _resize_layer(owner)


def _resize_layer(layer: Any) -> None:
    weight: Any = getattr(layer, "weight", None)
    if isinstance(layer, CONVOLUTIONS):
        depthwise = layer.groups > 1 and layer.groups == layer.in_channels == layer.out_channels
        if depthwise:
            layer.groups = layer.in_channels = layer.out_channels = weight.shape[0]
            return
        outputs, inputs = weight.shape[:2]
        if isinstance(layer, TRANSPOSED):
            inputs, outputs = outputs, inputs
            layer.in_channels, layer.out_channels = inputs, outputs * layer.groups
        else:
            layer.in_channels, layer.out_channels = inputs * layer.groups, outputs
    elif isinstance(layer, nn.Linear):
        layer.out_features, layer.in_features = weight.shape
    elif hasattr(layer, "num_features") and hasattr(layer, "running_mean"):
        known = layer.running_mean if layer.running_mean is not None else weight
        if known is not None:
            layer.num_features = known.shape[0]
    elif isinstance(layer, nn.PReLU):
        layer.num_parameters = weight.shape[0]


def zero(model: nn.Module, dependencies: Dependencies, removed: Removed) -> dict[str, torch.Tensor]:
    """Set the channels of a choice to zero, in place; return the masks of the parameters, by name.

    Outputs, normalizations and the inputs of readers become zero; running variances stay.
    """
    masks = {}
    axes = removed_axes(model, dependencies, removed)
    buffers = dict(model.named_buffers())
    state = {**dict(model.named_parameters()), **buffers}
    with torch.no_grad():
        for name, where in axes.items():
            if name in buffers and not name.endswith("running_mean"):
                continue
            mask = keep_mask(state[name], where)
            state[name].mul_(mask)
            if name not in buffers:
                masks[name] = mask
    return masks


__all__ = [
    "IN", "OUT", "Removed", "axes_of", "cut", "grown", "keep_mask", "removed_axes",
    "removed_channels", "resize", "slim", "zero",
]  # fmt: skip
