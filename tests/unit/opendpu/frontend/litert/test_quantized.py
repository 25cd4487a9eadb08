# SPDX-License-Identifier: Apache-2.0
"""TFLite files whose tensors are integers: what they stand for, and other scales for them."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")

from tflite_files import Network, litert, options

from opendpu.api import compile_onnx
from opendpu.frontend.requantizing import Requantize
from opendpu.frontend.tflite import input_ranges, load_tflite
from opendpu.ops.session import Session
from opendpu.quantize import is_quantized
from opendpu.requantization import load_for_inspection, load_for_quantizing
from opendpu_arch.errors import UnsupportedError

SAME = 0


def integers(random, *shape):
    return random.integers(-127, 128, shape).astype(np.int8)


def two_layers(path, scales, zeros, per_channel=False):
    """Write a convolution and a pool in int8, with weights that are always the same."""
    random = np.random.default_rng(5)
    net, (first, middle, weights) = Network(), scales
    x = net.data("x", (1, 6, 6, 3), np.int8, first, zeros[0])
    each = weights * (1 + np.arange(4) / 4) if per_channel else weights
    w = net.const("w", integers(random, 4, 3, 3, 3), each, np.zeros(np.size(each)))
    bias = (2 * random.integers(-250, 250, 4)).astype(np.int32)
    b = net.const("b", bias, first * each, np.zeros(np.size(each)))
    y = net.op("CONV_2D", [x, w, b], ["y"],
               options("Conv2D", padding=SAME, strideH=1, strideW=1, fusedActivationFunction=1),
               dtype=np.int8, scale=middle, zero=zeros[1], shape=(1, 6, 6, 4))  # fmt: skip
    net.op("MAX_POOL_2D", [y], ["z"],
           options("Pool2D", padding=SAME, strideH=2, strideW=2, filterHeight=2, filterWidth=2),
           dtype=np.int8, scale=middle, zero=zeros[1], shape=(1, 3, 3, 4))  # fmt: skip
    return net.write(path, ["z"])


@pytest.fixture
def odd(tmp_path):
    return two_layers(tmp_path / "odd.tflite", (0.013, 0.07, 0.011), (12, -128), per_channel=True)


@pytest.fixture
def even(tmp_path):
    return two_layers(tmp_path / "even.tflite", (2**-6, 2**-4, 2**-7), (0, 0))


def test_powers_of_two_stay_as_they_are(even, rng):
    graph = load_tflite(even)
    assert is_quantized(graph)
    assert sorted(node.fix_point for node in graph if node.kind == "fix") == [4, 4, 6]
    # Even sums only: LiteRT rounds in two steps, and of odd ones just below a half makes one more.
    stored = (2 * rng.integers(-64, 64, (1, 6, 6, 3))).astype(np.int8)
    expected = litert(even, {"x": stored})["z"] * np.float32(2**-4)
    real = (stored * 2.0**-6).astype(np.float32)
    found = Session(graph).run({"x": real})["z"]
    assert expected.any()
    np.testing.assert_array_equal(found, expected)


def test_other_scales_are_refused(odd):
    with pytest.raises(UnsupportedError) as caught:
        load_tflite(odd)
    assert str(caught.value) == (
        f"{odd} is quantized with scales that the DPU does not compute with: 3 of 3 tensors, the "
        "first 'x' (int8, scale 0.013, zero point 12), but the DPU needs int8, one scale that is a "
        "power of two, and zero point 0; --requantize changes the scales and says what that "
        "costs, a float model loses less; a target with the extension scaled computes with them as "
        "they are"
    )


def test_the_float_network_computes_what_the_integers_stand_for(odd, rng):
    graph = load_tflite(odd, requantize=Requantize.DATA)
    assert not is_quantized(graph)
    stored = rng.integers(-128, 128, (1, 6, 6, 3)).astype(np.int8)
    expected = (litert(odd, {"x": stored})["z"] + np.float32(128)) * np.float32(0.07)
    real = ((stored.astype(np.float32) - 12) * 0.013).astype(np.float32)
    found = Session(graph).run({"x": real})["z"]
    assert np.abs(found).max() > 10 * 0.07
    np.testing.assert_allclose(found.clip(0, 255 * 0.07), expected, rtol=0, atol=0.036)


def test_ranges_become_powers_of_two_that_hold_them(odd):
    found = load_for_quantizing(odd, requantize=True, has_samples=False)
    points = {node.name: node.fix_point for node in found.graph if node.kind == "fix"}
    # -1.82 .. 1.5, and 0 .. 17.85
    assert points["x/fix"] == 6
    assert points["y/fix"] == points["z"] == 2
    assert input_ranges(odd)["x"] == pytest.approx((-140 * 0.013, 115 * 0.013))
    (ratio,) = found.report.outputs_sqnr.values()
    assert 15 < ratio < 60
    assert found.report.notes == [
        f"requantized without samples, from the ranges in the file; output z: {ratio:.1f} dB "
        "signal to noise against the file's real numbers, on 16 random inputs (samples do better: "
        "--calib)"
    ]


def test_with_samples_it_is_quantized_anew(odd, tmp_path, rng):
    out = tmp_path / "odd.xmodel"
    samples = {"x": rng.uniform(-1.8, 1.5, (20, 6, 6, 3)).astype(np.float32)}
    report = compile_onnx(odd, calibration=samples, target="B512", output=out, requantize=True)
    assert report.quantization["samples"] == 20
    with pytest.raises(UnsupportedError, match="--requantize changes the scales"):
        compile_onnx(odd, calibration=samples, target="B512", output=out)


def test_activations_of_16_bits_are_refused_where_scales_stay(tmp_path):
    net = Network()
    x = net.data("x", (1, 6), np.int16, 0.01, 0)
    net.op("LOGISTIC", [x], ["y"], dtype=np.int16, scale=2.0**-15, zero=0, shape=(1, 6))
    path = net.write(tmp_path / "wide.tflite", ["y"])
    with pytest.raises(UnsupportedError) as caught:
        load_tflite(path, any_scale=True)
    assert str(caught.value) == (
        f"{path} has 2 of 2 quantized tensors in other integers than a target with the extension "
        "scaled computes with, the first 'x' in int16, but that has int8 and uint8; --requantize "
        "gives them 8 bits, a float model loses less"
    )
    assert is_quantized(load_tflite(path, requantize=Requantize.RANGES))
    found = load_for_quantizing(path, requantize=True, has_samples=False)
    assert {n.quantization.fix_point for n in found.graph if n.kind == "fix"} == {-2, 6}
    _, changed = load_for_inspection(path)
    assert changed


def test_samples_for_a_file_that_keeps_its_scales_are_refused(even, tmp_path):
    samples = {"x": np.zeros((1, 6, 6, 3), np.float32)}
    with pytest.raises(UnsupportedError, match=r"is quantized already: it needs no calibration"):
        compile_onnx(even, calibration=samples, target="B512", output=tmp_path / "e.xmodel")


@pytest.mark.parametrize("mode", ["dequantized", "hybrid"])
def test_weights_in_integers_alone_make_a_float_network(mode, tmp_path, rng):
    net = Network()
    x = net.data("x", (1, 8))
    w = net.const("w", integers(rng, 5, 8), np.full(5, 0.01), np.zeros(5))
    if mode == "dequantized":
        w = net.op("DEQUANTIZE", [net.const("h", rng.standard_normal((5, 8)).astype(np.float16))],
                   ["real"])  # fmt: skip
    net.op("FULLY_CONNECTED", [x, w, net.const("b", np.zeros(5, np.float32))], ["y"],
           options("FullyConnected"))  # fmt: skip
    path = net.write(tmp_path / "weights.tflite", ["y"])
    graph = load_tflite(path)
    assert not is_quantized(graph)
    sample = rng.uniform(-1, 1, (1, 8)).astype(np.float32)
    found = Session(graph).run({"x": sample})["y"]
    expected = litert(path, {"x": sample})["y"]
    largest = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.02 * largest)


def test_keywords_are_heard_as_the_file_hears_them(models):
    path = models / "mlperf_tiny" / "int8" / "kws_dscnn_int8.tflite"
    clips = np.load(models / "mlperf_tiny" / "kws01.npz")
    stored = clips["x"][:60]
    real = ((stored - np.float32(clips["zero_point"])) * clips["scale"]).astype(np.float32)
    expected = [litert(path, {"input_1": one[None]})["Identity"].argmax() for one in stored]
    session = Session(load_for_quantizing(path, requantize=True, has_samples=False).graph)
    found = [session.run({"input_1": one[None]})["Identity"].argmax() for one in real]
    assert np.mean(np.equal(expected, found)) > 0.9
