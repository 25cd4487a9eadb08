# SPDX-License-Identifier: Apache-2.0
"""The op library: which arguments and attributes each op type has."""

import dataclasses
import enum
import functools
import importlib.resources
import json
from collections.abc import Iterable, Mapping
from typing import Any

from opendpu_arch.errors import GraphError
from xir.arguments import expect
from xir.attrs import convert
from xir.datatype import DataKind


class Occurrence(enum.IntEnum):
    """How often an argument or attribute may occur."""

    REQUIRED = 0
    OPTIONAL = 1
    REPEATED = 2
    REQUIRED_AND_REPEATED = 3

    @property
    def required(self) -> bool:
        """Whether at least one is needed."""
        return self in (Occurrence.REQUIRED, Occurrence.REQUIRED_AND_REPEATED)

    @property
    def repeated(self) -> bool:
        """Whether there may be more than one."""
        return self in (Occurrence.REPEATED, Occurrence.REQUIRED_AND_REPEATED)


@dataclasses.dataclass(frozen=True)
class ArgDef:
    """One argument of an op type."""

    name: str
    occurrence: Occurrence
    data_kind: DataKind


@dataclasses.dataclass(frozen=True)
class AttrDef:
    """One attribute of an op type; ``length`` is that of a vector, 0 for any, 1 for a scalar."""

    name: str
    occurrence: Occurrence
    kind: str
    length: int
    default: Any

    def check_length(self, value: Any, owner: str) -> None:
        """Raise GraphError where the ``value`` that an op has is a vector of another length."""
        if self.kind.endswith("_vec") and self.length and len(value) != self.length:
            raise GraphError(
                f"{owner}: attribute {self.name!r} is {value}, but must have {self.length} elements"
            )


@dataclasses.dataclass(frozen=True)
class OpDef:
    """One op type."""

    name: str
    args: tuple[ArgDef, ...]
    attrs: tuple[AttrDef, ...]

    def arg(self, name: str) -> ArgDef | None:
        """Return the argument called ``name``, or nothing."""
        return next((arg for arg in self.args if arg.name == name), None)

    def attr(self, name: str) -> AttrDef | None:
        """Return the attribute called ``name``, or nothing."""
        return next((attr for attr in self.attrs if attr.name == name), None)


_CUSTOM_ARGS = (ArgDef("input", Occurrence.REPEATED, DataKind.FLOAT),)
_CUSTOM_ATTRS = (
    AttrDef("shape", Occurrence.REQUIRED, "int32_vec", 0, []),
    AttrDef("data_type", Occurrence.REQUIRED, "string", 1, ""),
)

_MARKS = {
    "?": Occurrence.OPTIONAL,
    "*": Occurrence.REPEATED,
    "+": Occurrence.REQUIRED_AND_REPEATED,
}


def _split(name: str) -> tuple[str, Occurrence]:
    if name[-1] in _MARKS:
        return name[:-1], _MARKS[name[-1]]
    return name, Occurrence.REQUIRED


def _attr(name: str, entry: Mapping[str, Any]) -> AttrDef:
    plain, occurrence = _split(name)
    vector = entry["type"].endswith("[]")
    kind = entry["type"].replace("[]", "_vec")
    length = entry.get("length", 0 if vector or kind == "bytes" else 1)
    default = entry["default"].encode() if kind == "bytes" else entry["default"]
    return AttrDef(plain, occurrence, kind, length, default)


@functools.cache
def builtin() -> Mapping[str, OpDef]:
    """Return the built-in op types by name, in the order of ``ops.json``."""
    text = importlib.resources.files("xir").joinpath("ops.json").read_text(encoding="utf-8")
    return {
        name: OpDef(
            name,
            tuple(ArgDef(*_split(arg), DataKind[kind]) for arg, kind in entry["args"].items()),
            tuple(_attr(attr, description) for attr, description in entry["attrs"].items()),
        )
        for name, entry in json.loads(text).items()
    }


def custom(name: str, attrs: Iterable[AttrDef] = ()) -> OpDef:
    """Return the definition of an op type outside the library.

    It is the one that AMD's reader makes up for a type it does not know, and ``attrs``: any
    number of inputs of any element type, all in the argument ``input``, and the dimensions and
    element type of the result in ``shape`` (at least one, all positive) and ``data_type``.
    """
    return OpDef(name, _CUSTOM_ARGS, (*_CUSTOM_ATTRS, *attrs))


_registered: dict[str, OpDef] = {}


def register(definition: OpDef) -> OpDef:
    """Make an op type known to every graph of this process, and return its definition.

    Files carry it beside the built-in ones, so that readers know the types of its attributes.

    Raises
    ------
    GraphError
        The type is known already with another definition, a default does not have its
        attribute's wire type, or AMD's reader, which knows nothing of it, could not open a file
        with such an op: arguments and the first attributes must be those of :func:`custom`.
    """
    label = f"op type {expect(definition, OpDef, 'definition').name!r}"
    if not definition.name or definition_of(definition.name) not in (None, definition):
        raise GraphError(
            f"{label}: the name is empty or defined otherwise already",
            code="XIR_MULTI_REGISTERED_OP",
        )
    own = definition.attrs[: len(_CUSTOM_ATTRS)]
    if definition.args != _CUSTOM_ARGS or own != _CUSTOM_ATTRS:
        raise GraphError(
            f"{label}: it must have the argument 'input' and the attributes 'shape' and "
            "'data_type' as xir.oplib.custom gives them, or AMD's reader cannot open it"
        )
    names = [attr.name for attr in definition.attrs]
    if twice := sorted({name for name in names if not name or names.count(name) > 1}):
        raise GraphError(
            f"{label}: attribute {twice[0]!r} is empty or defined twice",
            code="XIR_MULTI_REGISTERED_ATTR",
        )
    for attr in definition.attrs:
        try:
            convert(attr.default, attr.kind)
        except GraphError as error:
            raise error.within(f"{label}: attribute {attr.name!r}") from None
    return _registered.setdefault(definition.name, definition)


def definition_of(name: str) -> OpDef | None:
    """Return the definition of a built-in or registered op type, or nothing."""
    return builtin().get(name) or _registered.get(name)
