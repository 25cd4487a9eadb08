# SPDX-License-Identifier: Apache-2.0
"""The networks that benchmarks measure: our own definitions, with seeded random weights.

Figures do not depend on the values of weights; these are drawn so that activations neither vanish
nor saturate, which makes comparisons of results meaningful.
"""

from collections.abc import Callable

import onnx

from networks.inception import inceptionv3
from networks.mobilenet import mobilenetv1, mobilenetv2
from networks.resnet import resnet50
from networks.squeezenet import squeezenet
from networks.vgg import vgg16
from networks.yolo import yolov3

NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet50": resnet50,
    "mobilenetv1": mobilenetv1,
    "mobilenetv2": mobilenetv2,
    "squeezenet": squeezenet,
    "vgg16": vgg16,
    "inceptionv3": inceptionv3,
    "yolov3": yolov3,
}
"""What builds each network; every one has a single input called ``image``, NCHW."""
