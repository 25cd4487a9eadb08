# SPDX-License-Identifier: Apache-2.0
"""YOLOv3 (Redmon and Farhadi, 2018): Darknet-53 and three scales, without what makes boxes."""

import torch
from torch import nn

STAGES = (1, 2, 8, 8, 4)
"""Residual blocks behind each halving of the image."""
PREDICTIONS = 3 * (4 + 1 + 80)
"""Of a cell: three boxes with coordinates, objectness, and scores of COCO's classes."""


class Conv(nn.Sequential):
    """A convolution with normalization and leaky ReLU."""

    def __init__(self, inner: int, outer: int, kernel: int, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inner, outer, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outer), nn.LeakyReLU(0.1),
        )  # fmt: skip


class Residual(nn.Module):
    """Two convolutions around which the input goes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(Conv(width, width // 2, 1), Conv(width // 2, width, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result."""
        result: torch.Tensor = x + self.body(x)
        return result


class Scale(nn.Module):
    """Five convolutions that go on to the next scale, and the predictions of this one."""

    def __init__(self, inner: int, width: int) -> None:
        super().__init__()
        self.neck = nn.Sequential(
            Conv(inner, width, 1), Conv(width, 2 * width, 3), Conv(2 * width, width, 1),
            Conv(width, 2 * width, 3), Conv(2 * width, width, 1),
        )  # fmt: skip
        self.head = nn.Sequential(Conv(width, 2 * width, 3), nn.Conv2d(2 * width, PREDICTIONS, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what goes on, and the predictions."""
        on = self.neck(x)
        return on, self.head(on)


class YoloV3(nn.Module):
    """Predictions of cells of 32, 16 and 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Conv(3, 32, 3)
        self.stages = nn.ModuleList(
            nn.Sequential(
                Conv(32 << number, 64 << number, 3, 2),
                *(Residual(64 << number) for _ in range(count)),
            )
            for number, count in enumerate(STAGES)
        )
        self.scales = nn.ModuleList([Scale(1024, 512), Scale(768, 256), Scale(384, 128)])
        self.lateral = nn.ModuleList([Conv(512, 256, 1), Conv(256, 128, 1)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the predictions of the three scales, the coarsest first."""
        found, x = [], self.stem(x)
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        x, predictions = self.scales[0](found[-1])
        results = [predictions]
        for lateral, scale, finer in zip(
            self.lateral, list(self.scales)[1:], (found[-2], found[-3]), strict=True
        ):
            x = nn.functional.interpolate(lateral(x), scale_factor=2.0)
            x, predictions = scale(torch.cat([x, finer], 1))
            results.append(predictions)
        return tuple(results)
