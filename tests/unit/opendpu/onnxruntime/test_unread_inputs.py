# SPDX-License-Identifier: Apache-2.0
"""Inputs of a model that nothing in it reads: callers give them, as they give them to the model."""

import pathlib

import numpy as np
import onnx
import pytest

from opendpu import api
from opendpu.onnxruntime import PROVIDER, InferenceSession
from opendpu.onnxruntime.registration import RegisteredSession
from opendpu.runtime import GraphRunner
from opendpu_arch.errors import TensorError

LENGTH = np.int64([6])


@pytest.fixture
def unread(float_model: pathlib.Path) -> pathlib.Path:
    """Return the network with an input more, the lengths of its samples."""
    model = onnx.load(float_model)
    length = onnx.helper.make_tensor_value_info("length", onnx.TensorProto.INT64, ["N"])
    model.graph.input.append(length)
    onnx.save(model, float_model)
    return float_model


@pytest.fixture
def calibration(samples: np.ndarray, tmp_path: pathlib.Path) -> pathlib.Path:
    np.savez(tmp_path / "both.npz", x=samples, length=np.tile(LENGTH, len(samples)))
    return tmp_path / "both.npz"


@pytest.mark.parametrize("stock", [False, True])
def test_sessions_take_them(stock, unread, calibration, samples, options, request) -> None:
    if stock:
        request.getfixturevalue("registered")
    kind = RegisteredSession if stock else InferenceSession
    given = {**options, "calibration": str(calibration)}
    session = kind(str(unread), providers=[PROVIDER], provider_options=[given])
    assert session.get_providers()[0] == PROVIDER
    assert [item.name for item in session.get_inputs()] == ["x", "length"]
    one = session.run(["map"], {"x": samples[:1], "length": LENGTH})[0]
    two = session.run(["map"], {"x": samples[:1], "length": LENGTH + 1})[0]
    assert one.any()
    np.testing.assert_array_equal(one, two)


def test_runners_have_them_and_need_not_be_given_them(
    unread, calibration, samples, tmp_path
) -> None:
    output = tmp_path / "out.xmodel"
    api.compile_onnx(unread, calibration=dict(np.load(calibration)), target="B512", output=output)
    x = np.ascontiguousarray(samples[:1].transpose(0, 2, 3, 1))
    with GraphRunner(api.load(output), device="ref") as runner:
        assert [tensor.name for tensor in runner.get_input_tensors()] == ["length", "x"]
        assert runner.optional_inputs == {"length"}
        both, one = runner.run({"x": x, "length": LENGTH}), runner.run({"x": x})
        assert all((both[name] == one[name]).all() for name in both)
        with pytest.raises(TensorError, match="input 'x' is missing"):
            runner.run({"length": LENGTH})
