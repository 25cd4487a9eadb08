# SPDX-License-Identifier: Apache-2.0
"""Tensors of complex numbers: ONNX has none, so they are pairs along one more, last axis.

The real part comes first, as in ONNX's ``DFT``. Operators that move elements do so with both parts;
arithmetic of complex numbers is refused.
"""

import dataclasses

import numpy as np

from opendpu.frontend.building import Builder
from opendpu.frontend.channels_last import shaping
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tflite.registry import Call, Handler, Result
from opendpu.ir import Array

_READ = ("REAL", "IMAG", "COMPLEX_ABS")
"""What makes real numbers of complex ones."""
_MOVE = (
    "CONCATENATION", "EXPAND_DIMS", "GATHER", "PACK", "RESHAPE", "REVERSE_V2", "SLICE", "SPLIT",
    "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK",
)  # fmt: skip


def constant(b: Builder, array: Array, name: str) -> str:
    """Append a constant of complex numbers."""
    return b.constant(np.stack([array.real, array.imag], -1).astype(np.float32), name)


def part(b: Builder, value: str, index: int, name: str = "") -> str:
    """Return the real (0) or imaginary (1) parts of complex numbers."""
    return b.node("Gather", [value, b.constant(index)], name, axis=-1)


def converted(call: Call, is_complex: list[bool], handler: Handler) -> Result:
    """Convert an operator of which some inputs are complex.

    Raises
    ------
    Refusal
        It computes with complex numbers.
    """
    kind = call.operator.kind
    if kind in _READ:
        return handler(call)
    if kind == "SHAPE":
        return handler(dataclasses.replace(call, inputs=[part(call.b, call.x, 0)]))
    if kind == "CAST":  # to real numbers: TFLite drops the imaginary parts
        return call.cast(part(call.b, call.x, 0))
    if kind not in _MOVE:
        raise Refusal("arithmetic of complex numbers is not supported")
    halves = [_half(call, is_complex, index, handler) for index in (0, 1)]
    made = [
        shaping.stack(call.b, list(pair), -1, name=name)
        for *pair, name in zip(*halves, call.names, strict=True)
    ]
    return made if len(made) > 1 else made[0]


def _half(call: Call, is_complex: list[bool], index: int, handler: Handler) -> list[str]:
    """Convert an operator of one of the two parts."""
    inputs = [
        part(call.b, name, index) if pair else name
        for name, pair in zip(call.inputs, is_complex, strict=True)
    ]
    names = [f"{name}/{('real', 'imag')[index]}" for name in call.names]
    found = handler(dataclasses.replace(call, inputs=inputs, names=names))
    return [found] if isinstance(found, str) else found
