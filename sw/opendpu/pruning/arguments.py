# SPDX-License-Identifier: Apache-2.0
"""What users give pruners: refused where it is nothing that they can work with.

Each check returns the value, and raises :class:`UnsupportedError` with the guide's code, the name
of the argument, what it is, and what it may be.
"""

import numbers
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from opendpu_arch.errors import UnsupportedError


def wrong(name: str, value: object, allowed: str) -> UnsupportedError:
    """Return the error for an argument that is something else than is allowed."""
    shown = repr(value)
    if len(shown) > 80:
        shown = f"of class {type(value).__name__}"
    return UnsupportedError(
        f"{name} is {shown}, but must be {allowed}", code="OPTIMIZER_INVALID_ARGUMENT_ERROR"
    )


def number(name: str, value: Any) -> float:
    """Return a finite number."""
    if isinstance(value, bool | str | bytes):
        raise wrong(name, value, "a number")
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise wrong(name, value, "a number") from None
    if not abs(found) < float("inf"):
        raise wrong(name, value, "a number")
    return found


def part(name: str, value: Any, meaning: str) -> float:
    """Return a number in (0, 1)."""
    allowed = f"between 0 and 1: {meaning}"
    try:
        found = number(name, value)
    except UnsupportedError:
        raise wrong(name, value, allowed) from None
    if not 0 < found < 1:
        raise wrong(name, value, allowed)
    return found


def check_ratio(value: Any, name: str = "removal_ratio") -> float:
    """Return the part of a cost that goes."""
    return part(name, value, "the part that is removed")


def check_threshold(value: Any) -> float:
    """Return the part of a score that may go."""
    return part("threshold", value, "the part of the score that may be lost")


def whole(name: str, value: Any, least: int = 1) -> int:
    """Return an integer, numpy's too."""
    try:
        found = int(value.__index__())
    except (AttributeError, TypeError, ValueError):
        found = least - 1
    if isinstance(value, bool) or found < least:
        raise wrong(name, value, f"at least {least}")
    return found


def one_of(name: str, value: Any, allowed: Collection[Any]) -> Any:
    """Return a value that is among those allowed."""
    plain = isinstance(value, str | numbers.Real) and not isinstance(value, bool)
    if plain and value in allowed:
        return value
    raise wrong(name, value, f"one of {', '.join(map(str, allowed))}")


def function(name: str, value: Any) -> Callable[..., Any]:
    """Return a function of a network."""
    if not callable(value):
        raise wrong(name, value, "a function that takes the network first")
    found: Callable[..., Any] = value
    return found


def arguments(name: str, value: Any) -> Sequence[Any]:
    """Return what a function gets behind the network."""
    if not isinstance(value, list | tuple):
        raise wrong(name, value, "a list or tuple of arguments")
    return value


def calls(calibration_fn: Any, calib_args: Any, eval_fn: Any, eval_args: Any) -> None:
    """Check what calibrates and what scores a network, and what both get behind it."""
    function("calibration_fn", calibration_fn)
    function("eval_fn", eval_fn)
    arguments("calib_args", calib_args)
    arguments("eval_args", eval_args)


def several(name: str, value: Any, kind: str) -> list[Any]:
    """Return what there is in a collection; none is an empty one."""
    if value is None:
        return []
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise wrong(name, value, f"a list of {kind}")
    return list(value)


def path_of(name: str, value: Any) -> str:
    """Return a path as text."""
    try:
        return os.fsdecode(value)
    except TypeError:
        raise wrong(name, value, "a path") from None
