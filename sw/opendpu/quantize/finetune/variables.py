# SPDX-License-Identifier: Apache-2.0
"""What training changes: weights, or which way they are rounded, and biases, on their grids."""

import abc
from typing import Any

from opendpu.ir import Array
from opendpu.quantize.finetune.grids import Grid
from opendpu.quantize.finetune.pytorch import torch_module

Tensor = Any
"""A tensor of PyTorch."""

STRETCH_LOW, STRETCH_HIGH = -0.1, 1.1
"""Ends of the stretched sigmoid of AdaRound, which reaches 0 and 1 (arXiv 2004.10568, eq. 23)."""

BETA_START, BETA_END = 20.0, 2.0
"""First and last exponent of its regularization."""

WARM_UP = 0.2
"""Part of the steps before it begins."""

STRENGTH = 0.05
"""Its weight, against an error that is 1 at first."""


class Variables(abc.ABC):
    """Weights and bias that are trained, in units of their steps."""

    learning_rate: float
    """What suits the optimizer Adam."""

    rows_a_sample: int
    """Positions of a feature map that stand for a sample in a batch."""

    def __init__(self, weights: Array, grid: Grid, bias: Array | None, bias_grid: Grid) -> None:
        self._torch = torch = torch_module()
        self.grid, self.bias_grid = grid, bias_grid
        self._step, self._bias_step = (
            torch.as_tensor(one.step, dtype=torch.float32) for one in (grid, bias_grid)
        )
        self._start = torch.tensor(weights, dtype=torch.float32) / self._step
        self._bias = None
        if bias is not None:
            self._bias = torch.tensor(bias, dtype=torch.float32) / self._bias_step
            self._bias.requires_grad_(True)

    def trained(self) -> list[Tensor]:
        """Return the tensors that the optimizer changes."""
        return [self._variable()] + ([] if self._bias is None else [self._bias])

    def bias(self) -> Tensor | None:
        """Return the bias on its grid, as real numbers; gradients pass the rounding."""
        if self._bias is None:
            return None
        return self._rounded(self._bias, self.bias_grid) * self._bias_step

    @abc.abstractmethod
    def _variable(self) -> Tensor:
        """Return what stands for the weights."""

    @abc.abstractmethod
    def weights(self) -> Tensor:
        """Return the weights to train with, as real numbers."""

    @abc.abstractmethod
    def final(self) -> Tensor:
        """Return the weights on their grid, as real numbers."""

    def penalty(self, progress: float) -> Tensor | float:
        """Return what is added to the error after a part of the steps."""
        return 0.0

    def _rounded(self, steps: Tensor, grid: Grid) -> Tensor:
        """Return numbers on a grid; the gradient is that of saturation alone."""
        held = steps.clamp(grid.low, grid.high)
        return held + ((held + 0.5).floor().clamp(grid.low, grid.high) - held).detach()


class AdaQuant(Variables):
    """Weights themselves are trained, straight through their rounding (arXiv 2006.10518)."""

    learning_rate = 0.005  # with 0.02 and more, rounding moves on few samples only: less agreement
    rows_a_sample = 4  # with more of them, steps fit the examples better and other data worse

    def __init__(self, weights: Array, grid: Grid, bias: Array | None, bias_grid: Grid) -> None:
        super().__init__(weights, grid, bias, bias_grid)
        self._steps = self._start.clone().requires_grad_(True)

    def _variable(self) -> Tensor:
        return self._steps

    def weights(self) -> Tensor:
        """Return the rounded weights."""
        return self._rounded(self._steps, self.grid) * self._step

    def final(self) -> Tensor:
        """Return the rounded weights."""
        return self.weights().detach()


class AdaRound(Variables):
    """Each weight is rounded up or down, which a stretched sigmoid decides (arXiv 2004.10568)."""

    learning_rate = 0.01
    rows_a_sample = 16

    def __init__(self, weights: Array, grid: Grid, bias: Array | None, bias_grid: Grid) -> None:
        super().__init__(weights, grid, bias, bias_grid)
        self._floor = self._start.floor()
        part = (self._start - self._floor - STRETCH_LOW) / (STRETCH_HIGH - STRETCH_LOW)
        self._logits = self._torch.logit(part.clamp(1e-4, 1 - 1e-4)).requires_grad_(True)

    def _variable(self) -> Tensor:
        return self._logits

    def _up(self) -> Tensor:
        """Return how far each weight is rounded up, 0 to 1."""
        wide = self._torch.sigmoid(self._logits) * (STRETCH_HIGH - STRETCH_LOW) + STRETCH_LOW
        return wide.clamp(0.0, 1.0)

    def weights(self) -> Tensor:
        """Return the weights between two neighbours on their grid."""
        return (self._floor + self._up()).clamp(self.grid.low, self.grid.high) * self._step

    def final(self) -> Tensor:
        """Return the nearer neighbour."""
        up = (self._up() >= 0.5).float()
        return ((self._floor + up).clamp(self.grid.low, self.grid.high) * self._step).detach()

    def penalty(self, progress: float) -> Tensor | float:
        """Return how undecided the weights are: less and less of that is tolerated."""
        if progress < WARM_UP:
            return 0.0
        late = (progress - WARM_UP) / (1 - WARM_UP)
        beta = BETA_END + (BETA_START - BETA_END) * (1 - late)
        undecided = 1 - (2 * self._up() - 1).abs().pow(beta)
        return STRENGTH * undecided.mean()


METHODS: dict[str, type[Variables]] = {"adaquant": AdaQuant, "adaround": AdaRound}
"""Ways to finetune, by name."""
