# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms, and what is read of the complex numbers that they make.

Complex numbers are pairs along a last axis, see :mod:`opendpu.frontend.tflite.complex_numbers`.
"""

import numpy as np

from opendpu.frontend.channels_last.axes import known_shape
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tflite.complex_numbers import part
from opendpu.frontend.tflite.registry import Call, handles


@handles("RFFT2D")
def rfft2d(call: Call) -> str:
    """Transform the last two axes, of real numbers; the second input is their lengths.

    What is longer is cut, what is shorter gets zeros. The last axis keeps one half.
    """
    b, (rows, columns) = call.b, call.integers(1, "lengths")
    shape = known_shape(b, call.x)
    if len(shape) < 2:
        raise Refusal(f"its input has shape {list(shape)}, but must have two axes or more")
    last = len(shape) - 1
    x = b.node("Unsqueeze", [call.x, b.integers(-1)])
    made = b.node("DFT", [x, b.constant(np.int64(columns))], axis=last, onesided=1)
    if (rows, shape[-2]) == (1, 1):
        return made
    return b.node("DFT", [made, b.constant(np.int64(rows))], axis=last - 1)


@handles("REAL")
def real(call: Call) -> str:
    """The real parts."""
    return part(call.b, call.x, 0, call.name)


@handles("IMAG")
def imag(call: Call) -> str:
    """The imaginary parts."""
    return part(call.b, call.x, 1, call.name)


@handles("COMPLEX_ABS")
def complex_abs(call: Call) -> str:
    """Magnitudes."""
    return call.node("ReduceL2", call.x, axes=[-1], keepdims=0)
