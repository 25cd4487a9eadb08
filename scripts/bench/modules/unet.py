# SPDX-License-Identifier: Apache-2.0
"""U-Net (Ronneberger et al., 2015) with padding, half as wide."""

import torch
from torch import nn


def double(inner: int, outer: int) -> nn.Sequential:
    """Return two convolutions with normalization and ReLU."""
    layers: list[nn.Module] = []
    for width in (inner, outer):
        layers += [nn.Conv2d(width, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Four levels down and up."""

    def __init__(self, classes: int = 8) -> None:
        super().__init__()
        widths = (32, 64, 128, 256, 512)
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(
            double(a, b) for a, b in zip((3, *widths[:-1]), widths, strict=True)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.join = nn.ModuleList(double(2 * w, w) for w in widths[-2::-1])
        self.last = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores of classes of every pixel."""
        kept: list[torch.Tensor] = []
        for block in self.down:
            x = block(self.pool(x) if kept else x)
            kept.append(x)
        for up, join, aside in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([aside, up(x)], 1))
        scores: torch.Tensor = self.last(x)
        return scores
