# SPDX-License-Identifier: Apache-2.0
"""Roundings to integers, exact in float32: nothing is added before a floor.

``floor(x + 1/2) = ceil(floor(2 x) / 2)``, and doubling, halving, floor and ceiling are exact.
"""

import numpy as np

from opendpu.ir import Array, Rounding
from opendpu.ops.formats.node_builder import NodeBuilder


def rounded(values: Array, rounding: Rounding) -> Array:
    """Return numbers rounded to integers, in their own type of floating point."""
    match rounding:
        case Rounding.DPU_ROUND:
            return _half_up(values)
        case Rounding.PY3_ROUND:
            return np.asarray(np.rint(values))
        case Rounding.STD_ROUND:
            return np.copysign(_half_up(np.abs(values)), values)
        case Rounding.HALF_DOWN:
            made = np.ceil(values * values.dtype.type(2))
            made *= values.dtype.type(0.5)
            return np.asarray(np.floor(made, out=made))
        case Rounding.FLOOR:
            return np.asarray(np.floor(values))
        case Rounding.CEIL:
            return np.asarray(np.ceil(values))
        case Rounding.TOWARD_ZERO:
            return np.asarray(np.trunc(values))
        case Rounding.AWAY_FROM_ZERO:
            return np.copysign(np.ceil(np.abs(values)), values)


def _half_up(values: Array) -> Array:
    made = np.multiply(values, values.dtype.type(2))
    np.floor(made, out=made)
    made *= values.dtype.type(0.5)
    return np.asarray(np.ceil(made, out=made))


def emit_rounded(builder: NodeBuilder, value: str, rounding: Rounding) -> str:
    """Add the nodes that round float32 numbers; return the name of the result."""

    def halves(name: str, first: str, second: str) -> str:
        two, half = (builder.initializer(np.array(n, np.float32)) for n in (2, 0.5))
        name = builder.op(first, [builder.op("Mul", [name, two])])
        return builder.op(second, [builder.op("Mul", [name, half])])

    def magnitudes(name: str) -> str:
        return builder.op("Abs", [name])

    def signed(name: str) -> str:
        return builder.op("Mul", [name, builder.op("Sign", [value])])

    match rounding:
        case Rounding.DPU_ROUND:
            return halves(value, "Floor", "Ceil")
        case Rounding.PY3_ROUND:
            return builder.op("Round", [value])
        case Rounding.STD_ROUND:
            return signed(halves(magnitudes(value), "Floor", "Ceil"))
        case Rounding.HALF_DOWN:
            return halves(value, "Ceil", "Floor")
        case Rounding.FLOOR:
            return builder.op("Floor", [value])
        case Rounding.CEIL:
            return builder.op("Ceil", [value])
        case Rounding.TOWARD_ZERO:
            return signed(builder.op("Floor", [magnitudes(value)]))
        case Rounding.AWAY_FROM_ZERO:
            return signed(builder.op("Ceil", [magnitudes(value)]))
