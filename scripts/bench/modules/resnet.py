# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 (He et al., 2015), the variant with the stride in the 3x3 convolution."""

import torch
from torch import nn


class Bottleneck(nn.Module):
    """Three convolutions around which the input goes."""

    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        outer = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)
        self.relu = nn.ReLU()
        self.down: nn.Module = nn.Identity()
        if stride != 1 or inner != outer:
            self.down = nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        return torch.relu(y + self.down(x))


def stage(inner: int, width: int, count: int, stride: int) -> list[nn.Module]:
    """Return a stage: blocks of which the first has the stride."""
    first = Bottleneck(inner, width, stride)
    return [first, *(Bottleneck(4 * width, width, 1) for _ in range(count - 1))]


def stem() -> list[nn.Module]:
    """Return what is in front of the stages."""
    return [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip


class ResNet50(nn.Module):
    """Four stages, and scores of 1000 classes."""

    def __init__(self, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> None:
        super().__init__()
        layers, inner = stem(), 64
        for number, count in enumerate(blocks):
            layers += stage(inner, 64 << number, count, 2 if number else 1)
            inner = 256 << number
        self.body, self.fc = nn.Sequential(*layers), nn.Linear(inner, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of 1000 classes."""
        scores: torch.Tensor = self.fc(self.body(x).mean((2, 3)))
        return scores
