# SPDX-License-Identifier: Apache-2.0
"""Drafts: editing, order, and the way to XIR and back."""

import numpy as np
import pytest

import xir
from opendpu.ir import Graph, Origin, Quantization, QuantizedGraph, TensorType, from_xir, to_xir
from opendpu.ir.xir_bridge import quantization_of
from opendpu_arch.errors import GraphError


def small() -> Graph:
    graph = Graph("small")
    graph.add("x", "data", (1, 4, 4, 2))
    graph.add_const("w", np.arange(6.0).reshape(3, 1, 1, 2))
    attrs = {"kernel": [1, 1], "stride": [1, 1], "pad_mode": "FLOOR", "pad": [0, 0, 0, 0]}
    graph.add("c", "conv2d", (1, 4, 4, 3), {"input": ["x"], "weights": ["w"]}, attrs)
    graph.add("r", "relu", (1, 4, 4, 3), {"input": ["c"]})
    graph.outputs = ["r"]
    return graph


def test_read_once_is_one_reader_and_no_output():
    graph = small()
    assert graph.is_read_once("c")
    assert not graph.is_read_once("r")  # an output that nobody reads
    graph.add("s", "relu", (1, 4, 4, 3), {"input": ["r"]})
    assert not graph.is_read_once("r")  # an output, too
    graph.add("t", "add", (1, 4, 4, 3), {"input": ["c", "c"]})
    assert not graph.is_read_once("c")
    graph.outputs = ["s", "t"]
    assert graph.is_read_once("r")


def test_xir_and_back():
    graph = small()
    graph.attrs["onnx_order"] = {"x": [0, 2, 3, 1]}
    back = from_xir(to_xir(graph))
    assert [n.name for n in back] == [n.name for n in graph]
    assert back.outputs == ["r"]
    assert back.attrs == graph.attrs
    np.testing.assert_array_equal(back["w"].value, graph["w"].value)
    assert back["c"].attrs["kernel"] == [1, 1]


def test_file_and_back(tmp_path):
    to_xir(small()).serialize(tmp_path / "m.xmodel")
    back = from_xir(xir.Graph.deserialize(tmp_path / "m.xmodel"))
    assert back.outputs == ["r"]
    np.testing.assert_array_equal(back["w"].value, small()["w"].value)


def test_outputs_without_return_ops_are_the_tails():
    graph = xir.Graph("g")
    head = graph.create_op("x", "data", {"shape": [1, 2], "data_type": "FLOAT32"})
    graph.create_op("y", "relu", {}, {"input": [head]})
    assert from_xir(graph).outputs == ["y"]


def test_quantized_file_of_amd(models):
    graph = xir.Graph.deserialize(models / "amd_compiled" / "VoxelNet_int.xmodel")
    graph = from_xir(graph)
    assert len(graph.nodes) == 166
    assert len(graph.outputs) == 3
    fix = graph["VoxelNet__rpn_conv_box_weight_fix"]
    scaled = graph[fix.inputs["input"][0]].value * 2.0**fix.fix_point
    np.testing.assert_array_equal(scaled, np.rint(scaled))


@pytest.mark.parametrize(("bits", "point"), [(-3, 2), (0, 2), (65, 2), (8, 1 << 30), (8, -2000)])
def test_bits_that_no_number_has_are_refused(bits, point):
    tensor = xir.Tensor("t", [1], "XINT8").set_attr("bit_width", bits).set_attr("fix_point", point)
    with pytest.raises(GraphError, match=f"bit_width is {bits} and fix_point {point}, but must be"):
        quantization_of(tensor)


@pytest.mark.parametrize("bits", [8.5, [8], "8"])
def test_bits_that_are_no_number_are_refused(bits):
    tensor = xir.Tensor("t", [1], "XINT8").set_attr("bit_width", bits)
    with pytest.raises(
        GraphError, match=r"attribute 'bit_width' is .*, but must be a whole number"
    ):
        quantization_of(tensor)


def test_an_unknown_rounding_is_refused():
    graph = xir.Graph("g")
    head = graph.create_op("x", "data", {"shape": [1, 2], "data_type": "FLOAT32"})
    attrs = {"fix_point": 1, "bit_width": 8, "if_signed": True, "round_mode": "DHU_ROUND"}
    fix = graph.create_op("f", "fix", attrs, {"input": [head]})
    with pytest.raises(GraphError, match="round_mode is 'DHU_ROUND', but must be one of DPU_ROUND"):
        quantization_of(fix)


def test_wrong_shape_is_found():
    graph = small()
    graph["r"].type = graph["r"].type.with_shape((1, 4, 4, 2))
    with pytest.raises(GraphError, match=r"op 'r' \(relu\) has shape \[1, 4, 4, 2\], but XIR"):
        to_xir(graph)


