# SPDX-License-Identifier: Apache-2.0
"""Types of the attributes that programs rely on, checked where a file is read."""

from collections.abc import Mapping

from opendpu_arch.errors import GraphError
from xir.attrs import Attrs

_INTEGER = ("int32", "uint32", "int64", "uint64")
_INTEGERS = tuple(f"{kind}_vec" for kind in _INTEGER)
_MAP_OF_INTEGER = tuple(f"map_{kind}" for kind in _INTEGER)
_SMALL = range(-(1 << 31), 1 << 31)
"""What AMD's tools hold of an attribute of a tensor."""

TENSOR: Mapping[str, tuple[str, ...]] = {
    "bit_width": _INTEGER,
    "ddr_addr": _INTEGER,
    "fix_point": _INTEGER,
    "if_signed": ("bool", *_INTEGER),
    "location": _INTEGER,
    "reg_id": _INTEGER,
    "round_mode": ("string",),
    "stride": _INTEGERS,
}
SUBGRAPH: Mapping[str, tuple[str, ...]] = {
    "ac_code": ("string_vec",),
    "device": ("string",),
    "dpu_fingerprint": _INTEGER,
    "dpu_name": ("string",),
    "mc_code": ("bytes",),
    "reg_id_to_context_type": ("map_string",),
    "reg_id_to_parameter_value": ("map_bytes",),
    "reg_id_to_size": _MAP_OF_INTEGER,
    "workload": _INTEGER,
}
GRAPH: Mapping[str, tuple[str, ...]] = {"return_ops": ("string_vec",)}


def check(owner: Attrs, known: Mapping[str, tuple[str, ...]]) -> None:
    """Raise GraphError where an attribute of a file has a type that nothing reads it as."""
    for key, kinds in known.items():
        if not owner.has_attr(key):
            continue
        kind, label = owner.get_attr_kind(key), f"{owner._owner()}: attribute {key!r}"
        if kind not in kinds:
            raise GraphError(f"{label} is of type {kind}, but must be {' or '.join(kinds)}")
        value = owner.get_attr(key)
        if known is TENSOR and isinstance(value, int) and value not in _SMALL:
            raise GraphError(f"{label} is {value}, but must fit 32 bits")
