# SPDX-License-Identifier: Apache-2.0
"""Layers with N:M sparsity along their input channels."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


def sparse(values: torch.Tensor, axis: int, sparsity: float, block: int) -> torch.Tensor:
    """Return values with the smallest of each block along an axis at zero.

    In each block of ``block`` consecutive elements the part ``sparsity`` (rounded down in a last
    block that is shorter) with the smallest magnitudes becomes zero; of equals the first ones.
    Gradients pass as if nothing had (straight through).
    """
    if not sparsity:
        return values
    moved = values.detach().abs().movedim(axis, -1)
    mask = torch.ones_like(moved)
    for begin in range(0, moved.shape[-1], block):
        part = moved[..., begin : begin + block]
        smallest = torch.argsort(part, dim=-1, stable=True)[..., : int(part.shape[-1] * sparsity)]
        mask[..., begin : begin + block].scatter_(-1, smallest, 0.0)
    kept = values * mask.movedim(-1, axis)
    return values + (kept - values).detach()


class _Sparse:
    """What sparse layers share."""

    w_sparsity: float
    a_sparsity: float
    block_size: int
    weight: Any

    def sparse_weight(self) -> torch.Tensor:
        """Return the weights with their zeros; input channels are axis 1."""
        return sparse(self.weight, 1, self.w_sparsity, self.block_size)


class SparseConv2d(_Sparse, nn.Conv2d):
    """A convolution with sparse weights and, if wanted, sparse inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the convolution of what is not zero."""
        x = sparse(x, 1, self.a_sparsity, self.block_size)
        return self._conv_forward(x, self.sparse_weight(), self.bias)


class SparseLinear(_Sparse, nn.Linear):
    """A fully connected layer with sparse weights and, if wanted, sparse inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product of what is not zero."""
        x = sparse(x, -1, self.a_sparsity, self.block_size)
        return F.linear(x, self.sparse_weight(), self.bias)


def make_plain(model: nn.Module) -> None:
    """Turn sparse layers into plain ones with zeros in their weights, in place."""
    for module in model.modules():
        if isinstance(module, SparseConv2d | SparseLinear):
            with torch.no_grad():
                module.weight.copy_(module.sparse_weight())
            layer: Any = module
            layer.__class__ = nn.Conv2d if isinstance(module, nn.Conv2d) else nn.Linear
            for name in ("w_sparsity", "a_sparsity", "block_size"):
                delattr(layer, name)
