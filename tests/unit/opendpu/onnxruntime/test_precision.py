# SPDX-License-Identifier: Apache-2.0
"""Networks in half precision through the execution provider."""

import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from opendpu.onnxruntime import PROVIDER, InferenceSession
from opendpu.onnxruntime.registration import RegisteredSession


@pytest.fixture
def half_model(float_model: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return the small network with everything in half precision."""
    proto = onnx.load(float_model)
    for item in proto.graph.initializer:
        halved = numpy_helper.to_array(item).astype(np.float16)
        item.CopyFrom(numpy_helper.from_array(halved, item.name))
    for item in (*proto.graph.input, *proto.graph.output):
        item.type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(proto, tmp_path / "half.onnx")
    return tmp_path / "half.onnx"


@pytest.mark.parametrize("stock", [False, True])
def test_ports_keep_the_types_that_the_file_has(
    half_model: pathlib.Path, samples: np.ndarray, options: dict[str, str],
    tmp_path: pathlib.Path, request: pytest.FixtureRequest, stock: bool,
) -> None:  # fmt: skip
    x = samples.astype(np.float16)
    np.savez(tmp_path / "half.npz", x=x)
    expected = onnxruntime.InferenceSession(str(half_model)).run(["map"], {"x": x[:2]})[0]
    if stock:
        request.getfixturevalue("registered")
    make = RegisteredSession if stock else InferenceSession
    given = {**options, "calibration": str(tmp_path / "half.npz")}
    session = make(str(half_model), providers=[PROVIDER], provider_options=[given])
    assert PROVIDER in session.get_providers()
    assert session.get_inputs()[0].type == "tensor(float16)"
    found = session.run(["map"], {"x": x[:2]})[0]
    assert found.dtype == expected.dtype == np.float16
    noise = np.square(found.astype(float) - expected).sum()
    assert np.square(expected.astype(float)).sum() > 30 * noise
