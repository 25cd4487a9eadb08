# SPDX-License-Identifier: Apache-2.0
"""The op library: which arguments and attributes each op type has."""

import dataclasses
import enum
import functools
import importlib.resources
import json
from collections.abc import Mapping
from typing import Any

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


def custom(name: str) -> OpDef:
    """Return the definition that an op type outside the library gets."""
    return OpDef(
        name,
        (ArgDef("input", Occurrence.REPEATED, DataKind.FLOAT),),
        (
            AttrDef("shape", Occurrence.REQUIRED, "int32_vec", 0, []),
            AttrDef("data_type", Occurrence.REQUIRED, "string", 1, ""),
        ),
    )
