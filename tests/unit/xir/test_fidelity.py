# SPDX-License-Identifier: Apache-2.0
"""What a file holds comes back as it was, every field, and weights are not held twice."""

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import xir
from xir import attrs, oplib, proto, wire

SCALARS = {
    "bool": lambda rng: bool(rng.integers(2)),
    "int32": lambda rng: int(rng.integers(-(2**31), 2**31)),
    "uint32": lambda rng: int(rng.integers(2**32)),
    "int64": lambda rng: int(rng.integers(-(2**63), 2**63)),
    "uint64": lambda rng: int(rng.integers(2**64, dtype=np.uint64)),
    "float": lambda rng: float(rng.normal(size=1).astype(np.float32)[0]),
    "double": lambda rng: float(rng.normal()),
    "string": lambda rng: "ä" * int(rng.integers(4)),
    "bytes": lambda rng: rng.bytes(int(rng.integers(9))),
}


def fill(message: Any, kind: str, rng: np.random.Generator) -> None:
    """Give an AttrValue a random value of the wire type ``kind``, straight in the message."""
    field = getattr(message, wire.FIELDS[kind])
    count = int(rng.integers(4))
    if kind in ("bytes", *(k for k in attrs.KINDS if k.endswith("_vec") or k.startswith("map_"))):
        field.SetInParent()
    if kind.startswith("map_"):
        item = kind.removeprefix("map_")
        scalar = SCALARS[item.removesuffix("_vec")]
        for i in range(count):
            if item.endswith("_vec"):
                field.value[f"k{i}"].value.extend(scalar(rng) for _ in range(i))
            elif item == "bytes":
                field.value[f"k{i}"].value = scalar(rng)
            else:
                field.value[f"k{i}"] = scalar(rng)
    elif kind.endswith("_vec"):
        field.value.extend(SCALARS[kind.removesuffix("_vec")](rng) for _ in range(count))
    elif kind == "bytes":
        field.value = SCALARS[kind](rng)
    else:
        setattr(message, wire.FIELDS[kind], SCALARS[kind](rng))


def fill_all(messages: Any, rng: np.random.Generator) -> None:
    for kind in attrs.KINDS:
        fill(messages[f"a_{kind}"], kind, rng)


def random_message(rng: np.random.Generator) -> Any:
    """Return a graph as another writer could have made it: every field, op types unknown here."""
    message = proto.Graph(graph_name="full")
    fill_all(message.graph_attr, rng)
    for i in range(6):
        node = message.op_node.add(op_name=f"op{i}", op_type=f"theirs{i % 3}")
        for arg in ("first", "second"):
            earlier = [f"op{k}" for k in rng.permutation(i)[: int(rng.integers(3))]]
            node.args.add(arg_name=arg, arg_ops=earlier)
        fill_all(node.op_attr, rng)
        node.output_tensor.tensor_name = f"tensor{i}"
        node.output_tensor.tensor_dim.extend(int(d) for d in rng.integers(0, 2**32, 3))
        node.output_tensor.data_type = int(rng.integers(7))
        node.output_tensor.tensor_bit_width = int(rng.integers(1, 65))
        fill_all(node.output_tensor.tensor_attr, rng)
    root = message.subg_root
    root.subgraph_name = "root"
    for name, ops in (("inner", None), ("leaf", ["op3", "op4", "op5"])):
        child = root.subg_child.add(subgraph_name=name)
        fill_all(child.subg_attr, rng)
        for i in range(0 if ops else 3):
            child.subg_child.add(subgraph_name=f"below{i}", op_name=[f"op{i}"])
        child.op_name.extend(ops or [])
    for i in range(3):
        definition = message.op_defs.add(name=f"theirs{i}", annotation="what it does")
        for occurrence, arg in enumerate(("first", "second", "third", "fourth")):
            definition.input_args.add(
                name=arg, occur_type=occurrence, data_type=occurrence + i, annotation="a"
            )
        for kind in attrs.KINDS:
            attr = definition.attrs.add(name=f"a_{kind}", occur_type=i % 2, list_length=i)
            attr.annotation = kind
            fill(attr.default_value, kind, rng)
    return message


def test_every_field_of_the_schema_comes_back(rng):
    message = random_message(rng)
    for definition in message.op_defs:  # arguments of a definition are written even without ops
        del definition.input_args[2:]
    data = message.SerializeToString(deterministic=True)
    graph = xir.Graph.from_bytes(data)
    assert graph.to_bytes() == data
    assert {graph.get_op("op0").get_attr_kind(f"a_{kind}") for kind in attrs.KINDS} == set(
        attrs.KINDS
    )
    assert graph.get_op("op0").get_definition().attr("a_bytes_vec").kind == "bytes_vec"


