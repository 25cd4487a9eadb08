# SPDX-License-Identifier: Apache-2.0
"""Graphs: making, connecting and removing ops; what is refused."""

import numpy as np
import pytest

import xir
from opendpu_arch.errors import GraphError


def small() -> xir.Graph:
    graph = xir.Graph("small")
    x = graph.create_op("x", "data", {"shape": [1, 4, 4, 3], "data_type": "FLOAT32"})
    weights = graph.create_const_op("w", np.ones((2, 3, 3, 3), np.float32))
    attrs = {"kernel": [3, 3], "stride": [1, 1], "pad_mode": "FLOOR"}
    conv = graph.create_op("conv", "conv2d", attrs, {"input": [x], "weights": [weights]})
    graph.create_op("relu", "relu", {}, {"input": [conv]})
    return graph


def names(ops) -> list[str]:
    return [op.get_name() for op in ops]


def test_navigation():
    graph = small()
    conv = graph.get_op("conv")
    assert names(graph.get_ops()) == names(graph.toposort()) == ["x", "w", "conv", "relu"]
    assert names(graph.get_head_ops()) == ["x", "w"]
    assert names(graph.get_tail_ops()) == ["relu"]
    assert graph.get_op_num() == 4
    assert graph.get_op("nobody") is None
    assert {arg: names(ops) for arg, ops in conv.get_input_ops().items()} == {
        "input": ["x"],
        "weights": ["w"],
        "bias": [],
    }
    assert conv.get_input_num() == 2
    assert conv.get_input_num("bias") == 0
    assert names(conv.get_input_ops_by_name("weights")) == ["w"]
    assert conv.get_input_op("input") is conv.get_input_op("input", 0) is graph.get_op("x")
    assert names(conv.get_fanout_ops()) == ["relu"]
    assert conv.get_fanout_num() == 1
    assert [t.name for t in conv.get_input_tensors()] == ["x", "w"]
    assert conv.get_input_tensor("weights").dims == [2, 3, 3, 3]
    assert conv.get_graph() is graph
    tensor = graph.get_tensor("conv")
    assert (tensor.dims, tensor.ndim, tensor.dtype) == ([1, 2, 2, 2], 4, "float32")
    assert (tensor.get_element_num(), tensor.get_data_size()) == (8, 32)
    assert tensor.producer is graph.get_tensor_producer(tensor) is conv
    assert graph.get_leaf_subgraph(conv) is graph.get_root_subgraph()


def test_optional_attributes_get_defaults():
    conv = small().get_op("conv")
    assert conv.get_attr("dilation") == [1, 1]
    assert conv.get_attr("pad") == [0, 0, 0, 0]
    assert conv.get_attr("group") == 1


def test_const_op_holds_the_array():
    graph = xir.Graph("g")
    array = np.arange(6, dtype=np.int16).reshape(2, 3).T
    op = graph.create_const_op("c", array)
    assert op.get_output_tensor().dims == [3, 2]
    assert op.get_output_tensor().dtype == "int16"
    assert op.get_attr("data") == np.ascontiguousarray(array).tobytes()
    assert graph.create_const_op("s", np.float32(1)).get_output_tensor().dims == [1]


def test_custom_ops_bring_shape_and_type():
    graph = small()
    attrs = {"shape": [1, 7], "data_type": "XINT8"}
    op = graph.create_op("mine", "MyOp", attrs, {"input": [graph.get_op("relu")]})
    assert op.get_output_tensor().dims == [1, 7]
    assert op.get_output_tensor().dtype == "xint8"
    with pytest.raises(GraphError, match=r"op 'b' \(Other\): attribute 'shape' is missing"):
        graph.create_op("b", "Other", {}, {"input": [graph.get_op("relu")]})


@pytest.mark.parametrize(
    ("name", "kind", "attrs", "inputs", "message"),
    [
        ("x", "relu", {}, {"input": ["conv"]}, "name is empty or already in graph 'small'"),
        ("", "relu", {}, {"input": ["conv"]}, "name is empty"),
        ("n", "relu", {}, {}, r"op 'n' \(relu\): argument 'input' is missing"),
        ("n", "relu", {}, {"input": ["x", "w"]}, "argument 'input' has 2 ops, but takes one"),
        ("n", "relu", {}, {"data": ["x"]}, "has no argument 'data'; it has: input"),
        ("n", "softmax", {}, {"input": ["x"]}, "attribute 'axis' is missing"),
        ("n", "softmax", {"axis": "a"}, {"input": ["x"]}, "attribute 'axis': 'a' must be an int"),
        (
            "n",
            "maxpool2d",
            {"kernel": [2], "stride": [1, 1], "pad_mode": "FLOOR"},
            {"input": ["x"]},
            r"attribute 'kernel' is \[2\], but must have 2 elements",
        ),
    ],
)
def test_refused_ops_leave_the_graph_alone(name, kind, attrs, inputs, message):
    graph = small()
    before = graph.to_bytes()
    with pytest.raises(GraphError, match=message):
        graph.create_op(
            name, kind, attrs, {arg: [graph.get_op(n) for n in ops] for arg, ops in inputs.items()}
        )
    assert graph.to_bytes() == before
    assert graph.get_op("w").get_fanout_num() == 1