def test_names_are_unique():
    graph = small()
    with pytest.raises(GraphError, match="already has a node 'c'"):
        graph.add("c", "relu", (1,), {"input": ["x"]})
    with pytest.raises(GraphError, match="already has a node 'c'"):
        graph.rename("r", "c")
    with pytest.raises(GraphError, match="has no node 'z'"):
        graph.add("y", "relu", (1,), {"input": ["z"]})
    assert graph.unique("c") == "c_1"
    assert graph.add_const("w", np.zeros(2)).name == "w_1"


def test_rename_reaches_users_and_outputs():
    graph = small()
    graph.rename("r", "out")
    graph.rename("c", "conv")
    assert graph.outputs == ["out"]
    assert graph["out"].inputs == {"input": ["conv"]}


def test_prune_drops_what_nobody_needs_but_no_inputs():
    graph = small()
    graph.add("lost", "relu", (1, 4, 4, 2), {"input": ["x"]})
    graph.outputs = ["x"]
    graph.prune()
    assert [n.name for n in graph] == ["x"]


def test_sort():
    graph = small()
    graph.nodes = dict(reversed(graph.nodes.items()))
    graph.sort()
    order = list(graph.nodes)
    assert order.index("w") < order.index("c") < order.index("r")
    graph["c"].inputs["input"] = ["r"]
    with pytest.raises(GraphError, match="has a cycle through"):
        graph.sort()


def test_copy_is_independent():
    graph = small()
    twin = graph.copy()
    twin["c"].attrs["kernel"] = [2, 2]
    twin["r"].inputs["input"].append("x")
    assert graph["c"].attrs["kernel"] == [1, 1]
    assert graph["r"].inputs["input"] == ["c"]


def test_constant_of_unknown_type():
    graph = xir.Graph("g")
    graph.create_op("k", "const", {"shape": [2], "data_type": "BFLOAT16", "data": b"abcd"})
    with pytest.raises(GraphError, match="data type BFLOAT16 has no numpy dtype"):
        from_xir(graph)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float32"])
def test_constants_keep_their_type(dtype):
    graph = Graph("g")
    values = np.arange(6).astype(dtype)
    graph.add("k", "const", TensorType((6,), values.dtype), value=values)
    graph.outputs = ["k"]
    back = from_xir(to_xir(graph))["k"]
    assert (back.type.dtype, back.type.quantization) == (np.dtype(dtype), None)
    np.testing.assert_array_equal(back.value, values)


def test_quantization_and_origin_survive_xir():
    graph = small()
    graph["c"].origin = Origin("block/conv", "Conv", "net.py:12")
    found = Quantization.power_of_two(-2, bits=4, signed=False, rounding="STD_ROUND")
    graph.outputs = [graph.add_fix("f", "c", found).name]
    back = from_xir(to_xir(graph))
    assert isinstance(back, QuantizedGraph)
    assert back["f"].quantization == found
    assert back["f"].fix_point == -2
    assert back["c"].origin == graph["c"].origin
    assert "fix_point" not in back["f"].attrs


def test_constant_of_wrong_size():
    graph = xir.Graph("g")
    graph.create_op("k", "const", {"shape": [3], "data_type": "FLOAT32", "data": bytes(8)})
    with pytest.raises(GraphError, match=r"holds 8 bytes, but its tensor \[3\] needs 12"):
        from_xir(graph)


def by_channel() -> QuantizedGraph:
    graph = QuantizedGraph("net")
    graph.add_const("w", np.float32([[0.5, 1.5], [0.25, -1.0], [2.0, 4.0]]))
    graph.add_fix("w_fix", "w", Quantization.powers_of_two([3, 5, -1], 0))
    graph.outputs = ["w_fix"]
    return graph


def test_fix_points_of_channels_in_a_file(tmp_path):
    to_xir(by_channel()).serialize(tmp_path / "m.xmodel")
    stored = xir.Graph.deserialize(tmp_path / "m.xmodel")
    attrs = stored.get_op("w_fix").get_attrs()
    assert (attrs["fix_points"], attrs["axis"], attrs["fix_point"]) == ([3, 5, -1], 0, -1)
    back = from_xir(stored)
    assert back["w_fix"].quantization == by_channel()["w_fix"].quantization
    assert back["w_fix"].attrs == {}
    assert back["w_fix"].fix_points == (3, 5, -1)


def test_fix_points_that_do_not_fit_their_axis():
    graph = to_xir(by_channel())
    graph.get_op("w_fix").set_attr("fix_points", [3, 5])
    with pytest.raises(
        GraphError, match=r"'w_fix'.*fix_points are 2 along axis 0, but .* \[3, 2\]"
    ):
        from_xir(graph)


def test_fix_points_that_agree_are_one():
    assert Quantization.powers_of_two([4, 4], 0) == Quantization.power_of_two(4)
    assert Quantization.powers_of_two([4, 5], 1).along([6, 6], 1).fix_point == 6


def test_what_has_no_fix_points_says_so():
    with pytest.raises(GraphError, match="has no fix_points"):
        _ = Quantization((0.5, 0.3), axis=0).fix_points
    with pytest.raises(GraphError, match="has no fix_point"):
        _ = Quantization.powers_of_two([1, 2], 0).fix_point
