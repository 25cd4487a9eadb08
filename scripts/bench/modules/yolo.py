# SPDX-License-Identifier: Apache-2.0
"""A detector as YOLOv8n is: SiLU everywhere, three scales, boxes as distributions of distances."""

import torch
from torch import nn


class Conv(nn.Module):
    """A convolution with normalization and SiLU."""

    def __init__(self, inner: int, outer: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, kernel, stride, kernel // 2, bias=False)
        self.bn, self.act = nn.BatchNorm2d(outer), nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's result."""
        result: torch.Tensor = self.act(self.bn(self.conv(x)))
        return result


class C2f(nn.Module):
    """Half of the channels go through blocks; what every block gives is kept."""

    def __init__(self, inner: int, outer: int, count: int, joins: bool) -> None:
        super().__init__()
        self.width, self.joins = outer // 2, joins
        self.first = Conv(inner, outer)
        self.blocks = nn.ModuleList(
            nn.Sequential(Conv(self.width, self.width, 3), Conv(self.width, self.width, 3))
            for _ in range(count)
        )
        self.last = Conv((2 + count) * self.width, outer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result."""
        found = list(self.first(x).split(self.width, 1))
        for block in self.blocks:
            y = block(found[-1])
            found.append(found[-1] + y if self.joins else y)
        result: torch.Tensor = self.last(torch.cat(found, 1))
        return result


class Pyramid(nn.Module):
    """Three poolings after each other, side by side (SPPF)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = Conv(width, width // 2), Conv(2 * width, width)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result."""
        found = [self.first(x)]
        for _ in range(3):
            found.append(self.pool(found[-1]))
        result: torch.Tensor = self.last(torch.cat(found, 1))
        return result


class Head(nn.Module):
    """Distances to the four sides, each a distribution over 16 bins, and scores of classes."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.box = nn.Sequential(Conv(width, 64, 3), Conv(64, 64, 3), nn.Conv2d(64, 64, 1))
        wide = max(64, min(classes, 100))
        self.kinds = nn.Sequential(
            Conv(width, wide, 3), Conv(wide, wide, 3), nn.Conv2d(wide, classes, 1)
        )
        self.bins: torch.Tensor
        self.register_buffer("bins", torch.arange(16.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return distances and scores of every place, ``[N, 4 + classes, places]``."""
        box, kinds = self.box(x).flatten(2), self.kinds(x).flatten(2)
        spread = box.unflatten(1, (4, 16)).softmax(2)
        return torch.cat([(spread * self.bins[:, None]).sum(2), kinds.sigmoid()], 1)


class Yolo(nn.Module):
    """Backbone, a path down and up again, three heads."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.stem = nn.Sequential(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), C2f(32, 32, 1, True))
        self.p3 = nn.Sequential(Conv(32, 64, 3, 2), C2f(64, 64, 2, True))
        self.p4 = nn.Sequential(Conv(64, 128, 3, 2), C2f(128, 128, 2, True))
        self.p5 = nn.Sequential(Conv(128, 256, 3, 2), C2f(256, 256, 1, True), Pyramid(256))
        self.up = nn.Upsample(scale_factor=2)
        self.n4, self.n3 = C2f(384, 128, 1, False), C2f(192, 64, 1, False)
        self.d4, self.d5 = Conv(64, 64, 3, 2), Conv(128, 128, 3, 2)
        self.m4, self.m5 = C2f(192, 128, 1, False), C2f(384, 256, 1, False)
        self.heads = nn.ModuleList(Head(width, classes) for width in (64, 128, 256))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[N, 4 + classes, places]``."""
        p3 = self.p3(self.stem(x))
        p4 = self.p4(p3)
        p5 = self.p5(p4)
        n4 = self.n4(torch.cat([self.up(p5), p4], 1))
        n3 = self.n3(torch.cat([self.up(n4), p3], 1))
        m4 = self.m4(torch.cat([self.d4(n3), n4], 1))
        m5 = self.m5(torch.cat([self.d5(m4), p5], 1))
        found = [head(y) for head, y in zip(self.heads, (n3, m4, m5), strict=True)]
        return torch.cat(found, 2)
