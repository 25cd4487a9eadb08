# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of compiled models: as ONNX has them, and as the runner does."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from opendpu.ir import SCALARS, Array, FloatGraph


def dtype_of(declared: Any) -> np.dtype[Any]:
    """Return the element type of what onnxruntime says of an input: ``tensor(float)``."""
    kind = str(declared.type).removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(kind, kind))


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
