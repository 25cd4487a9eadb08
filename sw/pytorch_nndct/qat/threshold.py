# SPDX-License-Identifier: Apache-2.0
"""Quantizers whose thresholds are trained: Jain et al., Trained Quantization Thresholds (2019).

The scale is ``2**(ceil(log2_threshold) + 1 - bits)``, a power of two. Gradients pass through the
rounding of values and of the exponent as if these were not there (straight-through): inside of the
range a value has its own gradient, and the threshold the error of rounding; outside, a value has
none, and the threshold that of the end of the range.
"""

import math
from typing import Any

import torch

CANDIDATES = 6
"""Exponents, from that at which nothing saturates downwards, that are tried in the beginning."""

ELEMENTS = 1 << 17
"""Values that are looked at in the beginning, at most."""

START = 0.5
"""Where between two exponents a threshold begins: as far from either."""


class _Scale(torch.autograd.Function):
    """The scale that belongs to a threshold, exactly a power of two."""

    @staticmethod
    def forward(ctx: Any, log2_threshold: torch.Tensor, bits: int) -> torch.Tensor:
        exponent = torch.ceil(log2_threshold).to(torch.int32) + 1 - bits
        scale = torch.ldexp(torch.ones_like(log2_threshold), exponent)
        ctx.save_for_backward(scale)
        return scale

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (scale,) = ctx.saved_tensors
        return gradients[0] * scale * math.log(2.0), None


class _HalfUp(torch.autograd.Function):
    """The nearest integer, halves up, as the DPU rounds."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.floor(x + 0.5)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0]


class TrainedThreshold(torch.nn.Module):
    """Rounds to signed integers of ``bits`` bits times a power of two, whose size is trained.

    The first values that it sees choose where the threshold begins: the exponent with the least
    squared error.
    """

    ready: torch.Tensor

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits
        self.log2_threshold = torch.nn.Parameter(torch.zeros(1))
        self.register_buffer("ready", torch.zeros(1, dtype=torch.bool))

    @property
    def fix_point(self) -> int:
        """Fractional bits of the integers."""
        return self.bits - 1 - math.ceil(float(self.log2_threshold.detach()))

    @torch.no_grad()
    def set_fix_point(self, fix_point: int) -> None:
        """Begin with this many fractional bits."""
        self.log2_threshold.fill_(self.bits - 1 - fix_point - START)
        self.ready.fill_(True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the nearest numbers on the grid."""
        if not self.ready:
            self.begin(x)
        return self.rounded(x)

    def rounded(self, x: torch.Tensor) -> torch.Tensor:
        """Return the nearest numbers on the grid, with a threshold that is there."""
        scale = _Scale.apply(self.log2_threshold, self.bits)  # type: ignore[no-untyped-call]
        low, high = -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        whole = _HalfUp.apply(x / scale)  # type: ignore[no-untyped-call]
        return torch.clamp(whole, low, high) * scale

    @torch.no_grad()
    def begin(self, x: torch.Tensor) -> None:
        """Choose the threshold for some values."""
        flat = x.detach().flatten()
        values = flat[:: max(1, flat.numel() // ELEMENTS)]
        largest = float(values.abs().max()) if values.numel() else 0.0
        top = math.ceil(math.log2(largest)) if largest > 0 else 0
        errors = {}
        for exponent in range(top, top - CANDIDATES, -1):
            self.log2_threshold.fill_(exponent - START)
            errors[exponent] = float((self.rounded(values) - values).double().square().sum())
        self.log2_threshold.fill_(min(errors, key=lambda e: errors[e]) - START)
        self.ready.fill_(True)
