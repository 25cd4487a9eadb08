# SPDX-License-Identifier: Apache-2.0
"""Files: round trips, what they contain, and broken ones."""

import contextlib
import pathlib

import numpy as np
import pytest

import xir
from opendpu_arch.errors import GraphError, ModelFormatError, OutputError
from xir import proto


def sample() -> xir.Graph:
    graph = xir.Graph("sample")
    graph.set_attr("origin", "test")
    x = graph.create_op("x", "data", {"shape": [1, 4], "data_type": "FLOAT32"})
    relu = graph.create_op("relu", "relu", {"__private": 1}, {"input": [x]})
    relu.get_output_tensor().rename("relu_out").set_attr("fix_point", -3)
    graph.create_op("mine", "Mine", {"shape": [1, 4], "data_type": "FLOAT32"}, {"input": [relu]})
    dpu, _ = graph.get_root_subgraph().split(
        [("subgraph_x", [x, relu]), ("subgraph_mine", [graph.get_op("mine")])]
    )
    dpu.create_child_subgraph()
    dpu.set_attrs(
        {
            "dpu_fingerprint": 0x101000056010407,
            "mc_code": bytes(range(256)),
            "reg_id_to_parameter_value": {"REG_0": b"\0\1", "REG_1": b""},
            "reg_id_to_size": {"REG_0": 2},
            "empty": [],
        }
    )
    return graph


@pytest.mark.parametrize("name", ["dpu_mnist_classifier", "tf2_custom_op", "VoxelNet_int"])
def test_amds_files_are_written_back_as_they_were(models, tmp_path, name):
    source = models / "amd_compiled" / f"{name}.xmodel"
    xir.Graph.deserialize(source).serialize(tmp_path / "copy.xmodel")
    expected = proto.Graph.FromString(source.read_bytes())
    assert expected == proto.Graph.FromString((tmp_path / "copy.xmodel").read_bytes())
    assert len(expected.op_node) > 10


def test_ours_survives():
    graph = sample()
    again = xir.Graph.from_bytes(graph.to_bytes())
    assert again.to_bytes() == graph.to_bytes()
    assert again.get_name() == "sample"
    assert again.get_attrs() == {"origin": "test"}
    relu = again.get_op("relu")
    assert not relu.has_attr("__private")
    assert relu.get_output_tensor().name == "relu_out"
    assert relu.get_output_tensor().get_attr("fix_point") == -3
    assert [op.get_name() for op in relu.get_fanout_ops()] == ["mine"]
    dpu, other = again.get_root_subgraph().get_children()
    assert dpu.get_attrs() == graph.get_root_subgraph().get_children()[0].get_attrs()
    assert dpu.get_attr_kind("dpu_fingerprint") == "uint64"
    assert [child.get_name() for child in dpu.get_children()] == ["subgraph_x", "subgraph_relu"]
    assert other.is_leaf


def test_definitions_and_every_argument_are_written():
    graph = xir.Graph("g")
    x = graph.create_op("x", "data", {"shape": [1, 2, 2, 1], "data_type": "FLOAT32"})
    weights = graph.create_const_op("w", np.ones((1, 1, 1, 1), np.float32))
    attrs = {"kernel": [1, 1], "stride": [1, 1], "pad_mode": "FLOOR"}
    graph.create_op("c", "conv2d", attrs, {"input": [x], "weights": [weights]})
    message = proto.Graph.FromString(graph.to_bytes())
    assert len(message.op_defs) == 106
    args = {arg.arg_name: list(arg.arg_ops) for arg in message.op_node[2].args}
    assert args == {"input": ["x"], "weights": ["w"], "bias": []}
    defined = {
        definition.name for definition in proto.Graph.FromString(sample().to_bytes()).op_defs
    }
    assert "Mine" in defined


def test_the_same_graph_gives_the_same_bytes():
    assert sample().to_bytes() == sample().to_bytes()


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    target = tmp_path / "out.xmodel"
    target.write_bytes(b"before")

    def fail(*_args: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(pathlib.Path, "replace", fail)
    with pytest.raises(OutputError, match=r"out\.xmodel cannot be written: disk full"):
        sample().serialize(target)
    with pytest.raises(OutputError, match=r"none/a\.xmodel cannot be written: No such file"):
        sample().serialize(tmp_path / "none" / "a.xmodel")
    assert [path.name for path in tmp_path.iterdir()] == ["out.xmodel"]
    assert target.read_bytes() == b"before"


def write(tmp_path: pathlib.Path, data: bytes) -> pathlib.Path:
    path = tmp_path / "broken.xmodel"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04" + bytes(100), "its 104 bytes are no protobuf graph"),
        (b"\x7fELF" + b"\xff" * 60, "are no protobuf graph"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", "git lfs pull"),
        (b"hello world, this is text", "not an .xmodel"),
        (proto.Tensor(tensor_name="t").SerializeToString(), "0 ops and no root subgraph"),
    ],
)
def test_files_that_are_no_graph(tmp_path, data, message):
    path = write(tmp_path, data)
    with pytest.raises(ModelFormatError, match=message) as raised:
        xir.Graph.deserialize(path)
    assert str(path) in str(raised.value)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(ModelFormatError, match=r"none\.xmodel: cannot be read: No such file"):
        xir.Graph.deserialize(tmp_path / "none.xmodel")
    with pytest.raises(ModelFormatError, match="cannot be read: Is a directory"):
        xir.Graph.deserialize(tmp_path)


