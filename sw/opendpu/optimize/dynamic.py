# SPDX-License-Identifier: Apache-2.0
"""Layers that compute with some of their channels: those of a once-for-all network.

Each is the layer of PyTorch that it is named after, with the same parameters; ``active`` says which
indices of which axis of a parameter are used. Unused ones get no gradient.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Active = Mapping[str, Mapping[int, torch.Tensor]]
"""Kept indices by name of a parameter or buffer of the layer, and by axis."""


class _Dynamic:
    """What dynamic layers share."""

    active: Active

    def chosen(self, name: str) -> Any:
        """Return a parameter or buffer, of which only what is active."""
        value = getattr(self, name)
        if value is None:
            return None
        for axis, kept in getattr(self, "active", {}).get(name, {}).items():
            value = value.index_select(axis, kept.to(value.device))
        return value


class DynamicConv2d(_Dynamic, nn.Conv2d):
    """A convolution that uses some of its channels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the active output channels."""
        weight = self.chosen("weight")
        depthwise = self.groups > 1 and self.groups == self.in_channels == self.out_channels
        groups = weight.shape[0] if depthwise else self.groups
        before, self.groups = self.groups, groups
        try:
            return self._conv_forward(x, weight, self.chosen("bias"))
        finally:
            self.groups = before


class DynamicConvTranspose2d(_Dynamic, nn.ConvTranspose2d):
    """A transposed convolution that uses some of its channels."""

    def forward(self, x: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        """Return the active output channels."""
        weight = self.chosen("weight")
        depthwise = self.groups > 1 and self.groups == self.in_channels == self.out_channels
        layer: Any = self
        stride, padding, dilation = list(layer.stride), list(layer.padding), list(layer.dilation)
        extra = self._output_padding(
            x, output_size, stride, padding, list(layer.kernel_size), 2, dilation
        )
        return F.conv_transpose2d(
            x, weight, self.chosen("bias"), stride, padding, extra,
            weight.shape[0] if depthwise else self.groups, dilation,
        )  # fmt: skip


class DynamicLinear(_Dynamic, nn.Linear):
    """A fully connected layer that uses some of its features."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the active features."""
        return F.linear(x, self.chosen("weight"), self.chosen("bias"))


class DynamicBatchNorm2d(_Dynamic, nn.BatchNorm2d):
    """A batch normalization of some of its channels, whose statistics alone are renewed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the normalized channels."""
        factor = self.momentum if self.momentum is not None else 0.0
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        mean, variance = self.chosen("running_mean"), self.chosen("running_var")
        use_batch = self.training or mean is None
        result = F.batch_norm(
            x, mean, variance, self.chosen("weight"), self.chosen("bias"), use_batch, factor,
            self.eps,
        )  # fmt: skip
        if self.training and mean is not None:
            for name, value in (("running_mean", mean), ("running_var", variance)):
                kept = getattr(self, "active", {}).get(name, {}).get(0)
                if kept is not None:  # what was chosen is a copy
                    getattr(self, name).index_copy_(0, kept.to(value.device), value)
        return result


CLASSES: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv2d: DynamicConv2d,
    nn.ConvTranspose2d: DynamicConvTranspose2d,
    nn.BatchNorm2d: DynamicBatchNorm2d,
    nn.Linear: DynamicLinear,
}
"""What a layer becomes in a once-for-all network."""

COMPUTING = ("__call__", "forward", "_conv_forward", "_output_padding")
"""Methods by which layers compute."""


def make_dynamic(model: nn.Module, paths: set[str]) -> None:
    """Turn the layers with these paths into dynamic ones, in place; parameters stay.

    Layers of a user's class are among them where it computes as that of PyTorch does.
    """
    for path, module in model.named_modules():
        found = _dynamic_form(type(module)) if path in paths else None
        if found is not None:
            module.static_class = type(module)  # type: ignore[assignment]
            module.__class__ = found
            module.active = {}  # type: ignore[assignment]


def make_static(model: nn.Module) -> None:
    """Turn dynamic layers back, in place."""
    for module in model.modules():
        if "static_class" in vars(module):
            made: Any = module
            made.__class__ = made.static_class
            del made.active, made.static_class


def _dynamic_form(kind: type[nn.Module]) -> type[nn.Module] | None:
    """Return what layers of a class become; nothing where they compute in a way of their own."""
    for plain, dynamic in CLASSES.items():
        if issubclass(kind, plain) and all(
            getattr(kind, name, None) is getattr(plain, name, None) for name in COMPUTING
        ):
            return dynamic
    return None
