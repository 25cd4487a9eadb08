# SPDX-License-Identifier: Apache-2.0
"""Operators as modules, so that training has a place for the scale of their result (Table 20)."""

from collections.abc import Sequence

import torch


class Add(torch.nn.Module):
    """``x + alpha * y``, for ``+`` and ``torch.add``."""

    def forward(self, x: torch.Tensor, y: torch.Tensor | float, alpha: float = 1) -> torch.Tensor:
        """Return the sum."""
        return torch.add(x, y, alpha=alpha)


class Sub(torch.nn.Module):
    """``x - alpha * y``, for ``-`` and ``torch.sub``."""

    def forward(self, x: torch.Tensor, y: torch.Tensor | float, alpha: float = 1) -> torch.Tensor:
        """Return the difference."""
        return torch.sub(x, y, alpha=alpha)


class Mul(torch.nn.Module):
    """``x * y``."""

    def forward(self, x: torch.Tensor, y: torch.Tensor | float) -> torch.Tensor:
        """Return the product."""
        return torch.mul(x, y)


class Cat(torch.nn.Module):
    """Tensors one behind the other along an axis."""

    def forward(self, tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
        """Return the joined tensor."""
        return torch.cat(tuple(tensors), dim)


class Matmul(torch.nn.Module):
    """The product of matrices."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the product."""
        return torch.matmul(x, y)


class Mean(torch.nn.Module):
    """The mean over axes."""

    def forward(
        self, x: torch.Tensor, dim: int | Sequence[int], keepdim: bool = False
    ) -> torch.Tensor:
        """Return the mean."""
        return torch.mean(x, dim if isinstance(dim, int) else tuple(dim), keepdim)


class Interpolate(torch.nn.Module):
    """Another size for images, as ``torch.nn.functional.interpolate``."""

    def forward(
        self, x: torch.Tensor, size: int | Sequence[int] | None = None,
        scale_factor: float | None = None, mode: str = "nearest",
        align_corners: bool | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Return the resized images."""
        wanted = list(size) if isinstance(size, Sequence) else size
        return torch.nn.functional.interpolate(x, wanted, scale_factor, mode, align_corners)
