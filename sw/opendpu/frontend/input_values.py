# SPDX-License-Identifier: Apache-2.0
"""Inputs of a model that always have one value, and are constants then."""

import os
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from opendpu.ir import Array, TensorType
from opendpu_arch.errors import UnsupportedError

Values = Mapping[str, npt.ArrayLike]
"""By input, what it always is; ``""`` stands for the only input. One number stands for all elements
of its input, a list of all of them for those in their order."""
OPTION = "option 'input_value'"
LONGEST = 60
"""Characters of a value in a message."""


def named_values(
    values: Values, inputs: Sequence[str], listed: str, constants: Sequence[str] = ()
) -> dict[str, Array]:
    """Return the values by name of an input, as arrays.

    ``listed`` is what is said of the inputs in messages; ``constants`` are inputs that have a value
    in the model.

    Raises
    ------
    UnsupportedError
        There is no such input, it has a value already, or its value is none of numbers or bools.
    """
    found: dict[str, Array] = {}
    for key, given in values.items():
        name = inputs[0] if not key and len(inputs) == 1 else key
        if name not in inputs or name in found:
            what = f"input {key!r}" if key else "one value without a name"
            taken = ", which has a value already" if name in found or name in constants else ""
            raise UnsupportedError(
                f"{OPTION} has {what}{taken}, but the inputs are: {listed or 'none'}",
                code="XCOM_ITEM_UNDEFINED",
            )
        try:
            found[name] = np.asarray(given)
        except ValueError:
            found[name] = np.empty(0, object)
        if found[name].dtype.kind not in "biuf":
            raise _refuse(name, given, "numbers or bools")
    return found


def check_no_values(path: str | os.PathLike[str], values: Values | None) -> None:
    """Raise UnsupportedError if there are values for an ``.xmodel``, whose inputs stay inputs."""
    if values:
        raise UnsupportedError(
            f"{os.fspath(path)}: {OPTION} is for models of frameworks, not for an .xmodel",
            code="XCOM_USER_INVALID_CMD_PARAM",
        )


def declared_shape(
    name: str, value: Array, dims: Sequence[int | str] | None
) -> tuple[int, ...] | None:
    """Return the shape that a value gives its input; nothing if the input has to say it.

    ``dims`` are the input's sizes in the model, or names where it leaves them open.

    Raises
    ------
    UnsupportedError
        The value has as many axes as the input, but other sizes than the model.
    """
    if dims is not None and len(dims) != value.ndim:
        return None
    for own, size in zip(dims or (), value.shape, strict=False):
        if isinstance(own, int) and own != size:
            if value.size == 1:
                return None
            raise _other_shape(name, value, dims or ())
    return value.shape


def filled(name: str, value: Array, wanted: TensorType) -> Array:
    """Return a value in the shape and element type of its input.

    Raises
    ------
    UnsupportedError
        There are more or fewer elements, or one that the type does not have.
    """
    if value.size == 1:
        value = np.full(wanted.shape, value.reshape(()))
    elif value.shape != wanted.shape:
        if value.ndim != 1 or value.size != np.prod(wanted.shape, dtype=int):
            raise _other_shape(name, value, wanted.shape)
        value = value.reshape(wanted.shape)
    allowed, fits = _fits(value, wanted.dtype)
    if not fits:
        raise _refuse(name, value, f"of {wanted.dtype}: {allowed}")
    return value.astype(wanted.dtype)


def _fits(value: Array, dtype: np.dtype[np.generic]) -> tuple[str, bool]:
    """Return what a type has, in words, and whether it has all elements of a value."""
    if dtype.kind == "b":
        return "true, false, 1 or 0", value.dtype.kind in "biu" and bool(
            np.isin(value, (0, 1)).all()
        )
    if value.dtype.kind not in "iuf":
        return "numbers", False
    if dtype.kind in "iu":
        limits = np.iinfo(dtype.name)
        inside = (value >= limits.min) & (value <= limits.max)
        if value.dtype.kind == "f":  # in which the highest may have become one more
            inside &= (value == np.floor(value)) & (value < limits.max + 1.0)
        return f"integers from {limits.min} to {limits.max}", bool(inside.all())
    if dtype.kind != "f":
        return "numbers", True
    bounds = np.finfo(dtype.name)
    inside = (np.abs(value) <= float(bounds.max)) | ~np.isfinite(value)
    return f"numbers from {bounds.min:g} to {bounds.max:g}", bool(inside.all())


def _refuse(name: str, value: npt.ArrayLike, allowed: str) -> UnsupportedError:
    text = str(value)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}…"
    return UnsupportedError(
        f"{OPTION} gives {text} for input {name!r}, but it must be {allowed}",
        code="XCOM_USER_INVALID_CMD_PARAM",
    )


def _other_shape(name: str, value: Array, dims: Sequence[int | str]) -> UnsupportedError:
    return UnsupportedError(
        f"{OPTION} gives a value of shape {list(value.shape)} for input {name!r}, but the model "
        f"has [{', '.join(map(str, dims))}]",
        code="XCOM_SIZE_UNMATCH",
    )
