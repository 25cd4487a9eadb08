# SPDX-License-Identifier: Apache-2.0
"""Sizes that a session has for a model's inputs, and what batches may be, in either session."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import opendpu.onnxruntime
from opendpu.onnxruntime import PROVIDER
from opendpu.onnxruntime.registration import RegisteredSession
from opendpu_arch.errors import DPUError

pytestmark = pytest.mark.usefixtures("registered")
FLOAT = TensorProto.FLOAT
Make = Callable[..., pathlib.Path]


@pytest.fixture
def make(tmp_path: pathlib.Path) -> Make:
    """Return what writes two convolutions and more, the scores of each sample its first result."""

    def made(
        shape: Sequence[int | str], nodes: Sequence[onnx.NodeProto] = (),
        inputs: Sequence[onnx.ValueInfoProto] = (), outputs: Sequence[onnx.ValueInfoProto] = (),
    ) -> pathlib.Path:  # fmt: skip
        rng = np.random.default_rng(7)
        weights = {"w1": (8, 3, 3, 3), "w2": (8, 8, 3, 3)}
        own = [
            helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("ReduceMean", ["c"], ["scores"], axes=[2, 3], keepdims=0),
        ]
        graph = helper.make_graph(
            [*own, *nodes], "sized",
            [helper.make_tensor_value_info("x", FLOAT, shape), *inputs],
            [helper.make_tensor_value_info("scores", FLOAT, [shape[0], 8]), *outputs],
            [
                numpy_helper.from_array(rng.normal(0.02, 0.3, s).astype(np.float32), n)
                for n, s in weights.items()
            ],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(model, tmp_path / "sized.onnx")
        data = {"x": images(12)} | {one.name: np.full(12, 2, np.int64) for one in inputs}
        np.savez(tmp_path / "data.npz", **data)
        return tmp_path / "sized.onnx"

    return made


def images(count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 1, (count, 3, 8, 8)).astype(np.float32)


@pytest.fixture(params=["stock", "ours"])
def opened(
    request: pytest.FixtureRequest, options: dict[str, str], tmp_path: pathlib.Path
) -> Callable[..., Any]:
    """Return what opens a float model, calibrated, in a session."""
    kinds = {"stock": RegisteredSession, "ours": opendpu.onnxruntime.InferenceSession}
    options["calibration"] = str(tmp_path / "data.npz")
    return lambda path, settings=None: kinds[request.param](
        str(path), settings, [PROVIDER], [options]
    )


def check(session: Any, path: pathlib.Path, feeds: dict[str, np.ndarray]) -> None:
    wanted = onnxruntime.InferenceSession(path).run(None, feeds)
    for one, other in zip(session.run(None, feeds), wanted, strict=True):
        assert one.shape == other.shape
        assert 0 < ((one - other) ** 2).sum() < (other**2).sum() / 100  # computed by the DPU


def test_sizes_by_name(make: Make, opened: Callable[..., Any]) -> None:
    path = make(["N", 3, "height", "width"])
    settings = onnxruntime.SessionOptions()
    settings.add_free_dimension_override_by_name("height", 8)
    settings.add_free_dimension_override_by_name("width", 8)
    session = opened(path, settings)
    for count in (1, 3):
        check(session, path, {"x": images(count)})


def test_sizes_that_nobody_gives(
    make: Make, opened: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    path = make(["N", 3, "height", "width"])
    found = opened(path).run(None, {"x": images(2)})
    wanted = onnxruntime.InferenceSession(path).run(None, {"x": images(2)})
    np.testing.assert_array_equal(found[0], wanted[0])  # the CPU's
    assert "stays on the CPU" in caplog.text
    assert "add_free_dimension_override_by_name" in caplog.text
    assert "--input-shape" not in caplog.text


def test_nothing_for_the_dpu(
    make: Make, opened: Callable[..., Any], caplog: pytest.LogCaptureFixture,
    tmp_path: pathlib.Path,
) -> None:  # fmt: skip
    node = helper.make_node("Exp", ["x"], ["y"])
    shape = ["N", 3, 8, 8]
    graph = helper.make_graph(
        [node], "none", [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, shape)],
    )  # fmt: skip
    make(shape)  # its samples
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), tmp_path / "none.onnx")
    (found,) = opened(tmp_path / "none.onnx").run(None, {"x": images(1)})
    np.testing.assert_allclose(found, np.exp(images(1)), rtol=1e-5)
    assert "the DPU computes nothing of the model" in caplog.text


def test_a_number_beside_several_samples(make: Make, opened: Callable[..., Any]) -> None:
    path = make(
        ["N", 3, 8, 8],
        [
            helper.make_node("Cast", ["factor"], ["real"], to=FLOAT),
            helper.make_node("Mul", ["scores", "real"], ["scaled"]),
        ],
        [helper.make_tensor_value_info("factor", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("scaled", FLOAT, ["N", 8])],
    )
    session = opened(path)
    for count in (1, 3):
        check(session, path, {"x": images(count), "factor": np.array(2, np.int64)})


def test_a_batch_that_is_mixed(make: Make, opened: Callable[..., Any]) -> None:
    path = make(
        ["N", 3, 8, 8],
        [helper.make_node("ReduceMax", ["scores"], ["best"], axes=[0], keepdims=1)],
        outputs=[helper.make_tensor_value_info("best", FLOAT, [1, 8])],
    )
    for _ in range(2):  # compiled, then from the cache
        session = opened(path)
        check(session, path, {"x": images(1)})
        with pytest.raises(Exception, match=r"'x' holds 3 samples, but the model's results for"):
            session.run(None, {"x": images(3)})


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 3, 9, 8), (1, 3, 8)])
def test_arrays_of_other_shapes(
    shape: tuple[int, ...], make: Make, options: dict[str, str], tmp_path: pathlib.Path
) -> None:
    options["calibration"] = str(tmp_path / "data.npz")
    session = opendpu.onnxruntime.InferenceSession(
        make(["N", 3, 8, 8]), None, [PROVIDER], [options]
    )
    with pytest.raises(DPUError, match=r"has shape \[.*\], but must have \[N, 3, 8, 8\]"):
        session.run(None, {"x": np.zeros(shape, np.float32)})


def test_without_the_cpu(make: Make, opened: Callable[..., Any], options: dict[str, str]) -> None:
    path = make(["N", 3, 8, 8])
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    check(opened(path, settings), path, {"x": images(2)})
    del options["calibration"]
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with pytest.raises(Exception, match=r"stays on the CPU|explicitly disabled by the user"):
        opened(path, settings)
