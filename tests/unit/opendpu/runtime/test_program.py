# SPDX-License-Identifier: Apache-2.0
"""What a runner reads from a DPU subgraph, and subgraphs it refuses."""

import numpy as np
import pytest

import xir
from opendpu.runtime.description import describe
from opendpu.runtime.program import Program, dpu_subgraphs
from opendpu_arch.errors import AddressError, ModelFormatError, UnsupportedError


def test_ports_and_segments(copy_subgraph):
    program = Program.from_subgraph(copy_subgraph)
    assert program.name == "subgraph_y"
    assert program.constants == {0: b"\1\2\3\0"}
    assert program.sizes == {1: 16, 2: 64, 3: 64}
    (given,), (result,) = program.inputs, program.outputs
    assert (given.name, given.aliases, given.reg_id) == ("x", ("x_upload",), 2)
    assert (result.name, result.aliases, result.reg_id) == ("y", ("y_inner",), 3)
    assert given.strides == (32, 16, 4, 1)
    assert given.extent == 8 + 16 + 12
    view = given.view(np.arange(64, dtype=np.uint8))
    assert view[0, :, :, 0].tolist() == [[8, 12, 16], [24, 28, 32]]


def test_inputs_are_those_in_front_of_uploads(copy_graph, copy_subgraph):
    """By their names, as AMD's: those of uploads may have another order (``_`` is before ``u``)."""
    fixed = {"shape": [1, 2, 3, 4], "data_type": "XINT8"}
    second, upload = copy_graph.get_op("x"), copy_graph.get_op("x_upload")
    first = copy_graph.create_op("x_0", "data-fix", fixed, subgraph=None)
    more = copy_graph.create_op("x_0_upload", "upload", {}, {"input": [first]}, copy_subgraph)
    first.get_output_tensor().set_attrs({**second.get_output_tensor().get_attrs(), "fix_point": 7})
    more.get_output_tensor().set_attrs(upload.get_output_tensor()).set_attr("ddr_addr", 36)
    one, other = Program.from_subgraph(copy_subgraph).inputs
    assert [(port.name, port.inner) for port in (one, other)] == [
        ("x", "x_upload"), ("x_0", "x_0_upload"),
    ]  # fmt: skip
    told = other.tensor.get_attrs()
    assert (told["fix_point"], told["reg_id"], told["ddr_addr"], told["location"]) == (7, 2, 36, 1)
    assert "reg_id" not in first.get_output_tensor().get_attrs()


def test_a_tensor_that_is_uploaded_twice_is_two_inputs(copy_graph, copy_subgraph):
    upload = copy_graph.get_op("x_upload")
    source = copy_graph.get_op("x")
    more = copy_graph.create_op("x_upload_1", "upload", {}, {"input": [source]}, copy_subgraph)
    more.get_output_tensor().set_attrs(upload.get_output_tensor())
    ports = Program.from_subgraph(copy_subgraph).inputs
    assert [(port.name, port.aliases) for port in ports] == [
        ("x_upload", ("x",)), ("x_upload_1", ("x",)),
    ]  # fmt: skip


def test_dense_without_stride(copy_subgraph):
    copy_subgraph.get_graph().get_op("x_upload").get_output_tensor().remove_attr("stride")
    (port,) = Program.from_subgraph(copy_subgraph).inputs
    assert port.strides == (24, 12, 4, 1)


def test_amds_ports(models):
    graph = xir.Graph.deserialize(models / "amd_compiled/tf2_custom_op.xmodel")
    first, second = (Program.from_subgraph(s) for s in dpu_subgraphs(graph))
    assert [port.name for port in first.inputs] == ["quant_input_1"]
    assert [port.name for port in first.outputs] == ["quant_max_pooling2d_1_fix"]
    assert [port.name for port in second.inputs] == ["quant_custom_layer"]
    assert [port.name for port in second.outputs] == ["quant_dense_sigmoid_sigmoid_fix"]
    assert len(first.constants[0]) == 122880


def test_other_devices(copy_graph):
    cpu = copy_graph.get_root_subgraph().get_children()[2]
    with pytest.raises(UnsupportedError, match="'subgraph_z' is for device 'CPU', but must be for"):
        Program.from_subgraph(cpu)
    with pytest.raises(UnsupportedError, match="'root' is for device None"):
        Program.from_subgraph(copy_graph.get_root_subgraph())


@pytest.mark.parametrize("key", ["mc_code", "reg_id_to_context_type", "reg_id_to_size"])
def test_missing_attributes(copy_subgraph, key):
    copy_subgraph.remove_attr(key)
    with pytest.raises(ModelFormatError, match=f"'subgraph_y': attribute '{key}' is missing; is"):
        Program.from_subgraph(copy_subgraph)


