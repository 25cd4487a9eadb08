# SPDX-License-Identifier: Apache-2.0
"""Which channels of a group matter least: those whose weights are smallest.

The score of a unit is the norm of everything that would go with it, each parameter measured
against its own mean (group-wise magnitude, as in DepGraph, arXiv:2301.12900). What is zero
already has a score of zero, so a network that was pruned before is pruned further from there.
"""

from collections.abc import Mapping

import torch
from torch import nn

from opendpu.optimize.layers import Widths
from opendpu.optimize.surgery import removed_axes
from opendpu.pruning.structure import Dependencies


def scores(model: nn.Module, dependencies: Dependencies, name: str) -> torch.Tensor:
    """Return the score of each unit of a group, float64."""
    group = dependencies.groups[name]
    parameters = dict(model.named_parameters())
    total = torch.zeros(group.units, dtype=torch.float64)
    axes = removed_axes(model, dependencies, {name: range(group.units)})
    for member in group.members:
        owned = [key for key in axes if key == member.path or key.rpartition(".")[0] == member.path]
        for key in owned:
            if key not in parameters or parameters[key].dim() < 1:
                continue
            for axis, indices in axes[key].items():
                lookup = dict(zip(member.indices, member.units, strict=True))
                mine = [i for i in indices if i in lookup]
                if not mine:
                    continue
                values = parameters[key].detach().to("cpu", torch.float64)
                others = [a for a in range(values.dim()) if a != axis]
                squares = values.square()
                each = squares.sum(others) if others else squares
                found = torch.zeros_like(total)
                found.index_add_(0, torch.tensor([lookup[i] for i in mine]), each[mine])
                mean = float(found.mean())
                if mean > 0:
                    total += found / mean
    return total


def least_important(
    model: nn.Module, dependencies: Dependencies, widths: Widths
) -> dict[str, list[int]]:
    """Return the units to remove, so that widths are met; the first of equals stay."""
    removed = {}
    for name, kept in widths.items():
        count = dependencies.groups[name].units - kept
        if count:
            order = torch.argsort(scores(model, dependencies, name), stable=True, descending=True)
            removed[name] = sorted(int(i) for i in order[kept:])
    return removed


def ratios(dependencies: Dependencies, widths: Mapping[str, int]) -> dict[str, float]:
    """Return the part of each group that is removed."""
    return {
        name: 1 - widths.get(name, group.units) / group.units
        for name, group in dependencies.groups.items()
    }
