# SPDX-License-Identifier: Apache-2.0
"""Operators as modules, so that training has a place for the scale of their result (Table 20).

Arguments have the names that scripts for AMD's modules use; ``out`` is accepted there, too, and is
no part of a network that is traced, so it is not here.
"""

from collections.abc import Sequence

import torch


class Add(torch.nn.Module):
    """``input + alpha * other``, for ``+`` and ``torch.add``."""

    def forward(
        self, input: torch.Tensor, other: torch.Tensor | float, alpha: float = 1
    ) -> torch.Tensor:
        """Return the sum."""
        return torch.add(input, other, alpha=alpha)


class AddScalar(torch.nn.Module):
    """``x + y`` with a number ``y``."""

    def forward(self, x: torch.Tensor, y: float) -> torch.Tensor:
        """Return the sum."""
        return torch.add(x, y)


class Sub(torch.nn.Module):
    """``input - alpha * other``, for ``-`` and ``torch.sub``."""

    def forward(
        self, input: torch.Tensor, other: torch.Tensor | float, alpha: float = 1
    ) -> torch.Tensor:
        """Return the difference."""
        return torch.sub(input, other, alpha=alpha)


class Mul(torch.nn.Module):
    """``x * y``."""

    def forward(self, x: torch.Tensor, y: torch.Tensor | float) -> torch.Tensor:
        """Return the product."""
        return torch.mul(x, y)


class Cat(torch.nn.Module):
    """Tensors one behind the other along an axis."""

    def forward(self, x: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
        """Return the joined tensor."""
        return torch.cat(tuple(x), dim)


class Matmul(torch.nn.Module):
    """The product of matrices."""

    def forward(self, input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Return the product."""
        return torch.matmul(input, other)


class Max(torch.nn.Module):
    """The largest values along an axis, and where they are."""

    def forward(
        self, input: torch.Tensor, dim: int, keepdim: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return values and indices."""
        values, indices = torch.max(input, dim, keepdim)
        return values, indices


class Sum(torch.nn.Module):
    """The sum over axes."""

    def forward(
        self, input: torch.Tensor, dim: int | Sequence[int], keepdim: bool = False,
        dtype: torch.dtype | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Return the sum."""
        return torch.sum(input, _axes(dim), keepdim, dtype=dtype)


class Mean(torch.nn.Module):
    """The mean over axes."""

    def forward(
        self, x: torch.Tensor, dim: int | Sequence[int], keepdim: bool = False
    ) -> torch.Tensor:
        """Return the mean."""
        return torch.mean(x, _axes(dim), keepdim)


class Pad(torch.nn.Module):
    """More rows and columns around images, as ``torch.nn.functional.pad``."""

    def forward(
        self, input: torch.Tensor, pad: Sequence[int], mode: str = "constant", value: float = 0
    ) -> torch.Tensor:
        """Return the padded images."""
        return torch.nn.functional.pad(input, list(pad), mode, value)


class Interpolate(torch.nn.Module):
    """Another size for images, as ``torch.nn.functional.interpolate``."""

    def forward(
        self, input: torch.Tensor, size: int | Sequence[int] | None = None,
        scale_factor: float | None = None, mode: str = "nearest",
        align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Return the resized images."""
        wanted = list(size) if isinstance(size, Sequence) else size
        return torch.nn.functional.interpolate(
            input, wanted, scale_factor, mode, align_corners, recompute_scale_factor
        )


class Upsample(Interpolate):
    """:class:`Interpolate` under the name that PyTorch had for it before."""


def _axes(dim: int | Sequence[int]) -> int | tuple[int, ...]:
    return dim if isinstance(dim, int) else tuple(dim)
