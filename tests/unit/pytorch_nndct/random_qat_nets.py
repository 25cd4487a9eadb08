# SPDX-License-Identifier: Apache-2.0
"""Random networks for quantization aware training."""

import numpy as np
import torch
from frameworks.torch_nets import seeded
from torch import nn

from pytorch_nndct.nn import DeQuantStub, QuantStub, functional


class RandomNet(nn.Module):
    """A chain of blocks, some of which keep what went in."""

    def __init__(self, blocks: list[nn.Module], channels: int, classifier: bool) -> None:
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1) if classifier else None
        self.last = nn.Linear(channels, 5) if classifier else nn.Conv2d(channels, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.quant(x))
        if self.pool is not None:
            x = torch.flatten(self.pool(x), 1)
        return self.dequant(self.last(x))


class Summed(nn.Module):
    """What goes in, plus what a block makes of it."""

    def __init__(self, inner: nn.Module, behind: nn.Module) -> None:
        super().__init__()
        self.inner, self.add, self.behind = inner, functional.Add(), behind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.behind(self.add(self.inner(x), x))


class Joined(nn.Module):
    """Two blocks side by side, and perhaps what goes in."""

    def __init__(self, left: nn.Module, right: nn.Module, whole: bool) -> None:
        super().__init__()
        self.left, self.right, self.cat, self.whole = left, right, functional.Cat(), whole

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cat([self.left(x), self.right(x), *([x] if self.whole else [])], 1)


def _activation(rng: np.random.Generator) -> nn.Module:
    kinds = (
        nn.ReLU, nn.ReLU6, lambda: nn.LeakyReLU(float(rng.choice([0.1, 0.01, 0.1015625]))),
        nn.Hardsigmoid, nn.Hardswish, nn.Identity,
    )  # fmt: skip
    return kinds[int(rng.integers(len(kinds)))]()


def _convolution(rng: np.random.Generator, given: int, made: int, stride: int = 1) -> nn.Module:
    kernel = int(rng.choice([1, 3, 5]))
    groups = given if given == made and rng.random() < 0.3 else 1
    layers: list[nn.Module] = [
        nn.Conv2d(given, made, kernel, stride, kernel // 2, groups=groups, bias=rng.random() < 0.5)
    ]
    if rng.random() < 0.7:
        layers.append(nn.BatchNorm2d(made))
    return nn.Sequential(*layers, _activation(rng))


def drawn(rng: np.random.Generator) -> nn.Module:
    """Return a network for images of [N, 3, 16, 16] with random blocks and weights."""
    channels = int(rng.choice([4, 6, 8]))
    blocks, size = [_convolution(rng, 3, channels)], 16
    for _ in range(int(rng.integers(2, 5))):
        kind = int(rng.integers(7))
        if kind == 0:
            made = int(rng.choice([4, 8, 12]))
            blocks.append(_convolution(rng, channels, made))
            channels = made
        elif kind == 1:
            blocks.append(Summed(_convolution(rng, channels, channels), _activation(rng)))
        elif kind == 2:
            whole = bool(rng.random() < 0.5)
            left, right = _convolution(rng, channels, 4), _convolution(rng, channels, 4)
            blocks.append(Joined(left, right, whole))
            channels = 8 + whole * channels
        elif kind == 3 and size > 4:
            pools = (nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2), nn.AvgPool2d(3, 2, 1))
            blocks.append(pools[int(rng.integers(len(pools)))])
            size //= 2
        elif kind == 4 and size < 32:
            made = int(rng.choice([4, 6]))
            blocks += [nn.ConvTranspose2d(channels, made, 2, 2), _activation(rng)]
            channels, size = made, 2 * size
        elif kind == 5 and size < 32:
            mode = str(rng.choice(["nearest", "bilinear"]))
            blocks.append(nn.Upsample(scale_factor=2, mode=mode))
            size *= 2
        elif kind == 6 and size > 4:
            blocks.append(_convolution(rng, channels, channels, 2))
            size //= 2
    seed = int(rng.integers(1 << 31))
    torch.manual_seed(seed)
    return seeded(RandomNet(blocks, channels, bool(rng.random() < 0.5)), seed)
