# SPDX-License-Identifier: Apache-2.0
"""Arguments of a wrong type: a TypeError that names them, as PyXIR gives one."""

from collections.abc import Mapping
from typing import Any, TypeVar

from opendpu_arch.errors import GraphError

LONGEST_SHOWN = 80
Kind = TypeVar("Kind")


def expect(value: Any, kind: type[Kind], what: str) -> Kind:
    """Return a value; TypeError, which calls it ``what``, if it is not of a type."""
    if not isinstance(value, kind):
        shown = repr(value)
        if len(shown) > LONGEST_SHOWN:
            shown = f"{shown[:LONGEST_SHOWN]}..."
        raise TypeError(
            f"{what} is {shown} of type {type(value).__name__}, but must be of type {kind.__name__}"
        )
    return value


def expect_mapping(value: Any, what: str) -> Mapping[Any, Any]:
    """Return a mapping; TypeError, which calls it ``what``, if it is none."""
    kind: Any = Mapping
    return expect(value, kind, what)


def expect_name(value: Any, what: str) -> str:
    """Return a name; TypeError if it is no text, GraphError if a file cannot hold it."""
    name = expect(value, str, what)
    if not has_encoding(name):
        raise GraphError(f"{what} is {name!r}, which has no encoding in UTF-8")
    return name


def has_encoding(text: str) -> bool:
    """Return whether a file can hold a text: half a surrogate pair it cannot."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