@pytest.mark.parametrize(
    ("key", "value", "kind", "message"),
    [
        ("mc_code", b"", None, "attribute 'mc_code' is empty"),
        ("mc_code", "text", None, "attribute 'mc_code' is a str, but must be bytes"),
        ("dpu_fingerprint", "0x1", "string", "attribute 'dpu_fingerprint' is a str"),
        ("reg_id_to_context_type", {"REG_8": "DATA"}, None, "register is 'REG_8', but must be REG"),
        ("reg_id_to_context_type", {"0": "DATA"}, None, r"register is '0', but must be REG_0\.\.R"),
        ("reg_id_to_size", {"REG_1": -1}, None, "size of REG_1 is -1, but must not be negative"),
        ("reg_id_to_size", {"REG_0": 1 << 30}, None, "size of REG_0 is 1073741824, but its param"),
        (
            "reg_id_to_size",
            {"REG_0": "4"},
            "map_string",
            "'reg_id_to_size' has a str for REG_0, but must",
        ),
        (
            "reg_id_to_context_type",
            {"REG_0": 3},
            "map_int32",
            "has a int for REG_0, but must have str",
        ),
        (
            "reg_id_to_parameter_value",
            {"REG_0": [1]},
            "map_int32_vec",
            "has a list for REG_0, but must have",
        ),
        ("reg_id_to_parameter_value", {}, None, "REG_0 is CONST, but has no parameter value"),
    ],
)
def test_wrong_attributes(copy_subgraph, key, value, kind, message):
    copy_subgraph.set_attr(key, value, kind)
    with pytest.raises(ModelFormatError, match=message):
        Program.from_subgraph(copy_subgraph)


@pytest.mark.parametrize(
    ("key", "value", "error", "message"),
    [
        ("ddr_addr", 40, AddressError, r"tensor 'x' is at 40\.\.68 of REG_2, which has 64"),
        ("ddr_addr", -1, AddressError, r"is at -1\.\."),
        ("reg_id", 5, AddressError, "of REG_5, which has 0 bytes"),
        ("stride", [1, 1], ModelFormatError, r"has stride \[1, 1\] for dimensions \[1, 2, 3, 4\]"),
        ("stride", [-1, 1, 1, 1], ModelFormatError, r"has stride \[-1, 1, 1, 1\]"),
    ],
)
def test_tensors_outside_their_segment(copy_subgraph, key, value, error, message):
    copy_subgraph.get_graph().get_op("x_upload").get_output_tensor().set_attr(key, value)
    with pytest.raises(error, match=message):
        Program.from_subgraph(copy_subgraph)


@pytest.mark.parametrize("op", ["x_upload", "y"])
def test_tensors_without_a_place(copy_subgraph, op):
    tensor = copy_subgraph.get_graph().get_op(op).get_output_tensor()
    tensor.remove_attr("ddr_addr")
    with pytest.raises(ModelFormatError, match="has no attribute 'ddr_addr'"):
        Program.from_subgraph(copy_subgraph)


def test_a_download_of_nothing(copy_subgraph):
    """Found by fuzzing: a file whose op lost its input."""
    download = copy_subgraph.get_graph().get_op("y")
    download.set_input_ops("input", [])
    download.get_output_tensor().remove_attr("reg_id")
    with pytest.raises(ModelFormatError, match="tensor 'y' has no attribute 'reg_id'"):
        Program.from_subgraph(copy_subgraph)


def test_an_input_without_upload_lies_where_its_producer_says(copy_graph, copy_subgraph):
    source, upload = copy_graph.get_op("x"), copy_graph.get_op("x_upload")
    source.get_output_tensor().set_attrs(upload.get_output_tensor())
    copy_graph.get_op("y").set_input_ops("input", [source])
    copy_graph.remove_op(upload)
    (port,) = Program.from_subgraph(copy_subgraph).inputs
    assert (port.name, port.aliases, port.address) == ("x", (), 8)


@pytest.mark.parametrize("key", ["reg_id_to_context_type", "reg_id_to_size"])
def test_descriptions_check_attributes_by_register(copy_graph, key):
    (subgraph,) = dpu_subgraphs(copy_graph)
    subgraph.set_attr(key, [1, 2], "int32_vec")
    with pytest.raises(ModelFormatError, match=f"attribute '{key}' is a list, but must be dict"):
        describe(copy_graph)
    subgraph.remove_attr(key)
    (found,) = [part for part in describe(copy_graph)["subgraphs"] if "reg info" in part]
    sizes = [register["size"] for register in found["reg info"]]
    assert not any(sizes)
