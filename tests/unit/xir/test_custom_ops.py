# SPDX-License-Identifier: Apache-2.0
"""Op types of one's own: registered, written, read back, and within what AMD's reader accepts."""

import dataclasses

import numpy as np
import pytest

import xir
from opendpu_arch.errors import GraphError
from xir import oplib, proto

TYPES = {
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT64": np.uint64,
    "FLOAT16": np.float16,
    "FLOAT32": np.float32,
    "FLOAT64": np.float64,
}


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(oplib, "_registered", {})


def model_attr(name: str = "model", default: object = b"", kind: str = "bytes") -> xir.AttrDef:
    return xir.AttrDef(name, xir.Occurrence.REQUIRED, kind, 0, default)


def graph_with_every_type(blob: bytes) -> xir.Graph:
    graph = xir.Graph("custom")
    inputs = [graph.create_const_op(name, np.ones((2, 3), kind)) for name, kind in TYPES.items()]
    inputs.append(graph.create_const_op("BOOL", np.array([[True, False]])))
    for name in TYPES:
        attrs = {"shape": [4, 5], "data_type": name, "model": blob, "domain": "ai.onnx"}
        graph.create_op(f"out_{name}", "carries-a-model", attrs, {"input": inputs})
    return graph


@pytest.mark.usefixtures("registry")
def test_a_registered_type_carries_bytes_and_every_element_type():
    blob = bytes(range(256)) * 5
    domain = xir.AttrDef("domain", xir.Occurrence.OPTIONAL, "string", 1, "")
    registered = xir.register_op(xir.custom_op("carries-a-model", [model_attr(), domain]))
    data = graph_with_every_type(blob).to_bytes()
    oplib._registered.clear()  # another process, which knows nothing of the type
    again = xir.Graph.from_bytes(data)
    assert again.to_bytes() == data
    for name, kind in TYPES.items():
        op = again.get_op(f"out_{name}")
        assert op.get_definition() == registered
        assert op.get_attr("model") == blob
        assert op.get_attr_kind("model") == "bytes"
        tensor = op.get_output_tensor()
        assert (tensor.dims, tensor.dtype) == ([4, 5], name.lower())
        assert tensor.data_type.numpy() == kind
        assert tensor.get_data_size() == 20 * np.dtype(kind).itemsize
        names = [own.get_name() for own in op.get_input_ops_by_name("input")]
        assert names == [*TYPES, "BOOL"]
        assert op.get_input_tensors()[list(TYPES).index(name)].data_type.numpy() == kind
    boolean = again.get_op("BOOL")
    assert boolean.get_output_tensor().dtype == "uint8"
    assert boolean.get_attr("data") == b"\1\0"


def refused_by_amds_reader(message) -> list[str]:
    """Return what xir's reader of Vitis AI 3.5 would stop at (see its serialize_v2, op_imp).

    It converts every op definition of the file, though it uses none: each attribute needs a
    default. For a type outside its library it makes up one with the argument ``input`` and the
    attributes ``shape`` (int32, at least one, all positive) and ``data_type``, and refuses others.
    """
    faults = [
        f"{definition.name}.{attr.name} has no default"
        for definition in message.op_defs
        for attr in definition.attrs
        if attr.default_value.WhichOneof("value") is None
    ]
    for node in message.op_node:
        if node.op_type in oplib.builtin():
            continue
        faults += [f"{node.op_name}.{arg.arg_name}" for arg in node.args if arg.arg_name != "input"]
        shape = node.op_attr["shape"].int32_vec_value.value
        if not shape or min(shape) <= 0 or not node.op_attr["data_type"].string_value:
            faults.append(f"{node.op_name}: shape or data_type")
        for attr in node.op_attr.values():
            if attr.WhichOneof("value") is None:
                faults.append(f"{node.op_name}: an attribute without value")
    return faults


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("known", [True, False])
def test_amds_reader_opens_it(known):
    if known:
        xir.register_op(xir.custom_op("carries-a-model", [model_attr()]))
    message = proto.Graph.FromString(graph_with_every_type(b"").to_bytes())
    assert refused_by_amds_reader(message) == []
    assert [d.name for d in message.op_defs][-1] == "carries-a-model"
    message.op_defs[-1].attrs[0].default_value.Clear()
    message.op_node[-1].args[0].arg_name = "x"
    assert len(refused_by_amds_reader(message)) == 2


@pytest.mark.usefixtures("registry")
def test_only_used_types_are_written():
    xir.register_op(xir.custom_op("unused"))
    graph = xir.Graph("g")
    graph.create_const_op("c", np.ones(1, np.int8))
    defined = [d.name for d in proto.Graph.FromString(graph.to_bytes()).op_defs]
    assert defined == list(xir.builtin())


@pytest.mark.usefixtures("registry")
def test_attributes_get_defaults_and_checks():
    count = xir.AttrDef("count", xir.Occurrence.OPTIONAL, "int64", 1, 7)
    xir.register_op(xir.custom_op("counted", [count]))
    graph = xir.Graph("g")
    op = graph.create_op("a", "counted", {"shape": [1], "data_type": "FLOAT64"})
    assert (op.get_attr("count"), op.get_attr_kind("count")) == (7, "int64")
    with pytest.raises(GraphError, match=r"op 'b' \(counted\): attribute 'count': 'x' must be an"):
        graph.create_op("b", "counted", {"shape": [1], "data_type": "INT8", "count": "x"})
    with pytest.raises(GraphError, match=r"shape is \[\], but must have at least one dimension"):
        graph.create_op("c", "counted", {"shape": [], "data_type": "INT8"})


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (xir.OpDef("", (), ()), "op type '': the name is empty"),
        (xir.custom_op("relu"), "op type 'relu': the name is empty or defined otherwise"),
        (
            dataclasses.replace(xir.custom_op("m"), args=()),
            "op type 'm': it must have the argument 'input' and",
        ),
        (
            dataclasses.replace(xir.custom_op("m"), attrs=()),
            "op type 'm': it must have the argument 'input' and",
        ),
        (xir.custom_op("m", [model_attr(), model_attr()]), "'m': attribute 'model' is empty or"),
        (xir.custom_op("m", [model_attr("shape")]), "'m': attribute 'shape' is empty or defined"),
        (xir.custom_op("m", [model_attr(default=None)]), "attribute 'model': None must be bytes"),
        (xir.custom_op("m", [model_attr(kind="blob")]), "attribute 'model': attribute type is"),
    ],
)
def test_definitions_that_are_refused(definition, message):
    with pytest.raises(GraphError, match=message):
        xir.register_op(definition)


@pytest.mark.usefixtures("registry")
def test_registering_twice():
    xir.register_op(xir.custom_op("m"))
    assert xir.register_op(xir.custom_op("m")) == xir.custom_op("m")
    with pytest.raises(GraphError, match="op type 'm': the name is empty or defined otherwise"):
        xir.register_op(xir.custom_op("m", [model_attr()]))
