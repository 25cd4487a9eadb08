# SPDX-License-Identifier: Apache-2.0
"""The networks that benchmarks measure: our own definitions, with seeded random weights.

Figures do not depend on the values of weights; these are drawn so that activations neither vanish
nor saturate, which makes comparisons of results meaningful.
"""

from collections.abc import Callable

import onnx

from networks.efficientnet import efficientnetb0
from networks.inception import inceptionv3
from networks.mobilenet import mobilenetv1, mobilenetv2
from networks.mobilenetv3 import deeplabv3, mobilenetv3
from networks.resnet import resnet50
from networks.sequence import crnn, logmelcnn, m5
from networks.squeezenet import squeezenet
from networks.superresolution import espcn, fsrcnn
from networks.transformer import convnexttiny, swintiny, vittiny
from networks.unet import unet
from networks.vgg import vgg16
from networks.yolo import yolov3
from networks.yolov8 import yolov8n
from networks.yolox import yoloxtiny

NETWORKS: dict[str, Callable[..., onnx.ModelProto]] = {
    "resnet50": resnet50,
    "mobilenetv1": mobilenetv1,
    "mobilenetv2": mobilenetv2,
    "mobilenetv3": mobilenetv3,
    "squeezenet": squeezenet,
    "vgg16": vgg16,
    "inceptionv3": inceptionv3,
    "efficientnetb0": efficientnetb0,
    "convnexttiny": convnexttiny,
    "vittiny": vittiny,
    "swintiny": swintiny,
    "yolov3": yolov3,
    "yolov8n": yolov8n,
    "yoloxtiny": yoloxtiny,
    "deeplabv3": deeplabv3,
    "unet": unet,
    "espcn": espcn,
    "fsrcnn": fsrcnn,
    "crnn": crnn,
    "m5": m5,
    "logmelcnn": logmelcnn,
}
"""What builds each network, of a size if one is given; each has one input, channels first:
``image``, or ``wave``."""
