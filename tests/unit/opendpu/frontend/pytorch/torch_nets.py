# SPDX-License-Identifier: Apache-2.0
"""Small PyTorch modules, written as networks usually are."""

from typing import Any

import torch
from torch import nn

from opendpu.frontend.pytorch.markers import mark


class Inverted(nn.Module):
    """A separable convolution with squeeze and excitation, as in mobile networks."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 12, 3, 2, 1), nn.Hardswish(), nn.Conv2d(12, 12, 3, 1, 1, groups=12),
            nn.BatchNorm2d(12, affine=False), nn.ReLU6(),
        )  # fmt: skip
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(12, 4, 1), nn.ReLU(), nn.Conv2d(4, 12, 1),
            nn.Hardsigmoid(),
        )  # fmt: skip
        self.head = nn.ConvTranspose2d(12, 4, 2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        x = x * self.squeeze(x)
        x = torch.cat([self.head(x), nn.functional.interpolate(x, scale_factor=2.0)], 1)
        return nn.functional.leaky_relu(x, 0.1)


class Shuffle(nn.Module):
    """Halves of the channels go different ways and are mixed."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1)
        self.branch = nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, other = self.conv(x).chunk(2, 1)
        x = torch.cat([one, self.branch(other).relu()], 1)
        batch, channels, height, width = x.shape
        x = x.view(batch, 2, channels // 2, height, width).transpose(1, 2)
        return x.reshape(batch, channels, height, width)


class Attention(nn.Module):
    """Patches, attention, normalization: operators that the DPU has not."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.patches(x).flatten(2).transpose(1, 2))
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(x.mean(1))


class Nested(nn.Module):
    """Nested arguments and results, some of them no tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(
        self, image: torch.Tensor, extra: dict[str, list[torch.Tensor]], scale: int = 1
    ) -> dict[str, Any]:
        y = self.conv(image) * scale + extra["bias"][0]
        return {"map": y, "many": [y.mean((2, 3)), image], "scale": scale, "none": None, "again": y}


class ValueFlow(nn.Module):
    """What it computes depends on values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 1


class Joining(nn.Module):
    """Mixes the samples of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) - x.mean(0, keepdim=True)


class Partial(nn.Module):
    """Three convolutions; the first and the last are between markers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.middle = nn.Conv2d(4, 4, 3)
        self.last = nn.Conv2d(4, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(mark("quant_stub", x)).relu()
        x = self.middle(mark("dequant_stub", x)).tanh()
        return mark("dequant_stub", self.last(mark("quant_stub", x)))
