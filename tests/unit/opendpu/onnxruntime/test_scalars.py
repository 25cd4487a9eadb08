# SPDX-License-Identifier: Apache-2.0
"""Inputs and results without axes (numbers): they have none in either session."""

import pathlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import opendpu.onnxruntime
from opendpu.onnxruntime import PROVIDER
from opendpu.onnxruntime.registration import RegisteredSession
from opendpu.quantize_model import quantize_onnx

SHAPE = (1, 3, 8, 8)


@pytest.fixture
def scored(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return two convolutions: a map times a number, its mean and where it is largest come out."""
    rng = np.random.default_rng(7)
    weights = {"w1": (8, 3, 3, 3), "w2": (8, 8, 3, 3)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Mul", ["c", "factor"], ["map"]),
        helper.make_node("ReduceMean", ["c"], ["mean"], keepdims=0),
        helper.make_node("Flatten", ["c"], ["flat"]),
        helper.make_node("ArgMax", ["flat"], ["largest"], axis=1, keepdims=0),
        helper.make_node("Squeeze", ["largest"], ["which"]),
    ]
    number = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "scored",
        [
            helper.make_tensor_value_info("x", number, SHAPE),
            helper.make_tensor_value_info("factor", number, []),
        ],
        [
            helper.make_tensor_value_info("map", number, (1, 8, 8, 8)),
            helper.make_tensor_value_info("mean", number, []),
            helper.make_tensor_value_info("which", TensorProto.INT64, []),
        ],
        [
            numpy_helper.from_array(rng.normal(0.02, 0.3, s).astype(np.float32), n)
            for n, s in weights.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "float.onnx")
    data = {
        "x": rng.normal(0, 1, (12, *SHAPE[1:])).astype(np.float32),
        "factor": np.linspace(0.5, 2, 12).astype(np.float32),
    }
    quantize_onnx(tmp_path / "float.onnx", calibration=data, output=tmp_path / "quantized.onnx")
    return tmp_path / "quantized.onnx"


FEEDS = {
    "x": np.random.default_rng(3).normal(0, 1, SHAPE).astype(np.float32),
    "factor": np.array(1.5, np.float32),
}


def test_files_keep_them(scored: pathlib.Path) -> None:
    session = onnxruntime.InferenceSession(scored)
    assert [one.shape for one in session.get_inputs()] == [list(SHAPE), []]
    assert [one.shape for one in session.get_outputs()] == [[1, 8, 8, 8], [], []]
    assert [one.shape for one in session.run(None, FEEDS)] == [(1, 8, 8, 8), (), ()]


def check(session: Any, scored: pathlib.Path) -> None:
    """Check that a session gives what the CPU computes, in the same shapes."""
    assert session.get_providers()[0] == PROVIDER
    found = session.run(None, FEEDS)
    wanted = onnxruntime.InferenceSession(scored).run(None, FEEDS)
    assert [one.shape for one in found] == [(1, 8, 8, 8), (), ()]
    assert [one.dtype for one in found] == [one.dtype for one in wanted]
    np.testing.assert_allclose(found[0], wanted[0], atol=0.1)
    np.testing.assert_allclose(found[1], wanted[1], atol=0.01)
    assert found[2] == wanted[2]


def test_in_our_session(scored: pathlib.Path, options: dict[str, str]) -> None:
    for _ in range(2):  # compiled, then from the cache
        made = opendpu.onnxruntime.InferenceSession(scored, None, [PROVIDER], [options])
        check(made, scored)


@pytest.mark.usefixtures("registered")
def test_in_a_stock_session(
    scored: pathlib.Path, options: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    check(RegisteredSession(str(scored), None, [PROVIDER], [options]), scored)
    assert "Expected shape" not in capfd.readouterr().err  # as onnxruntime warns of others
