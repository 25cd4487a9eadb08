# SPDX-License-Identifier: Apache-2.0
"""A small vision transformer whose stem is convolutions (Xiao et al., 2021)."""

import torch
from torch import nn


class ConvStemTransformer(nn.Module):
    """Four strided convolutions, twelve encoder layers of width 192 with three heads."""

    def __init__(self, depth: int = 12, width: int = 192, heads: int = 3) -> None:
        super().__init__()
        stem: list[nn.Module] = []
        inner = 3
        for outer in (24, 48, 96, 192):
            stem += [
                nn.Conv2d(inner, outer, 3, 2, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()
            ]  # fmt: skip
            inner = outer
        self.stem = nn.Sequential(*stem, nn.Conv2d(inner, width, 1))
        self.places = nn.Parameter(0.02 * torch.randn(1, 196, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(depth)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of 1000 classes."""
        x = self.stem(x).flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            x = layer(x)
        scores: torch.Tensor = self.head(self.norm(x).mean(1))
        return scores