def test_truncation_is_reported_or_costs_no_op(tmp_path):
    message = proto.Graph.FromString(sample().to_bytes())
    message.ClearField("op_defs")
    data = message.SerializeToString(deterministic=True)
    accepted = 0
    for length in range(len(data)):
        path = write(tmp_path, data[:length])
        try:
            graph = xir.Graph.deserialize(path)
        except ModelFormatError as error:
            assert str(path) in str(error)
        else:  # cut between two messages, after the last op
            accepted += 1
            found = proto.Graph.FromString(graph.to_bytes())
            assert found.op_node == message.op_node
            assert found.subg_root == message.subg_root
    assert accepted == 1


def test_flipped_bytes_are_reported_or_harmless(rng, tmp_path):
    data = bytearray(sample().to_bytes()[:600])
    data += sample().to_bytes()[600:]
    for position in rng.integers(0, len(data), 300):
        broken = bytearray(data)
        broken[position] ^= 1 << int(rng.integers(8))
        with contextlib.suppress(ModelFormatError, GraphError):  # anything else is our bug
            xir.Graph.deserialize(write(tmp_path, bytes(broken))).to_bytes()


def edited(change) -> bytes:
    message = proto.Graph.FromString(sample().to_bytes())
    change(message)
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.op_node[1].args[0].arg_ops.append("ghost"), "input 'ghost' does not precede"),
        (lambda g: setattr(g.op_node[1], "op_name", "x"), r"op 'x' \(relu\): the name is empty or"),
        (lambda g: setattr(g.op_node[0].output_tensor, "data_type", 9), "data type is 9, but must"),
        (lambda g: g.subg_root.op_name.append("x"), "subgraph 'root' holds both ops and subgraphs"),
        (lambda g: g.subg_root.subg_child[1].op_name.append("ghost"), "op 'ghost' is unknown or"),
        (lambda g: g.subg_root.subg_child[1].op_name.append("x"), "op 'x' is in two subgraphs"),
        (lambda g: g.subg_root.subg_child.pop(), "op 'mine' is in no subgraph"),
        (lambda g: setattr(g.op_defs[0].input_args[0], "data_type", 77), "op definition"),
    ],
)
def test_graphs_that_do_not_hold_together(tmp_path, change, message):
    with pytest.raises(ModelFormatError, match=message) as raised:
        xir.Graph.deserialize(write(tmp_path, edited(change)))
    assert "broken.xmodel: corrupt: " in str(raised.value)


def test_a_graph_without_ops(tmp_path):
    graph = xir.Graph("none yet")
    graph.serialize(str(tmp_path / "empty.xmodel"))
    found = xir.Graph.deserialize(str(tmp_path / "empty.xmodel"))
    assert (found.get_name(), found.get_ops()) == ("none yet", [])
    assert not found.get_root_subgraph().get_children()


@pytest.mark.parametrize(
    ("where", "key", "value", "kind", "message"),
    [
        ("tensor", "fix_point", 1.5, "double", "is of type double, but must be int32 or uint32 or"),
        ("tensor", "ddr_addr", 1 << 40, "int64", "is 1099511627776, but must fit 32 bits"),
        ("tensor", "stride", ["a"], "string_vec", "is of type string_vec, but must be int32_vec"),
        ("subgraph", "mc_code", True, "bool", "is of type bool, but must be bytes"),
        ("subgraph", "dpu_fingerprint", "B64", "string", "is of type string, but must be int32"),
        ("subgraph", "reg_id_to_parameter_value", "", "string", "is of type string, but mus"),
        ("graph", "return_ops", 1, "int32", "is of type int32, but must be string_vec"),
    ],
)
def test_attributes_that_programs_rely_on_have_their_types(where, key, value, kind, message):
    """Found by fuzzing: they are looked at far from where the file is read."""
    graph = sample()
    owners = {
        "tensor": graph.get_op("relu").get_output_tensor(), "graph": graph,
        "subgraph": graph.get_root_subgraph().get_children()[0],
    }  # fmt: skip
    owners[where].set_attr(key, value, kind)
    with pytest.raises(ModelFormatError, match=f"corrupt: .* attribute '{key}' {message}"):
        xir.Graph.from_bytes(graph.to_bytes())