def test_a_vector_keeps_its_length():
    conv = small().get_op("conv")
    before = conv.get_attrs()
    for value in ([], [2], [1, 1, 1]):
        with pytest.raises(GraphError, match=r"attribute 'stride' is .*, but must have 2 elements"):
            conv.set_attr("stride", value)
    conv.set_attr("mine", [1, 2, 3])
    assert conv.get_attrs() == before | {"mine": [1, 2, 3]}


def test_ops_of_other_graphs_are_refused():
    with pytest.raises(GraphError, match=r"input <xir.Op named .x.> is not an op of graph 'small'"):
        small().create_op("n", "relu", {}, {"input": [small().get_op("x")]})


def test_removing_and_reconnecting():
    graph = small()
    conv, relu = graph.get_op("conv"), graph.get_op("relu")
    with pytest.raises(GraphError, match=r"op 'conv' \(conv2d\) cannot be removed: used by relu"):
        graph.remove_op(conv)
    with pytest.raises(GraphError, match="has no input 'w'"):
        relu.replace_input_ops(graph.get_op("w"), conv)
    relu.replace_input_ops(conv, graph.get_op("x"))
    graph.remove_op(conv)
    assert names(graph.get_ops()) == ["x", "w", "relu"]
    assert graph.get_op("w").get_fanout_num() == 0
    graph.infer_shape()
    assert relu.get_output_tensor().dims == [1, 4, 4, 3]
    assert graph.get_root_subgraph().get_op_num() == 3
    with pytest.raises(GraphError, match="cannot be removed: not in graph 'small'"):
        graph.remove_op(conv)


def test_an_input_used_twice_counts_once_as_fanout():
    graph = small()
    x = graph.get_op("x")
    op = graph.create_op("sum", "add", {}, {"input": [x, x]})
    assert x.get_fanout_ops().count(op) == 1
    op.set_input_ops("input", [x, graph.get_op("x")])
    graph.remove_op(op)
    assert names(x.get_fanout_ops()) == ["conv"]


def test_wrong_arguments_are_named():
    conv = small().get_op("conv")
    with pytest.raises(GraphError, match="has no argument 'foo'; it has: input, weights, bias"):
        conv.get_input_ops_by_name("foo")
    with pytest.raises(GraphError, match="has 0 inputs 'bias', but number 0 was asked for"):
        conv.get_input_op("bias")


def test_toposort_finds_cycles():
    graph = small()
    relu = graph.get_op("relu")
    graph.get_op("conv").set_input_ops("input", [relu])
    with pytest.raises(GraphError, match=r"form a cycle: .*conv.*relu"):
        graph.toposort()


def test_tensors():
    tensor = xir.Tensor("t", [1, 3], "XINT4")
    tensor.set_attr("fix_point", 3)
    assert tensor.get_data_size() == 2
    copy = tensor.clone().rename("u")
    assert (copy.name, copy.dims, copy.get_attr("fix_point")) == ("u", [1, 3], 3)
    assert copy.producer is None
    with pytest.raises(GraphError, match=r"tensor 't' has dimensions \[-1\]"):
        xir.Tensor("t", [-1], "XINT8")
    graph = small()
    relu = graph.get_op("relu")
    relu.replace_output_tensor(copy)
    assert relu.get_output_tensor().producer is relu


def test_dot(tmp_path):
    small().save_as_dot(tmp_path / "g.dot")
    text = (tmp_path / "g.dot").read_text()
    assert '"w" -> "conv" [label="weights"];' in text
    assert text.count("->") == 3


def test_other_formats_need_the_program_of_graphviz(tmp_path, monkeypatch):
    from opendpu_arch.errors import ToolError

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="for pdf the program 'dot' is needed; install the pack"):
        small().save_as_image(tmp_path / "g.pdf", "pdf")
