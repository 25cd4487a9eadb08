# SPDX-License-Identifier: Apache-2.0
"""Comparisons, quotients and selections, element by element, that ONNX has in another form."""

import numpy as np
from onnx import TensorProto, helper

from opendpu.frontend.building import Builder
from opendpu.frontend.channels_last.axes import known_shape


def not_equal(b: Builder, one: str, other: str, *, name: str) -> str:
    """Return its opposite's opposite."""
    return b.node("Not", [b.node("Equal", [one, other])], name)


def squared_difference(b: Builder, one: str, other: str, *, name: str) -> str:
    """Return a difference times itself."""
    difference = b.node("Sub", [one, other])
    return b.node("Mul", [difference, difference], name)


def div_no_nan(b: Builder, one: str, other: str, *, name: str) -> str:
    """Return quotients, and 0 where the divisor is 0."""
    zero = b.constant(np.zeros((), b.dtype(other)), f"{name}/zero")
    quotient = b.node("Div", [one, other])
    return b.node("Where", [b.node("Equal", [other, zero]), zero, quotient], name)


def floor_div(b: Builder, one: str, other: str, *, name: str) -> str:
    """Round quotients down; integers through floats."""
    dtype = b.dtype(one)
    if dtype.kind == "f":
        return b.node("Floor", [b.node("Div", [one, other])], name)
    one, other = (b.node("Cast", [value], to=TensorProto.DOUBLE) for value in (one, other))
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    return b.node("Cast", [b.node("Floor", [b.node("Div", [one, other])])], name, to=kind)


def floor_mod(b: Builder, one: str, other: str, *, name: str) -> str:
    """Return what is left; it has the divisor's sign."""
    if b.dtype(one).kind != "f":
        return b.node("Mod", [one, other], name)
    whole = b.node("Floor", [b.node("Div", [one, other])])
    return b.node("Sub", [one, b.node("Mul", [whole, other])], name)


def select(
    b: Builder, condition: str, one: str, other: str, *, by_rows: bool, name: str
) -> str:  # fmt: skip
    """Pick elements by a condition; ``by_rows``: one of a single axis is for the first axis."""
    rank = len(known_shape(b, one))
    if by_rows and len(known_shape(b, condition)) == 1 and rank > 1:
        condition = b.node("Unsqueeze", [condition, b.integers(*range(1, rank))])
    return b.node("Where", [condition, one, other], name)
