# SPDX-License-Identifier: Apache-2.0
"""Sixteen bits of floating point: IEEE 754 binary16, and bfloat16. To the nearest, ties to even.

What is larger than the largest finite number becomes that number: infinities would spread through
a network.
"""

import numpy as np
from onnx import TensorProto

from opendpu.ir import Array, NumberFormat
from opendpu.ops.formats.node_builder import NodeBuilder

LARGEST = {
    NumberFormat.FLOAT16: float(np.finfo(np.float16).max),
    NumberFormat.BFLOAT16: float(np.array(0x7F7F0000, np.uint32).view(np.float32)),
}
"""The largest finite number."""
_ONNX = {NumberFormat.FLOAT16: TensorProto.FLOAT16, NumberFormat.BFLOAT16: TensorProto.BFLOAT16}


def fake_quantize(values: Array, number_format: NumberFormat) -> Array:
    """Return float32 numbers rounded to 16 bits."""
    largest = np.float32(LARGEST[number_format])
    made = np.clip(values, -largest, largest)
    if number_format == NumberFormat.FLOAT16:
        return made.astype(np.float16).astype(np.float32)
    bits = made.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)).view(np.float32)


def emit(builder: NodeBuilder, value: str, number_format: NumberFormat) -> str:
    """Add the nodes that do the same; return the name of the result."""
    largest = LARGEST[number_format]
    low, high = (builder.initializer(np.array(n, np.float32)) for n in (-largest, largest))
    value = builder.op("Clip", [value, low, high])
    value = builder.op("Cast", [value], to=_ONNX[number_format])
    return builder.op("Cast", [value], to=TensorProto.FLOAT)
