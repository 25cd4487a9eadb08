# SPDX-License-Identifier: Apache-2.0
"""Well-known networks as PyTorch modules, in their full size, with seeded random weights."""

import torch
from torch import nn

from modules.mobilenet import MobileNetV2
from modules.resnet import ResNet50
from modules.transformer import ConvStemTransformer
from modules.two_stage import TwoStage
from modules.unet import UNet
from modules.yolo import Yolo
from modules.yolov3 import YoloV3

MODULES: dict[str, tuple[type[nn.Module], int]] = {
    "resnet50": (ResNet50, 224),
    "mobilenetv2": (MobileNetV2, 224),
    "yolo": (Yolo, 320),
    "yolov3": (YoloV3, 416),
    "unet": (UNet, 256),
    "transformer": (ConvStemTransformer, 224),
    "twostage": (TwoStage, 320),
}
"""Each with the height and width of its images."""


def module_of(name: str, seed: int = 0) -> nn.Module:
    """Return a network in mode ``eval``, whose batch normalizations have seen made up data."""
    torch.manual_seed(seed)
    make, _ = MODULES[name]
    module = make().eval()
    for inner in module.modules():
        if isinstance(inner, nn.BatchNorm2d):
            assert inner.running_mean is not None and inner.running_var is not None
            inner.running_mean.uniform_(-0.1, 0.1)
            inner.running_var.uniform_(0.5, 1.5)
    return module
