# SPDX-License-Identifier: Apache-2.0
"""Attributes: named values with a wire type, on graphs, subgraphs, ops and tensors."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from opendpu_arch.errors import GraphError
from xir.arguments import expect_mapping, has_encoding

_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
_SCALARS = ("bool", *_RANGES, "float", "double", "string", "bytes")
_MAPPED = (*_RANGES, "string", "bytes", *(f"{kind}_vec" for kind in _RANGES), "string_vec")
KINDS = (
    *_SCALARS,
    *(f"{kind}_vec" for kind in _SCALARS),
    *(f"map_{kind}" for kind in _MAPPED),
)
"""Every wire type of an attribute: a scalar, a vector of them, or a map from strings."""

WELL_KNOWN = {
    "aie_tile_fusion_type": "string_vec",
    "children_topological_sort": "string_vec",
    "dpu_fingerprint": "uint64",
    "reg_id_to_context_type": "map_string",
    "reg_id_to_context_type_v2": "map_string",
    "reg_id_to_hw_segment": "map_string",
    "reg_id_to_parameter_value": "map_bytes",
    "reg_id_to_size": "map_int32",
    "return_ops": "string_vec",
    "runner": "map_string",
    "workload": "uint64",
    "workload_on_arch": "uint64",
}
"""Wire types that AMD's tools expect where a Python value alone would not give them."""


def infer_kind(value: Any) -> str:
    """Return the wire type of a Python value; GraphError if none fits.

    ``int`` is int32, or int64 and uint64 when it needs to be; ``float`` is double; a list takes
    the type of its elements, a dict ``map_`` and the type of its values. An array is bytes: PyXIR
    stores the memory of one where no definition asks for a list.
    """
    if isinstance(value, np.ndarray) and value.ndim:
        return "bytes"
    if isinstance(value, np.ndarray | np.generic):
        value = value.item()
    match value:
        case bool():
            return "bool"
        case int():
            for kind in ("int32", "int64", "uint64"):
                if _RANGES[kind][0] <= value <= _RANGES[kind][1]:
                    return kind
            raise GraphError(f"{value} does not fit 64 bits")
        case float():
            return "double"
        case str():
            return "string"
        case bytes() | bytearray() | memoryview():
            return "bytes"
        case Mapping():
            return f"map_{_common([infer_kind(v) for v in value.values()] or ['string'])}"
        case list() | tuple():
            return f"{_common([infer_kind(v) for v in value] or ['int32'])}_vec"
    raise GraphError(f"a {type(value).__name__} is no attribute value", code="XIR_UNSUPPORTED_TYPE")


def _common(kinds: list[str]) -> str:
    order = ("int32", "int64", "uint64", "double")
    found = set(kinds)
    if len(found) == 1:
        return kinds[0]
    if found <= set(order):
        return max(found, key=order.index)
    raise GraphError(f"elements of different types: {', '.join(sorted(found))}")


def convert(value: Any, kind: str) -> Any:
    """Return ``value`` as the plain Python value that the wire type ``kind`` holds.

    Raises
    ------
    GraphError
        The value has another type or is out of range.
    """
    if kind not in KINDS:
        raise GraphError(f"attribute type is {kind!r}, but must be one of {', '.join(KINDS)}")
    if isinstance(value, np.ndarray | np.generic):
        value = np.ascontiguousarray(value).tobytes() if kind == "bytes" else value.tolist()
    if kind.startswith("map_"):
        if not isinstance(value, Mapping) or not all(
            isinstance(key, str) and has_encoding(key) for key in value
        ):
            raise GraphError(f"{_short(value)} must be a dict with string keys")
        return {key: convert(item, kind.removeprefix("map_")) for key, item in value.items()}
    if kind.endswith("_vec"):
        if not isinstance(value, list | tuple):
            raise GraphError(f"{_short(value)} must be a list of {kind.removesuffix('_vec')}")
        return [convert(item, kind.removesuffix("_vec")) for item in value]
    return _scalar(value, kind)


