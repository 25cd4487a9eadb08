# SPDX-License-Identifier: Apache-2.0
"""Families of networks: plain convolutions, residual blocks, inverted ones with depthwise."""

import torch
from torch import nn


def _unit(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]


class Block(nn.Module):
    """Two convolutions with a way around."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_unit(inputs, outputs, 3, stride), nn.ReLU(), *_unit(outputs, outputs, 3)
        )
        same = inputs == outputs and stride == 1
        self.around = nn.Identity() if same else nn.Sequential(*_unit(inputs, outputs, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return feature maps."""
        return torch.relu(self.body(x) + self.around(x))


class Inverted(nn.Module):
    """Wide depthwise convolutions between narrow ones, with a way around where sizes allow it."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int = 4) -> None:
        super().__init__()
        wide = inputs * expansion
        self.body = nn.Sequential(
            *_unit(inputs, wide, 1), nn.ReLU6(), *_unit(wide, wide, 3, stride, wide), nn.ReLU6(),
            *_unit(wide, outputs, 1),
        )  # fmt: skip
        self.same = inputs == outputs and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return feature maps."""
        return x + self.body(x) if self.same else self.body(x)


class _Net(nn.Module):
    def __init__(self, blocks: list[nn.Module], channels: int, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(*blocks)
        self.pool, self.flatten = nn.AdaptiveAvgPool2d(1), nn.Flatten()
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of classes."""
        return self.classifier(self.flatten(self.pool(self.features(x))))


class VGG(_Net):
    """Pairs of convolutions, half the size and up to twice the channels behind each."""

    def __init__(self, inputs: int, classes: int, width: int = 32) -> None:
        blocks: list[nn.Module] = []
        for outputs in (width, 2 * width, 4 * width, 4 * width):
            for channels in (inputs, outputs):
                blocks += [*_unit(channels, outputs, 3), nn.ReLU()]
            blocks.append(nn.MaxPool2d(2))
            inputs = outputs
        super().__init__(blocks[:-1], 4 * width, classes)


class ResNet(_Net):
    """A stem and three residual stages."""

    def __init__(self, inputs: int, classes: int, width: int = 32) -> None:
        stem = [*_unit(inputs, width, 3), nn.ReLU()]
        stages = [
            Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 3 * width, 2),
        ]  # fmt: skip
        super().__init__([*stem, *stages], 3 * width, classes)


class ResNet10(_Net):
    """A stem and the four residual stages of ImageNet's networks, one block each."""

    def __init__(self, inputs: int, classes: int, width: int = 16) -> None:
        stem = [*_unit(inputs, width, 3), nn.ReLU()]
        stages = [Block(width, width, 1)]
        stages += [Block(width * n, 2 * width * n, 2) for n in (1, 2, 4)]
        super().__init__([*stem, *stages], 8 * width, classes)


class MobileNet(_Net):
    """A stem and four inverted residual blocks."""

    def __init__(self, inputs: int, classes: int, width: int = 24) -> None:
        stem = [*_unit(inputs, width, 3), nn.ReLU6()]
        stages = [
            Inverted(width, width, 1), Inverted(width, 2 * width, 2),
            Inverted(2 * width, 2 * width, 1), Inverted(2 * width, 3 * width, 2),
        ]  # fmt: skip
        head = [*_unit(3 * width, 4 * width, 1), nn.ReLU6()]
        super().__init__([*stem, *stages, *head], 4 * width, classes)


class Separable(_Net):
    """A stem and pairs of a depthwise and a 1x1 convolution, wide where the map is small."""

    def __init__(self, inputs: int, classes: int, width: int = 32) -> None:
        blocks: list[nn.Module] = [*_unit(inputs, width, 3, 2), nn.ReLU()]
        channels = width
        for times, stride in ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1)):
            wide = times * width
            blocks += [*_unit(channels, channels, 3, stride, channels), nn.ReLU()]
            blocks += [*_unit(channels, wide, 1), nn.ReLU()]
            channels = wide
        super().__init__(blocks, channels, classes)


class Dense(nn.Module):
    """Three convolutions with pools and fully connected layers, as the first networks had them."""

    def __init__(self, inputs: int, classes: int, width: int = 32) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        for outputs in (width, 2 * width, 2 * width):
            blocks += [*_unit(inputs, outputs, 3), nn.ReLU(), nn.MaxPool2d(2)]
            inputs = outputs
        self.features, self.flatten = nn.Sequential(*blocks), nn.Flatten()
        self.hidden = nn.Sequential(
            nn.Linear(4 * inputs, 16 * width),
            nn.ReLU(),
            nn.Linear(16 * width, 8 * width),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(8 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of classes."""
        return self.classifier(self.hidden(self.flatten(self.features(x))))


FAMILIES = {
    "vgg": VGG,
    "resnet": ResNet,
    "resnet10": ResNet10,
    "mobilenet": MobileNet,
    "separable": Separable,
    "dense": Dense,
}
"""Networks by name."""
