# SPDX-License-Identifier: Apache-2.0
"""Small networks with what dependencies between channels come from."""

import torch
from torch import nn
from torch.nn import functional as F


def settled(model):
    """Give normalizations other values than those they begin with; return the network."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    return model.eval()


class Plain(nn.Module):
    """Two convolutions without normalization, a flatten of feature maps, a classifier."""

    size = (1, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 12, 3, 2, 1)
        self.fc1, self.fc2 = nn.Linear(12 * 16, 16), nn.Linear(16, 5)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


class Residual(nn.Module):
    """Convolutions whose results are added, and one beside them."""

    size = (1, 3, 8, 8)

    def __init__(self, width=8):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(width, 16, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(16), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(16, width, 3, padding=1, bias=False)
        self.fc = nn.Linear(width, 5)

    def forward(self, x):
        x = F.relu(self.bn(self.stem(x)))
        x = F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Branches(nn.Module):
    """A depthwise and a grouped convolution, squeeze and excitation, and a concatenation."""

    size = (1, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.expand, self.bn = nn.Conv2d(3, 16, 1), nn.BatchNorm2d(16)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.squeeze, self.excite = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.grouped = nn.Conv2d(16, 12, 3, padding=1, groups=4)
        self.up = nn.ConvTranspose2d(12, 10, 2, 2)
        self.head = nn.Conv2d(26, 5, 1)

    def forward(self, x):
        x = F.hardswish(self.bn(self.expand(x)))
        x = F.hardswish(self.depthwise(x))
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        x = x * gate
        up = F.relu(self.up(self.grouped(x)))
        return self.head(torch.cat([F.interpolate(x, scale_factor=2), up], 1))


class Mixing(nn.Module):
    """Channels that are averaged, and others that are not."""

    size = (1, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.mixed, self.free, self.last = (
            nn.Conv2d(3, 8, 3),
            nn.Conv2d(8, 8, 3),
            nn.Conv2d(8, 5, 1),
        )

    def forward(self, x):
        x = F.relu(self.mixed(x))
        return self.last(F.relu(self.free(x - x.mean(1, keepdim=True))))


class Averaged(nn.Module):
    """Channels of which the reader takes the average only."""

    size = (1, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = (
            nn.Conv2d(3, 8, 3),
            nn.Conv2d(1, 8, 3),
            nn.Conv2d(8, 5, 1),
        )

    def forward(self, x):
        return self.last(F.relu(self.second(F.relu(self.first(x)).mean(1, keepdim=True))))


NETWORKS = [Plain, Residual, Branches]
