# SPDX-License-Identifier: Apache-2.0
"""A detector of two stages, as Faster R-CNN on ResNet-50's fourth block, with a loop over regions.

Regions are cut out without interpolation, because PyTorch's own RoI pooling is torchvision's.
"""

import torch
from torch import nn

from modules.resnet import stage, stem

REGIONS = 8
SIZE = 14
"""Height and width of a region, in places of the feature map."""


class Body(nn.Module):
    """What looks at the whole image: features, and how much each place looks like an object."""

    def __init__(self) -> None:
        super().__init__()
        layers = [*stem(), *stage(64, 64, 3, 1), *stage(256, 128, 4, 2), *stage(512, 256, 6, 2)]
        self.features = nn.Sequential(*layers)
        self.proposals = nn.Sequential(
            nn.Conv2d(1024, 256, 3, 1, 1), nn.ReLU(), nn.Conv2d(256, 1, 1)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features and scores."""
        features = self.features(x)
        return features, self.proposals(features)


class Box(nn.Module):
    """What looks at regions: scores of classes, and corrections of boxes."""

    def __init__(self, classes: int = 91) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*stage(1024, 512, 3, 2))
        self.kinds, self.boxes = nn.Linear(2048, classes), nn.Linear(2048, 4 * classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return both, next to each other."""
        y = self.blocks(x).mean((2, 3))
        return torch.cat([self.kinds(y), self.boxes(y)], 1)


class TwoStage(nn.Module):
    """Regions as the first network proposes them, each seen by the second."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.box = Body(), Box()
        self.count, self.size = REGIONS, SIZE

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return classes and boxes of the best regions of one image."""
        features, scores = self.body(x)
        width = features.shape[3]
        size = self.size
        best = scores.flatten().topk(self.count)
        places = best.indices
        regions = features[:, :, :size, :size][:0]
        for number in range(self.count):
            place = int(places[number])
            row = min(max(place // width - size // 2, 0), features.shape[2] - size)
            column = min(max(place % width - size // 2, 0), width - size)
            region = features[:, :, row : row + size, column : column + size]
            if float(best.values[number]) < 0.0:  # no object: a black region
                region = torch.zeros_like(region)
            regions = torch.cat([regions, region])
        found: torch.Tensor = self.box(regions)
        return found
