# SPDX-License-Identifier: Apache-2.0
"""Nodes of TensorFlow's GraphDef, their attributes and constants. TensorFlow is not needed."""

import dataclasses
import re
from typing import Any

import numpy as np

from opendpu.frontend.refusal import Refusal
from opendpu.ir import Array

DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.float32), 2: np.dtype(np.float64), 3: np.dtype(np.int32),
    4: np.dtype(np.uint8), 5: np.dtype(np.int16), 6: np.dtype(np.int8), 9: np.dtype(np.int64),
    10: np.dtype(np.bool_), 17: np.dtype(np.uint16), 19: np.dtype(np.float16),
    22: np.dtype(np.uint32), 23: np.dtype(np.uint64),
}  # fmt: skip
"""Numbers of ``DataType`` that stand for numbers and bools."""
STRING = 7
BFLOAT16 = 14
CONTROL = "^"
"""In front of inputs that only say what comes first."""
_FIELDS = {
    np.dtype(np.float32): "float_val", np.dtype(np.float64): "double_val",
    np.dtype(np.int64): "int64_val", np.dtype(np.bool_): "bool_val",
    np.dtype(np.float16): "half_val", np.dtype(np.uint32): "uint32_val",
    np.dtype(np.uint64): "uint64_val",
}  # fmt: skip
"""Where elements are that are not in ``tensor_content``; smaller integers share ``int_val``."""
_RESULT = re.compile(r"(?P<node>[^:]*):(?P<number>[0-9]{1,9})")


@dataclasses.dataclass(frozen=True)
class Node:
    """A node: its name, operator, inputs (``name`` or ``name:1``), and attributes."""

    name: str
    op: str
    inputs: tuple[str, ...]
    attrs: Any

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute: a number, text, list, numpy type, shape or array."""
        if name not in self.attrs:
            return default
        found = self.attrs[name]
        kind = found.WhichOneof("value")
        match kind:
            case None:
                return default
            case "s":
                return found.s.decode(errors="replace")
            case "type":
                return _dtype(found.type)
            case "shape":
                return shape_of(found.shape)
            case "tensor":
                return array_of(found.tensor)
            case "list":
                return _list(found.list)
        return getattr(found, kind)


def _list(found: Any) -> list[Any]:
    for name in ("i", "f", "b"):
        if getattr(found, name):
            return list(getattr(found, name))
    return [text.decode(errors="replace") for text in found.s]


def _dtype(number: int) -> np.dtype[Any] | None:
    """Return the type that a number of ``DataType`` stands for; nothing if it is none of numbers.

    bfloat16, which NumPy has not, is float32, which has all of its numbers.
    """
    return np.dtype(np.float32) if number == BFLOAT16 else DTYPES.get(number)


def shape_of(shape: Any) -> tuple[int, ...] | None:
    """Return a shape, -1 where a size is open; nothing if even the rank is."""
    if shape.unknown_rank:
        return None
    return tuple(int(dim.size) for dim in shape.dim)


def array_of(tensor: Any) -> Array:
    """Return a constant.

    Raises
    ------
    Refusal
        It is no tensor of numbers or bools.
    ValueError
        Its elements do not fit its shape.
    """
    shape = tuple(int(dim.size) for dim in tensor.tensor_shape.dim)
    if tensor.dtype == STRING:
        return np.array(list(tensor.string_val), object).reshape(shape)
    dtype = _dtype(tensor.dtype)
    if dtype is None:
        raise Refusal(f"a constant has type {tensor.dtype}, which is no number")
    stored = np.dtype(np.uint16) if tensor.dtype == BFLOAT16 else dtype
    if tensor.tensor_content:
        values = np.frombuffer(tensor.tensor_content, stored)
        return (_widened(values) if tensor.dtype == BFLOAT16 else values).reshape(shape)
    halves = stored != dtype or dtype == np.float16
    given = getattr(tensor, "half_val" if halves else _FIELDS.get(dtype, "int_val"))
    if stored != dtype:
        values = _widened(np.array(given, np.uint16))
    elif dtype == np.float16:
        values = np.array(given, np.uint16).view(np.float16)
    else:
        values = np.array(given, np.int64 if dtype.kind in "iu" else dtype).astype(dtype)
    count = int(np.prod(shape))
    if not values.size:
        return np.zeros(shape, dtype)
    if values.size < count:  # the last one is repeated
        values = np.concatenate([values, np.full(count - values.size, values[-1], dtype)])
    return np.asarray(values.reshape(shape))


def _widened(bits: Array) -> Array:
    """Return the numbers of bfloat16, given its bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def split(reference: str) -> tuple[str, int]:
    """Return node and number of the result that an input refers to.

    What follows a colon and is no number belongs to the name (of a node that nothing makes).
    """
    found = _RESULT.fullmatch(reference)
    return (found["node"], int(found["number"])) if found else (reference, 0)
