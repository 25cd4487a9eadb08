# SPDX-License-Identifier: Apache-2.0
"""Scales that move from activations into weights: the model computes the same, and rounds less."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType

import vai_q_onnx
from opendpu.frontend.model_file import read_model
from opendpu_arch.errors import UnsupportedError
from vai_q_onnx.smoothing import smoothed

FLOAT = onnx.TensorProto.FLOAT


@pytest.fixture
def values(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Constants of :func:`model`; the fourth channel of the normalization is far larger."""
    shapes = {"scale": 64, "shift": 64, "w1": (64, 256), "c1": 256, "w2": (256, 32), "wg": (8, 64)}
    found = {n: rng.normal(0, 0.3, shape).astype(np.float32) for n, shape in shapes.items()}
    found["scale"] = np.float32(1) + found["scale"]
    found["scale"][3] = 60
    return found


def model(values: dict[str, np.ndarray], extra: tuple[str, ...] = ()) -> onnx.ModelProto:
    """Return a block of a transformer: two products, and one with its weights the other way."""
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["n"], axis=-1),
        helper.make_node("MatMul", ["n", "w1"], ["p"]),
        helper.make_node("Add", ["p", "c1"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["y"]),
        helper.make_node("Reshape", ["n", "rows"], ["flat"]),
        helper.make_node("Gemm", ["flat", "wg"], ["z"], transB=1),
    ]  # fmt: skip
    if not extra:
        nodes = nodes[:5]
    outputs = {"y": [1, 96, 32], "z": [96, 8], "n": [1, 96, 64]}
    graph = helper.make_graph(
        nodes, "block", [helper.make_tensor_value_info("x", FLOAT, [1, 96, 64])],
        [helper.make_tensor_value_info(n, FLOAT, outputs[n]) for n in ("y", *extra)],
        [numpy_helper.from_array(v, n) for n, v in values.items()]
        + [numpy_helper.from_array(np.array([96, 64]), "rows")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def results(proto: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    run = onnxruntime.InferenceSession(proto.SerializeToString())
    return [np.asarray(one) for one in run.run(None, {"x": x})]


def assert_same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Sums of floats in another order differ by parts of the largest addends."""
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * float(np.abs(wanted).max()))


def test_it_computes_the_same(values: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    before = model(values)
    batches = [{"x": rng.normal(0, 1, (1, 96, 64)).astype(np.float32)} for _ in range(4)]
    after, count = smoothed(read_model(before), batches, 0.5)
    assert count == 2  # behind the normalization, and behind ReLU
    assert [t.name for t in before.graph.initializer] == [*values, "rows"]
    for batch in batches:
        (wanted,), (found,) = results(before, batch["x"]), results(after.proto, batch["x"])
        assert_same(found, wanted)
    constants = {t.name: numpy_helper.to_array(t) for t in after.proto.graph.initializer}
    scale = np.abs(constants["scale_smoothed"])
    assert scale[3] < 0.3 * 60
    assert scale.max() / np.median(scale) < 10


@pytest.mark.parametrize("extra", [("z",), ("n",)])
def test_what_others_read_stays(
    values: dict[str, np.ndarray], rng: np.random.Generator, extra: tuple[str, ...]
) -> None:
    x = rng.normal(0, 1, (1, 96, 64)).astype(np.float32)
    before = model(values, extra)
    after, count = smoothed(read_model(before), [{"x": x}], 0.5)
    assert count == 1  # behind ReLU; the normalization is reshaped, or an output
    for wanted, found in zip(results(before, x), results(after.proto, x), strict=True):
        assert_same(found, wanted)


class Reader:
    """Calibration data."""

    def __init__(self, arrays: np.ndarray) -> None:
        self._left = iter(arrays)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next sample."""
        one = next(self._left, None)
        return None if one is None else {"x": one[np.newaxis]}


def test_fewer_errors(
    values: dict[str, np.ndarray], rng: np.random.Generator, tmp_path: pytest.TempPathFactory
) -> None:
    x = rng.normal(0, 1, (8, 96, 64)).astype(np.float32)
    noise = {}
    for option in ({}, {"include_sq": True}):
        vai_q_onnx.quantize_static(
            model(values), tmp_path / "q.onnx", Reader(x), quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8, **option,
        )  # fmt: skip
        found = onnx.load(tmp_path / "q.onnx")
        pairs = [(results(model(values), one[None])[0], results(found, one[None])[0]) for one in x]
        noise[bool(option)] = sum(float(np.square(a - b).sum()) for a, b in pairs)
    assert noise[True] < 0.5 * noise[False]


def test_what_is_refused(values: dict[str, np.ndarray], tmp_path: pytest.TempPathFactory) -> None:
    for alpha in (1.5, "0.5", True):
        with pytest.raises(UnsupportedError, match=f"SmoothAlpha is {alpha!r}, but must be a num"):
            vai_q_onnx.quantize_static(
                model(values), tmp_path / "q.onnx", None, include_sq=True,
                extra_options={"SmoothAlpha": alpha},
            )  # fmt: skip
