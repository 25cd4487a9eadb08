# SPDX-License-Identifier: Apache-2.0
"""A model with an open batch is one when it is quantized, too."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import vai_q_onnx
from opendpu.quantize_model import quantize_onnx

SHAPE = (3, 6, 6)


class Reader:
    """Gives samples, several at a time."""

    def __init__(self, samples, count):
        self._batches = iter([{"x": batch} for batch in np.split(samples, len(samples) // count)])

    def get_next(self):
        return next(self._batches, None)


@pytest.fixture
def samples(rng):
    return rng.standard_normal((8, *SHAPE)).astype(np.float32)


@pytest.fixture
def write(tmp_path, rng):
    """Return what writes a classifier whose batch is of some size."""
    weights = {"w": rng.normal(0, 0.3, (4, 3, 3, 3)), "v": rng.normal(0, 0.3, (5, 64))}

    def made(batch, axis=1):
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["a"], name="conv"),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Flatten", ["b"], ["f"]),
            helper.make_node("Gemm", ["f", "v"], ["g"], transB=1),
            helper.make_node("Softmax", ["g"], ["y"], axis=axis),
        ]
        ports = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, *shape])
            for name, shape in (("x", SHAPE), ("y", (5,)))
        ]
        graph = helper.make_graph(
            nodes, "net", ports[:1], ports[1:],
            [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
        )  # fmt: skip
        path = tmp_path / "float.onnx"
        opset = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
        return path

    return made


def static(source, target, samples, form="QDQ"):
    vai_q_onnx.quantize_static(
        str(source), str(target), Reader(samples, 2),
        quant_format=getattr(vai_q_onnx.QuantFormat, form),
        calibrate_method=vai_q_onnx.PowerOfTwoMethod.MinMSE,
        activation_type=vai_q_onnx.QuantType.QInt8, weight_type=vai_q_onnx.QuantType.QInt8,
    )  # fmt: skip


def ours(source, target, samples, **settings):
    quantize_onnx(source, calibration={"x": samples}, output=target, **settings)


def sizes(path):
    graph = onnx.load(path).graph
    return [
        [dim.dim_value or dim.dim_param for dim in item.type.tensor_type.shape.dim]
        for item in (*graph.input, *graph.output)
    ]


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", ["samples", ""])
def test_any_number_of_samples(form, name, write, samples, tmp_path):
    target = tmp_path / "quantized.onnx"
    static(write(name or None), target, samples, form)
    assert sizes(target) == [[name or "N", *SHAPE], [name or "N", 5]]
    check(target, samples)


def check(path, samples):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (whole,) = session.run(None, {"x": samples})
    apart = [session.run(None, {"x": one[None]})[0] for one in samples]
    np.testing.assert_array_equal(whole, np.concatenate(apart))
    assert len(np.unique(whole)) > 10


def test_of_the_command(write, samples, tmp_path):
    target = tmp_path / "quantized.onnx"
    ours(write("n"), target, samples)
    assert sizes(target) == [["n", *SHAPE], ["n", 5]]
    check(target, samples)
    again = tmp_path / "again.onnx"
    quantize_onnx(target, output=again, form="vai")
    assert sizes(again)[0][0] == "n"


@pytest.mark.parametrize("given", [{"x": (1, *SHAPE)}, {"n": 1}])
def test_a_batch_that_the_user_gives_is_none(given, write, samples, tmp_path):
    target = tmp_path / "quantized.onnx"
    ours(write("n"), target, samples, input_shapes=given)
    assert sizes(target)[0][0] == 1


@pytest.mark.parametrize("quantize", [static, ours])
@pytest.mark.parametrize(("batch", "axis"), [(1, 1), ("n", 0)])
def test_a_batch_that_is_fixed_or_mixed_is_one(quantize, batch, axis, write, samples, tmp_path):
    target = tmp_path / "quantized.onnx"
    quantize(write(batch, axis), target, samples)
    assert sizes(target) == [[1, *SHAPE], [1, 5]]
