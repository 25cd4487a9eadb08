# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 (Sandler et al., 2018)."""

import torch
from torch import nn

STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, blocks and stride, as in the paper's Table 2."""


def layer(inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return a convolution with normalization and ReLU6."""
    return nn.Sequential(
        nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outer), nn.ReLU6(),
    )  # fmt: skip


class InvertedResidual(nn.Module):
    """Wide inside, narrow at its ends, which it joins where they are alike."""

    def __init__(self, inner: int, outer: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inner * expansion
        layers: list[nn.Module] = [] if expansion == 1 else [layer(inner, wide, 1)]
        layers += [
            layer(wide, wide, 3, stride, wide),
            nn.Conv2d(wide, outer, 1, bias=False), nn.BatchNorm2d(outer),
        ]  # fmt: skip
        self.block, self.joins = nn.Sequential(*layers), stride == 1 and inner == outer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result."""
        y: torch.Tensor = self.block(x)
        return x + y if self.joins else y


class MobileNetV2(nn.Module):
    """Seventeen blocks, and scores of 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        layers, inner = [layer(3, 32, 3, 2)], 32
        for expansion, outer, count, stride in STAGES:
            for number in range(count):
                block = InvertedResidual(inner, outer, 1 if number else stride, expansion)
                layers.append(nn.Sequential(block))
                inner = outer
        self.features = nn.Sequential(*layers, layer(inner, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of 1000 classes."""
        pooled = nn.functional.adaptive_avg_pool2d(self.features(x), 1).flatten(1)
        scores: torch.Tensor = self.classifier(pooled)
        return scores
