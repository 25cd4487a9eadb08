# SPDX-License-Identifier: Apache-2.0
"""Attributes: wire types of Python values, ranges, copies."""

import numpy as np
import pytest

import xir
from opendpu_arch.errors import GraphError
from xir import attrs, proto, wire


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "bool"),
        (5, "int32"),
        (-(2**31), "int32"),
        (2**31, "int64"),
        (2**63, "uint64"),
        (1.5, "double"),
        ("a", "string"),
        (b"ab", "bytes"),
        (bytearray(b"ab"), "bytes"),
        ([1, 2], "int32_vec"),
        ([1, 2**40], "int64_vec"),
        ([1, 2.5], "double_vec"),
        ([True, False], "bool_vec"),
        (["a"], "string_vec"),
        ([b"a"], "bytes_vec"),
        ([], "int32_vec"),
        ((1, 2), "int32_vec"),
        ({}, "map_string"),
        ({"a": 1}, "map_int32"),
        ({"a": "b"}, "map_string"),
        ({"a": b"b"}, "map_bytes"),
        ({"a": [1]}, "map_int32_vec"),
        ({"a": ["b"]}, "map_string_vec"),
        (np.int8(3), "int32"),
        (np.float32(0.5), "double"),
        (np.array([1, 2]), "bytes"),
    ],
)
def test_kind_of_a_python_value(value, kind):
    graph = xir.Graph("g")
    graph.set_attr("key", value)
    assert graph.get_attr_kind("key") == kind


@pytest.mark.parametrize("kind", attrs.KINDS)
def test_every_wire_type_survives_its_message(kind):
    base = kind.removeprefix("map_").removesuffix("_vec")
    value = {"bool": True, "string": "text", "bytes": b"\0\xff", "float": 0.1, "double": 0.1}.get(
        base, 7
    )
    value = [value, value] if kind.endswith("_vec") else value
    value = {"k": value} if kind.startswith("map_") else value
    converted = attrs.convert(value, kind)
    message = proto.AttrValue()
    wire.encode_value(kind, converted, message)
    again = proto.AttrValue.FromString(message.SerializeToString())
    assert wire.decode_value(again) == (kind, converted)


@pytest.mark.parametrize("kind", [k for k in attrs.KINDS if k.endswith("_vec") or "map_" in k])
def test_empty_containers_survive_their_message(kind):
    empty = {} if kind.startswith("map_") else []
    message = proto.AttrValue()
    wire.encode_value(kind, empty, message)
    again = proto.AttrValue.FromString(message.SerializeToString())
    assert wire.decode_value(again) == (kind, empty)


def test_the_op_library_prescribes_types():
    graph = xir.Graph("g")
    x = graph.create_op("x", "data", {"shape": [1, 4], "data_type": "FLOAT32"})
    op = graph.create_op("y", "leaky-relu", {"alpha": 0.1}, {"input": [x]})
    assert op.get_attr_kind("alpha") == "float"
    assert op.get_attr("alpha") == float(np.float32(0.1))


def test_well_known_attributes_have_the_types_amd_reads():
    sub = xir.Graph("g").get_root_subgraph()
    sub.set_attrs(
        {
            "dpu_fingerprint": 0x101000056010407,
            "workload": 3,
            "reg_id_to_size": {},
            "reg_id_to_parameter_value": {},
            "children_topological_sort": [],
        }
    )
    kinds = [sub.get_attr_kind(key) for key in sub.get_attrs()]
    assert kinds == ["uint64", "uint64", "map_int32", "map_bytes", "string_vec"]


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("int32", -(2**31), 2**31 - 1),
        ("uint32", 0, 2**32 - 1),
        ("int64", -(2**63), 2**63 - 1),
        ("uint64", 0, 2**64 - 1),
    ],
)
def test_integers_go_to_the_ends_of_their_type(kind, low, high):
    for value in (low, high):
        message = proto.AttrValue()
        wire.encode_value(kind, attrs.convert(value, kind), message)
        assert wire.decode_value(message) == (kind, value)
    for value in (low - 1, high + 1):
        with pytest.raises(GraphError, match=rf"must be an integer in {low}\.\.{high}"):
            attrs.convert(value, kind)


def test_an_explicit_type_wins():
    sub = xir.Graph("g").get_root_subgraph()
    sub.set_attr("workload", 3, "int32")
    assert sub.get_attr_kind("workload") == "int32"


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (
            2**31,
            "int32",
            r"attribute 'key': 2147483648 must be an integer in .*2147483647 \(int32\)",
        ),
        (-1, "uint64", r"-1 must be an integer in 0\.\.18446744073709551615 \(uint64\)"),
        ("1", "int32", r"'1' must be an integer"),
        ("x", "double", r"'x' must be a number \(double\)"),
        (2, "bool", r"2 must be a bool"),
        (2, "string", r"2 must be a string"),
        ("x", "bytes", r"'x' must be bytes"),
        (3, "int32_vec", r"3 must be a list of int32"),
        ({1: 2}, "map_int32", r"\{1: 2\} must be a dict with string keys"),
        (3, "int7", r"attribute type is 'int7', but must be one of bool, int32"),
        (2**64, None, r"18446744073709551616 does not fit 64 bits"),
        (object, None, r"a type is no attribute value"),
        ([1, "a"], None, r"elements of different types: int32, string"),
    ],
)
def test_values_that_do_not_fit(value, kind, message):
    graph = xir.Graph("g")
    with pytest.raises(GraphError, match=message):
        graph.set_attr("key", value, kind)
    assert not graph.has_attr("key")


def test_missing_attribute_names_what_there_is():
    graph = xir.Graph("g")
    with pytest.raises(GraphError, match=r"graph 'g' has no attribute 'x'; it has: none"):
        graph.get_attr("x")
    graph.set_attr("b", 1).set_attr("a", 1)
    with pytest.raises(GraphError, match=r"graph 'g' has no attribute 'x'; it has: a, b"):
        graph.get_attr("x")


def test_values_are_copies():
    graph = xir.Graph("g")
    given = [1, 2]
    graph.set_attr("list", given)
    given.append(3)
    graph.get_attr("list").append(4)
    assert graph.get_attrs() == {"list": [1, 2]}


def test_set_attrs_replaces_all_or_nothing():
    graph = xir.Graph("g")
    graph.set_attr("a", 1, "uint32")
    with pytest.raises(GraphError, match="'c'"):
        graph.set_attrs({"b": 1, "c": object()})
    assert graph.get_attrs() == {"a": 1}
    graph.set_attrs({"a": 2})
    assert graph.get_attr_kind("a") == "uint32"
    graph.remove_attr("a")
    assert graph.get_attrs() == {}
