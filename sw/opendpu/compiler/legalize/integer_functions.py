# SPDX-License-Identifier: Apache-2.0
"""Functions of ONNX's operators that LiteRT's reference kernels compute in other ways than float32
with a rounding behind: ``elementwise.cc`` of ``tflite/kernels``."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from opendpu.compiler.legalize.multipliers import Multipliers
from opendpu.compiler.legalize.scaled_functions import BYTES, Wide, multiplied
from opendpu.ir import Graph, Quantization, Rounding
from opendpu.ops.foreign import KIND, label_of
from opendpu.ops.functions import Function
from opendpu_arch.scaled import Rounding as Halves

ROOT_BITS = 20
"""Fractional bits of a reciprocal root before it gets the scale of the result."""


def in_integers(graph: Graph, function: Function, made: Quantization) -> Wide | None:
    """Return what LiteRT makes of each byte, if a function is one of those here."""
    nodes = [graph[name] for name in function.nodes]
    if made.rounding != Rounding.STD_ROUND or any(node.kind != KIND for node in nodes):
        return None
    kernel = KERNELS.get(tuple(label_of(node) for node in nodes))
    if kernel is None:
        return None
    low, high = made.limits
    return np.clip(kernel(graph[function.root].quantization, made), low, high)


def absolute(given: Quantization, made: Quantization) -> Wide:
    """Return the size of the input, as it is where the scales are equal."""
    size = np.abs(BYTES - given.zero_point[0])
    if given.scale == made.scale:
        return size + made.zero_point[0]
    factor = np.float32(given.scale[0]) / np.float32(made.scale[0])
    return _times(size, float(factor)) + made.zero_point[0]


def root(given: Quantization, made: Quantization) -> Wide:
    """Return the square root, rounded down; LiteRT refuses negative numbers."""
    real = np.float32(given.scale[0]) * (BYTES - given.zero_point[0]).astype(np.float32)
    quotient = np.sqrt(np.maximum(real, 0)) / np.float32(made.scale[0])
    return np.asarray(quotient.astype(np.int64) + made.zero_point[0], np.int64)


def reciprocal_root(given: Quantization, made: Quantization) -> Wide:
    """Return the reciprocal of the root; of zero, and less, the largest number."""
    x = BYTES - given.zero_point[0]
    fraction = np.rint((1 << ROOT_BITS) / np.sqrt(np.maximum(x, 1))).astype(np.int64)
    scale = float(np.sqrt(np.float32(given.scale[0])) * np.float32(made.scale[0]))
    found = _times(fraction, math.ldexp(1 / scale, -ROOT_BITS)) + made.zero_point[0]
    return np.where(x > 0, found, made.limits[1])


def _times(values: Wide, factor: float) -> Wide:
    return multiplied(values, Multipliers.of([factor]), 0, Halves.TWICE)


KERNELS: Mapping[tuple[str, ...], Callable[[Quantization, Quantization], Wide]] = {
    ("Abs",): absolute, ("Sqrt",): root, ("Sqrt", "Reciprocal"): reciprocal_root,
}  # fmt: skip
"""By the operators, in order."""
