# SPDX-License-Identifier: Apache-2.0
"""Quick tests without calibration data, of models that leave sizes open, too."""

import numpy as np
import onnx
import onnxruntime
import pytest
from export_nets import network

import vai_q_onnx
from opendpu.ir import FloatGraph, TensorType
from opendpu_arch.errors import UnsupportedError
from vai_q_onnx.sizes import of_random_data

OPTION = "RandomDataReaderInputShape"


def opened(shape):
    """Return a model that adds an input to itself."""
    sizes = ", ".join(map(str, shape))
    return onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 17]>
        net (float[{sizes}] x, float[2] other) => (float[{sizes}] y) {{ y = Add(x, x) }}""")


@pytest.fixture
def open_model(tmp_path):
    made = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]>
        net (float[n, 3, high, wide] x) => (float[n, 4, a, b] y) { y = Conv(x, w) }""")
    weights = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(made, tmp_path / "open.onnx")
    return str(tmp_path / "open.onnx")


def size_of(path):
    (given,) = onnxruntime.InferenceSession(path).get_inputs()
    return given.shape[1:]


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        (("n", 3, "h", "w"), (1, 3, 32, 32)), (("n", "c", "h", "w"), (1, 3, 32, 32)),
        (("n", "h", "w", 3), (1, 32, 32, 3)), (("n", "h", 8, 1), (1, 32, 8, 1)),
        (("n", "c", 8, 64), (1, 3, 8, 64)), (("n", "length"), (1, 16)),
        (("n", "length", 40), (1, 1, 40)),
    ],
)  # fmt: skip
def test_sizes_are_those_of_a_small_picture(shape, wanted):
    with pytest.warns(UserWarning, match=f"become x: .*{OPTION}"):
        assert of_random_data(opened(shape), None) == {"x": wanted}


def test_an_open_batch_is_no_question():
    assert of_random_data(opened(("n", 3, 8, 8)), None) == {}


def test_a_model_with_open_sizes(open_model, tmp_path):
    path = str(tmp_path / "q.onnx")
    with pytest.warns(UserWarning, match=r"become x: \[1, 3, 32, 32\]"):
        report = vai_q_onnx.quantize_static(open_model, path, None)
    assert report.samples == 16
    assert size_of(path) == [3, 32, 32]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"extra_options": {OPTION: {"x": [-1, 3, 8, 16]}}}, [3, 8, 16]),
        ({"random_data_reader_input_shape": [1, 3, 12, 8]}, [3, 12, 8]),
        ({"random_data_reader_input_shape": ((1, 3, 12, 9),)}, [3, 12, 9]),
    ],
)
def test_sizes_that_are_asked_for(open_model, tmp_path, given, wanted):
    path = str(tmp_path / "q.onnx")
    vai_q_onnx.quantize_static(open_model, path, None, **given)
    assert size_of(path) == wanted


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"y": [1, 3, 8, 8]},
            "names 'y', which is no input of the model; its inputs are: x, other",
        ),
        ({"x": [1, 3, 8]}, "must be 4 sizes, of which only the batch"),
        ({"x": [1, 3, 8, 0]}, "must be 4 sizes, of which only the batch"),
        ({"x": [1, 3, "h", 8]}, "must be 4 sizes, of which only the batch"),
        ("1,3,8,8", "must be a dict of shapes by input, or as many shapes"),
        ([[1, 3, 8, 8], [2], [2]], "must be a dict of shapes by input, or as many shapes"),
    ],
)
def test_shapes_that_are_none(given, text):
    with pytest.raises(UnsupportedError, match=text):
        of_random_data(opened(("n", 3, "h", "w")), given)


def test_ranges(open_model, tmp_path):
    graph = FloatGraph("net")
    graph.add("x", "data", (1, 4, 4, 8))
    graph.add("token", "data", TensorType((1, 64), np.dtype(np.int64)))
    graph.add("mask", "data", TensorType((1, 64), np.dtype(np.int64)))
    reader = vai_q_onnx.RandomDataReader(graph, ranges={"x": (2, 3), "token": (5, 7)})
    batch = reader.get_next()
    assert batch["x"].min() >= 2
    assert batch["x"].max() <= 3
    assert set(batch["token"].ravel().tolist()) == {5, 6, 7}
    assert not batch["mask"].any()
    for wrong in ({"z": (0, 1)}, {"x": (1, 0)}, {"x": (1,)}):
        with pytest.raises(UnsupportedError, match="the least and the largest value of an input"):
            vai_q_onnx.RandomDataReader(graph, ranges=wrong)
    options = {OPTION: {"x": [1, 3, 8, 8]}, "RandomDataReaderInputDataRange": {"x": [0, 1]}}
    report = vai_q_onnx.quantize_static(
        open_model, str(tmp_path / "q.onnx"), None, extra_options=options
    )
    (given,) = [tensor for tensor in report.tensors if tensor.role == "input"]
    assert given.minimum >= 0
    assert 0.9 < given.maximum <= 1


def test_a_dump_with_the_argument_of_amds_manual(tmp_path):
    onnx.save(network("average"), tmp_path / "model.onnx")
    path = tmp_path / "q.onnx"
    vai_q_onnx.quantize_static(tmp_path / "model.onnx", path, None)
    vai_q_onnx.dump_model(
        path, dump_data_reader=None, random_data_reader_input_shape=[], dump_float=False,
        output_dir=str(tmp_path / "dump"),
    )  # fmt: skip
    assert list((tmp_path / "dump").glob("*.bin"))


def test_arguments_of_a_script_that_names_all(open_model, tmp_path, recwarn):
    vai_q_onnx.quantize_static(
        open_model, str(tmp_path / "q.onnx"), calibration_data_reader=None, input_nodes=[],
        output_nodes=[], op_types_to_quantize=[], random_data_reader_input_shape=[1, 3, 8, 8],
        nodes_to_quantize=None, nodes_to_exclude=None, optimize_model=True,
        execution_providers=["CPUExecutionProvider"], convert_fp16_to_fp32=False,
        include_cle=False, enable_dpu=True, enable_npu_cnn=True,
        extra_options={"ActivationSymmetric": True},
    )  # fmt: skip
    assert not recwarn.list
