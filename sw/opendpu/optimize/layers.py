# SPDX-License-Identifier: Apache-2.0
"""Layers that multiply, and what they cost for any number of channels: MACs and parameters."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from opendpu.optimize.groups import CONVOLUTIONS, TRANSPOSED, called
from opendpu.optimize.surgery import Removed
from opendpu.pruning.structure import IN, OUT, Dependencies

Widths = Mapping[str, int]
"""Units that stay, by group; a group that is not named stays whole."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layer:
    """A convolution or fully connected layer as it is called once.

    ``spatial`` is the size of the result (of the argument for a transposed convolution), which
    every weight is used for; ``input_size`` that of the argument, height and width.
    """

    path: str
    inputs: int
    outputs: int
    groups: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] | str = ()
    dilation: tuple[int, ...] = ()
    transposed: bool = False
    input_size: tuple[int, ...] = ()
    spatial: int = 1
    bias: bool = False
    calls: int = 1

    @property
    def depthwise(self) -> bool:
        """Whether every channel is by itself."""
        return self.groups > 1 and self.groups == self.inputs == self.outputs

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        per_output = self.inputs // self.groups
        for size in self.kernel:
            per_output *= size
        return self.outputs * (per_output + self.bias)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all calls."""
        return (self.parameters - self.outputs * self.bias) * self.spatial * self.calls


def layers_of(model: nn.Module, inputs: Any) -> dict[str, Layer]:
    """Return the multiplying layers of a network by path, in the order of their first call."""
    quiet = copy.deepcopy(model).eval()
    names = {module: name for name, module in quiet.named_modules()}
    found: dict[str, Layer] = {}

    def seen(module: Any, arguments: tuple[Any, ...], result: torch.Tensor) -> None:
        path = names[module]
        if path in found:
            found[path] = dataclasses.replace(found[path], calls=found[path].calls + 1)
        else:
            found[path] = _layer(path, module, arguments[0], result)

    hooks = [
        module.register_forward_hook(seen)
        for module in quiet.modules()
        if isinstance(module, (*CONVOLUTIONS, nn.Linear))
    ]
    with torch.no_grad():
        called(quiet, inputs)
    for hook in hooks:
        hook.remove()
    return found


def _layer(path: str, module: Any, argument: torch.Tensor, result: torch.Tensor) -> Layer:
    if isinstance(module, nn.Linear):
        rows = argument.numel() // argument.shape[-1] // argument.shape[0]
        return Layer(
            path=path, inputs=module.in_features, outputs=module.out_features, groups=1, kernel=(),
            spatial=max(rows, 1), bias=module.bias is not None,
        )  # fmt: skip
    transposed = isinstance(module, TRANSPOSED)
    sized = argument if transposed else result
    return Layer(
        path=path, inputs=module.in_channels, outputs=module.out_channels, groups=module.groups,
        kernel=tuple(module.kernel_size), stride=tuple(module.stride),
        padding=module.padding if isinstance(module.padding, str) else tuple(module.padding),
        dilation=tuple(module.dilation), transposed=transposed,
        input_size=tuple(argument.shape[2:]), spatial=sized[0, 0].numel(),
        bias=module.bias is not None,
    )  # fmt: skip


class Shapes:
    """The layers of a network for any widths of its groups."""

    def __init__(self, dependencies: Dependencies, layers: Mapping[str, Layer]) -> None:
        self.dependencies = dependencies
        self.layers = dict(layers)
        self._effects: dict[str, list[tuple[str, str, float]]] = {
            name: [
                (member.path, member.side, len(member.indices) / group.units)
                for member in group.members
                if member.path in self.layers
            ]
            for name, group in dependencies.groups.items()
        }
        self._groups_of: dict[str, set[str]] = {}
        for name, effects in self._effects.items():
            for path, _, _ in effects:
                self._groups_of.setdefault(path, set()).add(name)

    def groups_of(self, path: str) -> set[str]:
        """Return the groups that change the shape of a layer."""
        return self._groups_of.get(path, set())

    def at(self, widths: Widths) -> dict[str, Layer]:
        """Return the layers of the network with these widths."""
        gone: dict[tuple[str, str], float] = {}
        for name, kept in widths.items():
            removed = self.dependencies.groups[name].units - kept
            for path, side, each in self._effects[name]:
                gone[path, side] = gone.get((path, side), 0.0) + removed * each
        return {path: self._without(layer, gone) for path, layer in self.layers.items()}

    def _without(self, layer: Layer, gone: Mapping[tuple[str, str], float]) -> Layer:
        outputs = round(gone.get((layer.path, OUT), 0.0))
        inputs = round(gone.get((layer.path, IN), 0.0))
        if layer.depthwise:
            kept = layer.outputs - outputs
            return dataclasses.replace(layer, inputs=kept, outputs=kept, groups=kept)
        if not outputs and not inputs:
            return layer
        return dataclasses.replace(
            layer, inputs=layer.inputs - inputs, outputs=layer.outputs - outputs
        )


def widths_of(dependencies: Dependencies, removed: Removed) -> dict[str, int]:
    """Return how many units of each group a choice leaves."""
    return {
        name: group.units - len(removed.get(name, ()))
        for name, group in dependencies.groups.items()
    }
