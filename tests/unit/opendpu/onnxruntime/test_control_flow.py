# SPDX-License-Identifier: Apache-2.0
"""Networks of two stages in a stock onnxruntime: loops over regions, branches, open sizes."""

import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import opendpu.onnxruntime
from opendpu.onnxruntime.abi import Api
from opendpu.onnxruntime.options import PROVIDER
from opendpu.onnxruntime.registration import RegisteredSession
from opendpu.quantize_model import quantize_onnx
from opendpu_arch.errors import TensorError

pytestmark = pytest.mark.usefixtures("registered")

SHAPE = [1, 8, 8, 8]


def value(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def region_loop():
    """Return the body of a loop: the mean of two rows, as far down as the round's number."""
    nodes = [
        helper.make_node("Identity", ["again"], ["more"]),
        helper.make_node("Unsqueeze", ["round", "first_axis"], ["top"]),
        helper.make_node("Add", ["top", "height"], ["bottom"]),
        helper.make_node("Slice", ["features", "top", "bottom", "row_axis"], ["region"]),
        helper.make_node("ReduceMean", ["region"], ["seen"], axes=[2, 3], keepdims=0),
    ]
    inputs = [value("round", [], TensorProto.INT64), value("again", [], TensorProto.BOOL)]
    outputs = [value("more", [], TensorProto.BOOL), value("seen", [1, 8])]
    return helper.make_graph(nodes, "regions", inputs, outputs)


def branch(name, *nodes):
    return helper.make_graph(nodes, name, [], [value(nodes[-1].output[0], SHAPE)])


@pytest.fixture
def two_stages(samples, tmp_path):
    """Return a file: convolutions, a loop over regions, a branch on a score, places that count."""
    rng = np.random.default_rng(3)
    weights = {
        "w1": rng.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32),
        "w2": rng.normal(0, 0.2, (8, 8, 3, 3)).astype(np.float32),
        "w3": rng.normal(0, 0.2, (8, 8, 3, 3)).astype(np.float32),
        "rounds": np.array(3), "yes": np.array(True), "height": np.array([2]),
        "first_axis": np.array([0]), "row_axis": np.array([2]), "zero": np.float32(0),
        "enough": np.float32(0.5),
    }  # fmt: skip
    conv = {"pads": [1, 1, 1, 1]}
    black = branch(
        "black", helper.make_node("Shape", ["second"], ["size"]),
        helper.make_node("ConstantOfShape", ["size"], ["nothing"]),
    )  # fmt: skip
    seen = branch("seen", helper.make_node("Identity", ["second"], ["something"]))
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], **conv),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["features"], **conv),
        helper.make_node("Loop", ["rounds", "yes"], ["regions"], body=region_loop()),
        helper.make_node("Conv", ["features", "w3"], ["second"], **conv),
        helper.make_node("ReduceMean", ["second"], ["score"], keepdims=0),
        helper.make_node("Less", ["score", "enough"], ["unsure"]),
        helper.make_node("If", ["unsure"], ["map"], then_branch=black, else_branch=seen),
        helper.make_node("Greater", ["second", "zero"], ["bright"]),
        helper.make_node("NonZero", ["bright"], ["places"]),
    ]
    outputs = [
        value("map", SHAPE), value("regions", ["rounds", 1, 8]),
        value("places", [4, "found"], TensorProto.INT64),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "two", [value("x", [1, 3, 8, 8])], outputs,
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "two_float.onnx")
    path = tmp_path / "two.onnx"
    quantize_onnx(tmp_path / "two_float.onnx", calibration={"x": samples}, output=path)
    return path


@pytest.mark.parametrize("knows_parents", [True, False])
@pytest.mark.parametrize("read", [str, pathlib.Path.read_bytes])
def test_two_stages_run(two_stages, samples, options, read, knows_parents, monkeypatch):
    """Loop and branch run with the rest; outputs are as large as onnxruntime's own.

    onnxruntime 1.23 does not say whose body a graph is.
    """
    pointer = Api.pointer

    def parentless(self, function, *arguments):
        return None if function == "Graph_GetParentNode" else pointer(self, function, *arguments)

    if not knows_parents:
        monkeypatch.setattr(Api, "pointer", parentless)
    model = read(two_stages)
    session = RegisteredSession(model, providers=[(PROVIDER, options)])
    assert session.get_providers()[0] == PROVIDER
    other = opendpu.onnxruntime.InferenceSession(model, providers=[(PROVIDER, options)])
    own = onnxruntime.InferenceSession(str(two_stages), providers=["CPUExecutionProvider"])
    branches = set()
    for sample in samples[:4]:
        feeds = {"x": sample[None]}
        found, again = session.run(None, feeds), other.run(None, feeds)
        for array, same, wanted in zip(found, again, own.run(None, feeds), strict=True):
            np.testing.assert_array_equal(array, same)
            np.testing.assert_array_equal(array, wanted)
        assert found[1].shape == (3, 1, 8)
        branches.add(bool(found[0].any()))
    assert branches == {True, False}


def test_sizes_that_are_open_stay_open_in_the_quantized_file(two_stages):
    graph = onnx.load(two_stages).graph
    dims = {item.name: item.type.tensor_type.shape.dim for item in graph.output}
    assert [dim.dim_value or dim.dim_param for dim in dims["regions"]] == ["regions_0", 1, 8]
    assert [dim.dim_value or dim.dim_param for dim in dims["places"]] == [4, "places_1"]


def test_several_samples_at_a_time_are_refused(two_stages, samples, options):
    session = opendpu.onnxruntime.InferenceSession(str(two_stages), providers=[(PROVIDER, options)])
    with pytest.raises(TensorError, match="give one at a time"):
        session.run(None, {"x": samples[:2]})
