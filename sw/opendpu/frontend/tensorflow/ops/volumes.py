# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools of three dimensions (videos, volumes), which the CPU computes."""

from opendpu.frontend.channels_last import convolution
from opendpu.frontend.channels_last.axes import ordered
from opendpu.frontend.tensorflow.registry import Call, handles

DHWIO = (4, 3, 0, 1, 2)
"""Order of the axes of TensorFlow's weights in ONNX's; of transposed convolutions too."""
ONES = [1, 1, 1, 1, 1]


@handles("Conv3D")
def conv(call: Call) -> str:
    """Weights are DHWIO."""
    return call.back(convolution.conv(
        call.b, call.feature(), ordered(call.b, call.input(1), DHWIO), name=call.name,
        padding=call.padding(), stride=call.spatial("strides"),
        dilation=call.spatial("dilations", ONES),
    ))  # fmt: skip


@handles("Conv3DBackpropInputV2")
def transposed_conv(call: Call) -> str:
    """Inputs are the shape of the result, weights DHWOI, and the volume."""
    size = call.integers(0, "sizes")
    made = convolution.transposed_conv(
        call.b, call.feature(2), ordered(call.b, call.input(1), DHWIO), name=call.name,
        size=size[2:] if call.first else size[1:4], padding=call.padding(),
        stride=call.spatial("strides"), dilation=call.spatial("dilations", ONES),
    )  # fmt: skip
    return call.back(made)


@handles("MaxPool3D", "AvgPool3D")
def pool(call: Call) -> str:
    """Padding does not count in means."""
    kind = "MaxPool" if call.node.op == "MaxPool3D" else "AveragePool"
    return call.back(convolution.pool(
        call.b, kind, call.feature(), name=call.name, kernel=call.spatial("ksize"),
        stride=call.spatial("strides"), padding=call.padding(),
    ))  # fmt: skip
