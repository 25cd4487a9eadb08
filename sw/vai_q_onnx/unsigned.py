# SPDX-License-Identifier: Apache-2.0
"""Signed activations stored as unsigned integers, with an offset of half their range.

What AMD's quantizers write for ``QUInt8`` with ``ActivationSymmetric``: the integer ``q`` of a
signed tensor is ``q + 128``, and so is its zero point. Every step is the same.
"""

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

UNSIGNED: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.int8): np.dtype(np.uint8), np.dtype(np.int16): np.dtype(np.uint16),
}  # fmt: skip
"""By signed type."""


def store_unsigned(model: onnx.ModelProto) -> None:
    """Let all QuantizeLinear of computed tensors make unsigned integers, in place.

    Constants keep their type; so does what has a zero point already.
    """
    zeros = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    shifted: dict[str, str] = {}
    replaced: set[str] = set()
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and len(node.input) == 3:
            zero = zeros.get(node.input[2])
            if node.input[0] in zeros or zero is None or zero.any() or zero.dtype not in UNSIGNED:
                continue
            replaced.add(node.input[2])
            node.input[2] = shifted[node.output[0]] = _offset(model, zero)
        elif node.op_type == "DequantizeLinear" and node.input[0] in shifted:
            replaced.add(node.input[2])
            node.input[2] = shifted[node.input[0]]
    replaced -= {name for node in model.graph.node for name in node.input}
    for item in [item for item in model.graph.initializer if item.name in replaced]:
        model.graph.initializer.remove(item)
    for info in model.graph.value_info:
        if info.name in shifted:
            signed = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            unsigned = UNSIGNED.get(np.dtype(signed), np.dtype(signed))
            info.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(unsigned)


def _offset(model: onnx.ModelProto, zero: np.ndarray) -> str:
    """Return the name of a constant with the middle of the unsigned range, in a zero's shape."""
    kind = UNSIGNED[zero.dtype]
    name = f"offset:{kind.name}{''.join(f':{size}' for size in zero.shape)}"
    if all(item.name != name for item in model.graph.initializer):
        middle = np.full(zero.shape, np.iinfo(kind).max // 2 + 1, kind)
        model.graph.initializer.append(numpy_helper.from_array(middle, name))
    return name