def _scalar(value: Any, kind: str) -> Any:
    if kind in _RANGES:
        low, high = _RANGES[kind]
        if isinstance(value, bool | int) and low <= value <= high:
            return int(value)
        raise GraphError(f"{_short(value)} must be an integer in {low}..{high} ({kind})")
    if kind in ("float", "double"):
        if not isinstance(value, int | float):
            raise GraphError(f"{_short(value)} must be a number ({kind})")
        try:
            return float(np.float32(value)) if kind == "float" else float(value)
        except OverflowError:
            raise GraphError(f"{_short(value)} is too large ({kind})") from None
    if kind == "bytes":
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise GraphError(f"{_short(value)} must be bytes")
    expected = {"bool": bool, "string": str}[kind]
    if kind == "bool" and isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and kind == "string" and not has_encoding(value):
        raise GraphError(f"{_short(value)} has no encoding in UTF-8")
    if isinstance(value, expected):
        return value
    raise GraphError(f"{_short(value)} must be a {kind}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Attrs:
    """Attribute access as in PyXIR; the base of graphs, subgraphs, ops and tensors."""

    def __init__(self) -> None:
        self._attrs: dict[str, tuple[str, Any]] = {}

    def _owner(self) -> str:
        """Return what error messages call this object."""
        return type(self).__name__.lower()

    def _attrs_text(self) -> str:
        """Return the attributes as ``str`` of an object shows them."""
        values = (f"{key!r}: {_short(value)}" for key, (_, value) in self._attrs.items())
        return f"{{{', '.join(values)}}}"

    def _kind_hint(self, name: str) -> str | None:
        """Return the wire type that a definition prescribes for ``name``, if one does."""
        return WELL_KNOWN.get(name)

    def has_attr(self, name: str) -> bool:
        """Return whether there is an attribute called ``name``."""
        return name in self._attrs

    def get_attr(self, name: str) -> Any:
        """Return the value of ``name``; a list or dict is a copy. GraphError if it is missing."""
        if name not in self._attrs:
            known = ", ".join(sorted(self._attrs)) or "none"
            raise GraphError(
                f"{self._owner()} has no attribute {name!r}; it has: {known}",
                code="XIR_UNDEFINED_ATTR",
            )
        value = self._attrs[name][1]
        return copy.deepcopy(value) if isinstance(value, list | dict) else value

    def get_attr_kind(self, name: str) -> str:
        """Return the wire type of ``name``, one of :data:`KINDS`."""
        self.get_attr(name)
        return self._attrs[name][0]

    def set_attr(self, name: str, value: Any, kind: str | None = None) -> "Attrs":
        """Set ``name``; ``kind`` overrides the wire type that definitions or the value give.

        Raises
        ------
        GraphError
            The value does not fit the wire type.
        """
        if not isinstance(name, str) or not name or not has_encoding(name):
            raise GraphError(f"{self._owner()}: attribute name is {name!r}, but must be a string")
        try:
            wanted = kind or self._kind_hint(name) or infer_kind(value)
            self._attrs[name] = (wanted, convert(value, wanted))
        except GraphError as error:
            raise error.within(f"{self._owner()}: attribute {name!r}") from None
        return self

    def remove_attr(self, name: str) -> None:
        """Remove ``name``; GraphError if it is missing."""
        self.get_attr(name)
        del self._attrs[name]

    def get_attrs(self) -> dict[str, Any]:
        """Return every attribute with its value."""
        return {name: self.get_attr(name) for name in self._attrs}

    def set_attrs(self, attrs: "Mapping[str, Any] | Attrs") -> "Attrs":
        """Replace every attribute by ``attrs``."""
        if isinstance(attrs, Attrs):
            self._attrs = copy.deepcopy(attrs._attrs)
            return self
        expect_mapping(attrs, f"{self._owner()}: attributes")
        previous, self._attrs = self._attrs, {}
        try:
            for name, value in attrs.items():
                self.set_attr(name, value, previous[name][0] if name in previous else None)
        except GraphError:
            self._attrs = previous
            raise
        return self
