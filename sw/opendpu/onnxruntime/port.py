# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of compiled models: as ONNX has them, and as the runner does."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime

from opendpu.ir import SCALARS, Array, FloatGraph
from opendpu_arch.errors import TensorError


def dtype_of(declared: Any) -> np.dtype[Any]:
    """Return the element type of what onnxruntime says of an input: ``tensor(float)``."""
    return kind_of(str(declared.type))


def kind_of(kind: str) -> np.dtype[Any]:
    """Return the element type that a name such as ``tensor(float)`` says."""
    name = kind.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))


def is_numbers(declared: Any) -> bool:
    """Tell whether what onnxruntime says of an input or output is a tensor of numbers."""
    kind = str(declared.type)
    return kind.startswith("tensor(") and kind != "tensor(string)"


def array_of(port: Any, value: Any) -> Any:
    """Return an input in the type that the model has; lists of numbers become that.

    What is no tensor of numbers is onnxruntime's to check.

    Raises
    ------
    TensorError
        It has another type or shape.
    """
    if not is_numbers(port):
        return value
    if isinstance(value, onnxruntime.OrtValue):
        value = value.numpy()
    wanted = dtype_of(port)
    array = value if isinstance(value, np.ndarray) else np.asarray(value, wanted)
    if array.dtype != wanted:
        raise TensorError(f"input {port.name!r} is {array.dtype}, but must be {wanted}")
    pairs = list(zip(array.shape, port.shape, strict=False))[1:]  # any batch
    if array.ndim != len(port.shape) or any(isinstance(s, int) and n != s for n, s in pairs):
        shown = ", ".join(map(str, port.shape))
        raise TensorError(
            f"input {port.name!r} has shape {list(array.shape)}, but must have [{shown}]"
        )
    return array


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output: the ONNX axis of each axis of the runner's array, and the ONNX type.

    A ``scalar`` has no axis in ONNX, and one of one element in the runner.
    """

    name: str
    order: tuple[int, ...] | None
    dtype: str
    scalar: bool = False

    @classmethod
    def of(cls, graph: FloatGraph, name: str) -> "Port":
        """Return that of an input or output of a graph from the front end."""
        order = graph.attrs.get("onnx_order", {}).get(name)
        declared = graph.attrs.get("onnx_dtype", {}).get(name)
        dtype = declared or graph[name].type.dtype.name
        return cls(name, order and tuple(order), dtype, name in graph.attrs.get(SCALARS, ()))

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Port":
        """Return what ``dataclasses.asdict`` made a dictionary of; KeyError if it is none."""
        order = saved["order"] and tuple(map(int, saved["order"]))
        return cls(str(saved["name"]), order, str(saved["dtype"]), bool(saved.get("scalar", False)))

    def to_runner(self, array: Array) -> Array:
        """Return an array of the user's with its axes as the runner's, in single precision."""
        ordered = array if self.order is None else array.transpose(self.order)
        real = ordered.dtype.kind not in "iub"
        return np.ascontiguousarray(ordered, dtype=np.float32 if real else None)

    def from_runner(self, array: Array) -> Array:
        """Return an array of the runner's as ONNX has it."""
        ordered = array if self.order is None else array.transpose(np.argsort(self.order))
        if self.scalar and ordered.size == 1:
            return ordered.reshape(()).astype(self.dtype)
        return np.ascontiguousarray(ordered, dtype=np.dtype(self.dtype))