def test_arguments_without_ops_are_written(rng):
    graph = xir.Graph.from_bytes(random_message(rng).SerializeToString())
    (node, *_) = proto.Graph.FromString(graph.to_bytes()).op_node
    assert [arg.arg_name for arg in node.args] == ["first", "second", "third", "fourth"]


def test_new_ops_of_types_that_a_file_brought(rng):
    graph = xir.Graph.from_bytes(random_message(rng).SerializeToString())
    relu = graph.create_op("relu", "relu", {}, {"input": [graph.get_op("op5")]})
    again = xir.Graph.from_bytes(graph.to_bytes())
    assert again.get_op("relu").get_definition() == relu.get_definition()
    names = [d.name for d in proto.Graph.FromString(graph.to_bytes()).op_defs]
    assert names == ["theirs0", "theirs1", "theirs2", "relu"]


def test_the_schema_is_that_of_the_reference(repository):
    """Field numbers, names and types against the table that was taken from AMD's files."""
    page = repository.parent / "shared" / "reference" / "xmodel.md"
    if not page.is_file():
        pytest.skip(f"no reference in {page.parent}")
    rows = re.findall(r"^\| (\w+) \| (\d+ .*) \|$", page.read_text(encoding="utf-8"), re.M)
    table = {name: fields for name, fields in rows if hasattr(proto, name)}
    assert len(table) == 8
    for name, fields in table.items():
        descriptor = getattr(proto, name).DESCRIPTOR
        entries = [re.match(r"(\d+) (\w+)(.*)", entry) for entry in fields.split("; ")]
        assert {int(entry[1]): entry[2] for entry in entries} == {
            field.number: field.name for field in descriptor.fields
        }, name
        for entry in entries:
            field = descriptor.fields_by_number[int(entry[1])]
            several = re.search(r"\b(repeated|map)\b", entry[3]) is not None
            assert field.is_repeated == several, (name, field.name)
            if scalar := re.search(r"\b(string|int32|uint32)\b(?![^<]*>)", entry[3]):
                kinds = {"string": field.TYPE_STRING, "int32": field.TYPE_INT32}
                assert field.type == kinds.get(scalar[1], field.TYPE_UINT32), (name, field.name)


def test_wire_types_have_the_numbers_of_the_reference():
    order = [
        *("bool", "int32", "uint32", "int64", "uint64", "float", "double", "string", "bytes"),
        *("bool_vec", "int32_vec", "uint32_vec", "int64_vec", "uint64_vec"),
        *("float_vec", "double_vec", "string_vec", "bytes_vec"),
        *("map_int32", "map_uint32", "map_int64", "map_uint64", "map_string", "map_bytes"),
        *("map_int32_vec", "map_uint32_vec", "map_int64_vec", "map_uint64_vec", "map_string_vec"),
    ]
    fields = proto.AttrValue.DESCRIPTOR.fields_by_number
    assert {number: fields[number].name for number in fields} == {
        number: wire.FIELDS[kind] for number, kind in enumerate(order, 4)
    }
    assert set(order) == set(attrs.KINDS)


MEMORY = """
import resource, sys, xir

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB

graph = xir.Graph("big")
blob = bytes(32 << 20)
graph.create_op("small", "data", {"shape": [1], "data_type": "INT8"})
if sys.argv[1] == "write":
    for i in range(8):
        data = bytes([i]) * len(blob)
        attrs = {"shape": [len(blob)], "data_type": "INT8", "data": data}
        graph.create_op(f"c{i}", "const", attrs)
    del data
    before = peak()
    graph.serialize(sys.argv[2])
else:
    before = peak()
    graph = xir.Graph.deserialize(sys.argv[2])
    assert len(graph.get_op("c7").get_attr("data")) == len(blob)
    with open("/proc/self/statm") as file:
        kept = int(file.read().split()[1]) * resource.getpagesize() / 2**20
    print(kept - before, end=" ")
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_weights_are_not_kept_twice(tmp_path):
    """256 MiB of constants: writing holds one op twice, reading all of the file for a while."""

    def run(what: str) -> list[float]:
        command = [sys.executable, "-c", MEMORY, what, str(tmp_path / "big.xmodel")]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        return [float(word) for word in result.stdout.split()]

    (grown,) = run("write")
    assert grown < 160
    kept, grown = run("read")
    assert kept < 300
    assert grown < 600


def test_registered_definitions_do_not_replace_those_of_the_file(rng, monkeypatch):
    monkeypatch.setattr(oplib, "_registered", {})
    xir.register_op(xir.custom_op("theirs0"))
    graph = xir.Graph.from_bytes(random_message(rng).SerializeToString())
    assert graph.get_definition("theirs0").arg("second") is not None
