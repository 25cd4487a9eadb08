# SPDX-License-Identifier: Apache-2.0
"""Once-for-all networks: one set of weights, any choice of widths (arXiv:1908.09791)."""

import copy
import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from opendpu.optimize.dynamic import make_dynamic, make_static
from opendpu.optimize.importance import scores
from opendpu.optimize.layers import Layer, Shapes, layers_of
from opendpu.optimize.objective import Macs, Params
from opendpu.optimize.surgery import removed_axes, slim
from opendpu.pruning.arguments import whole, wrong
from opendpu.pruning.objective import levels
from opendpu.pruning.structure import OUT, Dependencies, Group
from opendpu_arch.errors import UnsupportedError

MEGA = 1e6
Setting = list[dict[str, Any]]
"""Widths of a subnetwork: ``name``, ``channels`` and ``ratio`` of every group that has several."""


@dataclasses.dataclass(frozen=True)
class SearchSpace:
    """Widths that each group may have, ascending; groups with one are left out."""

    widths: dict[str, list[int]]

    def random(self, generator: random.Random) -> dict[str, int]:
        """Return widths at random."""
        return {name: generator.choice(found) for name, found in self.widths.items()}

    def extreme(self, largest: bool) -> dict[str, int]:
        """Return the largest or smallest widths."""
        return {name: found[-1 if largest else 0] for name, found in self.widths.items()}


class Supernet:
    """What a once-for-all network can be, and what its subnetworks cost.

    Parameters
    ----------
    model, inputs
        The network that it begins with, and what that is called with.
    dependencies
        Its groups.
    expand_ratio
        Parts of the channels of each group that subnetworks have.
    divisible
        What numbers of channels are divisible by.

    Raises
    ------
    UnsupportedError
        Ratios are out of range, or no group has a choice.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Any,
        dependencies: Dependencies,
        expand_ratio: Sequence[float],
        divisible: int,
    ) -> None:
        _check_ratios(expand_ratio)
        whole("channel_divisible", divisible)
        self.dependencies, self.inputs = dependencies, inputs
        layers = layers_of(model, inputs)
        chosen = dict(dependencies.groups)
        if _mostly_depthwise(layers):
            chosen = {n: g for n, g in chosen.items() if _has_kernel(g, layers)}
        self.space = SearchSpace(
            {
                name: found
                for name, group in chosen.items()
                if len(found := levels(group, sorted(expand_ratio), divisible)) > 1
            }
        )
        if not self.space.widths:
            raise UnsupportedError(
                f"no layer of {type(model).__name__} has a choice of channels: all are excluded, "
                "outputs, or narrower than channel_divisible",
                code="OPTIMIZER_UNSUPPORTED_OP_ERROR",
            )
        # what matters most in the given network is in every subnetwork
        self.order = {
            name: torch.argsort(scores(model, dependencies, name), stable=True, descending=True)
            for name in self.space.widths
        }
        self.macs = Macs(Shapes(dependencies, layers))
        self.params = Params(model, dependencies)
        self.model = self._dynamic(model)

    def removed(self, widths: Mapping[str, int]) -> dict[str, list[int]]:
        """Return the units that a subnetwork is without."""
        return {
            name: sorted(int(i) for i in self.order[name][kept:])
            for name, kept in widths.items()
            if kept < self.dependencies.groups[name].units
        }

    def activate(self, model: nn.Module, widths: Mapping[str, int]) -> None:
        """Let a once-for-all network compute as one of its subnetworks."""
        axes = removed_axes(model, self.dependencies, self.removed(widths))
        modules = dict(model.named_modules())
        for module in modules.values():
            if hasattr(module, "active"):
                module.active = {}  # type: ignore[assignment]
        sizes = {name: value.shape for name, value in model.state_dict().items()}
        for name, where in axes.items():
            path, _, leaf = name.rpartition(".")
            kept = {}
            for axis, indices in where.items():
                gone = set(indices)
                kept[axis] = torch.tensor([i for i in range(sizes[name][axis]) if i not in gone])
            active: Any = modules[path].active
            active[leaf] = kept

    def static(self, model: nn.Module, widths: Mapping[str, int]) -> nn.Module:
        """Return a subnetwork as a network by itself."""
        made = copy.deepcopy(model)
        make_static(made)
        return slim(made, self.dependencies, self.removed(widths))

    def setting(self, widths: Mapping[str, int]) -> Setting:
        """Return widths as what can be written to a file."""
        groups = self.dependencies.groups
        return [
            {
                "name": name,
                "channels": kept * groups[name].size,
                "ratio": round(kept / groups[name].units, 6),
            }
            for name, kept in widths.items()
        ]

    def widths(self, setting: Setting) -> dict[str, int]:
        """Return the widths of a setting.

        Raises
        ------
        UnsupportedError
            It is not one of this network.
        """
        groups = self.dependencies.groups
        try:
            found = {
                item["name"]: item["channels"] // groups[item["name"]].size for item in setting
            }
            if set(found) != set(self.space.widths):
                raise KeyError(min(set(found) ^ set(self.space.widths)))
            for name, kept in found.items():
                if not 0 < kept <= groups[name].units:
                    raise KeyError(name)
        except (KeyError, TypeError) as error:
            raise UnsupportedError(
                f"the subnet setting is not one of this network: {error}",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            ) from None
        return found

    def cost(self, widths: Mapping[str, int]) -> tuple[float, float]:
        """Return MACs and parameters of a subnetwork, in millions."""
        return self.macs.exact(widths) / MEGA, self.params.exact(widths) / MEGA

    def _dynamic(self, model: nn.Module) -> nn.Module:
        made = copy.deepcopy(model)
        paths = {
            member.path
            for name in self.space.widths
            for member in self.dependencies.groups[name].members
        }
        make_dynamic(made, paths)
        fixed = [
            path for path, m in made.named_modules() if path in paths and not hasattr(m, "active")
        ]
        if fixed:
            raise UnsupportedError(
                f"{fixed[0]} has no dynamic form; exclude the layers before it",
                code="OPTIMIZER_UNSUPPORTED_OP_ERROR",
            )
        return made


def _check_ratios(given: Any) -> None:
    ratios = given if isinstance(given, list | tuple) else ()
    if not ratios or not all(isinstance(r, int | float) and 0 < r <= 1 for r in ratios):
        raise wrong("expand_ratio", given, "parts of channels, above 0 and at most 1")


def ends_of(model: nn.Module, inputs: Any) -> list[str]:
    """Return the paths of the first and the last convolution that are called."""
    found = [path for path, layer in layers_of(model, inputs).items() if layer.kernel]
    return [found[0], found[-1]] if found else []


def _mostly_depthwise(layers: Mapping[str, Layer]) -> bool:
    convolutions = [layer for layer in layers.values() if layer.kernel]
    depthwise = sum(layer.depthwise for layer in convolutions)
    return depthwise > len(convolutions) - depthwise


def _has_kernel(group: Group, layers: Mapping[str, Layer]) -> bool:
    """Return whether a convolution with a kernel larger than a pixel makes the channels."""
    return any(
        max(layers[m.path].kernel, default=1) > 1
        for m in group.members
        if m.side == OUT and m.path in layers
    )
