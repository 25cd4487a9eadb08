# SPDX-License-Identifier: Apache-2.0
"""A small network as people bring it: float, quantized, with an open batch."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.onnxruntime.library import compiler
from opendpu.onnxruntime.registration import register
from opendpu.quantize_model import quantize_onnx

SHAPE = (3, 8, 8)


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which warnings were given in this process."""
    monkeypatch.setattr("opendpu.onnxruntime.options._said", set())


@pytest.fixture
def samples() -> np.ndarray:
    return np.random.default_rng(5).normal(0, 1, (12, *SHAPE)).astype(np.float32)


@pytest.fixture
def calibration(samples: np.ndarray, tmp_path: pathlib.Path) -> pathlib.Path:
    np.savez(tmp_path / "samples.npz", x=samples)
    return tmp_path / "samples.npz"


@pytest.fixture
def float_model(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return two convolutions and a classifier: a feature map, logits and a softmax come out."""
    rng = np.random.default_rng(7)
    weights = {
        "w1": rng.normal(0, 0.3, (8, 3, 3, 3)),
        "w2": rng.normal(0, 0.2, (8, 8, 3, 3)),
        "w3": rng.normal(0, 0.3, (10, 8)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["b", "c"], ["d"]),
        helper.make_node("Relu", ["d"], ["map"]),
        helper.make_node("GlobalAveragePool", ["map"], ["f"]),
        helper.make_node("Flatten", ["f"], ["g"]),
        helper.make_node("Gemm", ["g", "w3"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *SHAPE])],
        [
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10]),
            helper.make_tensor_value_info("map", TensorProto.FLOAT, ["N", 8, *SHAPE[1:]]),
        ],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "float.onnx")
    return tmp_path / "float.onnx"


@pytest.fixture
def quantized_model(
    float_model: pathlib.Path, samples: np.ndarray, tmp_path: pathlib.Path
) -> pathlib.Path:
    quantize_onnx(float_model, calibration={"x": samples}, output=tmp_path / "quantized.onnx")
    return tmp_path / "quantized.onnx"


@pytest.fixture
def options(tmp_path: pathlib.Path) -> dict[str, str]:
    return {"target": "B512", "cacheDir": str(tmp_path / "cache"), "cacheKey": "small"}


@pytest.fixture
def registered() -> Iterator[None]:
    """Register the provider; other tests get onnxruntime's own session back."""
    if compiler() is None:
        pytest.skip("the provider's library needs a C compiler")
    names = ("InferenceSession", "SessionOptions", "get_available_providers")
    own = {name: getattr(onnxruntime, name) for name in names}
    register()
    yield
    for name, value in own.items():
        setattr(onnxruntime, name, value)


@pytest.fixture
def check_bound_memory() -> Callable[[Any, np.ndarray], None]:
    """Return what holds both sessions to the same: memory of the program that is bound."""
    return _check_bound_memory


def _check_bound_memory(session: Any, samples: np.ndarray) -> None:
    """Bind input ``x`` and output ``map``, run, change the input, run again."""
    expected = session.run(["map", "probabilities"], {"x": samples[:1]})
    image, place = samples[:1].copy(), np.zeros_like(expected[0])
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, image.shape, image.ctypes.data)
    binding.bind_output("map", "cpu", 0, np.float32, place.shape, place.ctypes.data)
    binding.bind_output("probabilities")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(place, expected[0])
    for found, wanted in zip(binding.copy_outputs_to_cpu(), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    image[:] = samples[1:2]  # the memory counts, when the session runs
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(place, session.run(["map"], {"x": samples[1:2]})[0])
