# SPDX-License-Identifier: Apache-2.0
"""Layers of Caffe's forks, against what they mean, computed by hand."""

import numpy as np
import pytest
from caffe_files import layer, run, written

from opendpu.api import compile_onnx
from opendpu.frontend.caffe import forks, load_caffe
from opendpu.frontend.caffe.layers import DEPTHWISE as DEPTHWISE_NAMES
from opendpu.frontend.caffe.registry import HANDLERS
from opendpu_arch.errors import ModelFormatError, UnsupportedError

SHAPE = (1, 4, 7, 6)
W = np.arange(36, dtype=np.float32).reshape(4, 1, 3, 3) / 10


def gate(x):
    return np.clip(x + 3, 0, 6) / 6


def resized(x, rows, columns):
    """Return bilinear resizing with corners on corners."""
    for axis, size in ((2, rows), (3, columns)):
        places = np.linspace(0, x.shape[axis] - 1, size)
        low = np.minimum(np.floor(places).astype(int), x.shape[axis] - 1)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        shape = [1] * 4
        shape[axis] = size
        part = (places - low).reshape(shape)
        x = x.take(low, axis) * (1 - part) + x.take(high, axis) * part
    return x


def depthwise(x):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [padded[:, :, i : i + 7, j : j + 6] * W[:, :, i, j][None, ..., None]
            for i in range(3) for j in range(3)]  # fmt: skip
    return sum(taps)


DEPTHWISE = "convolution_param { num_output: 4 kernel_size: 3 pad: 1 bias_term: false }"
CASES = {
    "ShuffleChannel": (
        "shuffle_channel_param { group: 2 }", lambda x: x[:, [0, 2, 1, 3]], [],
    ),
    "ConvolutionDepthwise": (DEPTHWISE, depthwise, [W]),
    "DepthwiseConvolution": (DEPTHWISE, depthwise, [W]),
    "Interp": ("interp_param { height: 13 width: 9 }", lambda x: resized(x, 13, 9), []),
    "Upsample": (
        "upsample_param { scale: 2 }", lambda x: x.repeat(2, 2).repeat(2, 3), [],
    ),
    "Swish": ("swish_param { beta: 2 }", lambda x: x / (1 + np.exp(-2 * x)), []),
    "Clip": ("clip_param { min: -1 max: 0.5 }", lambda x: np.clip(x, -1, 0.5), []),
    "HardSwish": ("", lambda x: x * gate(x), []),
    "HSwish": ("", lambda x: x * gate(x), []),
    "HardSigmoid": ("", gate, []),
    "Mish": ("", lambda x: x * np.tanh(np.log1p(np.exp(x))), []),
    "ArgMax": ("argmax_param { axis: 1 }", lambda x: x.argmax(1)[:, None], []),
}  # fmt: skip


def test_every_handler_is_compared():
    others = {"Hsigmoid", "HSigmoid", "Hswish", "Axpy"}  # names of one layer, and one of three maps
    made = {k for k, handler in HANDLERS.items() if handler.__module__ == forks.__name__}
    assert made | set(DEPTHWISE_NAMES) == set(CASES) | others


@pytest.fixture
def x(rng):
    return rng.standard_normal(SHAPE).astype(np.float32)


@pytest.mark.parametrize("kind", CASES)
def test_computes_what_the_layer_means(kind, x, tmp_path):
    parameters, function, blobs = CASES[kind]
    path = written(tmp_path, layer(kind, parameters), {"one": blobs})
    (found,) = run(load_caffe(path), x)
    np.testing.assert_allclose(found, function(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("parameters", "function"),
    [
        ("zoom_factor: 2", lambda x: resized(x, 13, 11)),
        ("shrink_factor: 2", lambda x: resized(x, 4, 3)),
        ("shrink_factor: 2 zoom_factor: 3", lambda x: resized(x, 10, 7)),
        ("pad_beg: -1 pad_end: -2 zoom_factor: 2", lambda x: resized(x[:, :, 1:5, 1:4], 7, 5)),
    ],
)
def test_sizes_of_interp(parameters, function, x, tmp_path):
    path = written(tmp_path, layer("Interp", f"interp_param {{ {parameters} }}"), {})
    (found,) = run(load_caffe(path), x)
    np.testing.assert_allclose(found, function(x), rtol=1e-4, atol=1e-4)


def test_interp_to_the_size_of_another_map(x, tmp_path):
    text = layer("Pooling", "pooling_param { kernel_size: 3 }", tops=["small"], name="p")
    text += layer("Interp", "", ["data", "small"])
    (found,) = run(load_caffe(written(tmp_path, text, {})), x)
    np.testing.assert_allclose(found, resized(x, 5, 4), rtol=1e-4, atol=1e-4)


def test_axpy(x, tmp_path):
    text = layer(
        "Pooling", "pooling_param { pool: AVE global_pooling: true }", tops=["g"], name="g"
    )
    text += layer("ReLU", "", tops=["r"], name="r")
    text += layer("Axpy", "", ["g", "r", "data"])
    (found,) = run(load_caffe(written(tmp_path, text, {})), x)
    expected = x.mean((2, 3), keepdims=True) * np.maximum(x, 0) + x
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "parameters", "error", "text"),
    [
        ("ShuffleChannel", "shuffle_channel_param { group: 3 }", ModelFormatError,
         "3 groups do not divide 4 channels"),
        ("Upsample", "", ModelFormatError, "has no scale"),
        ("Clip", "clip_param { min: 1 }", ModelFormatError, "lacks min or max"),
        ("Axpy", "", ModelFormatError, "1 bottoms"),
        ("Interp", "interp_param { pad_beg: -4 pad_end: -4 }", ModelFormatError, "from -1x-2"),
        ("Interp", "interp_param { pad_end: 1 }", UnsupportedError, "positive paddings"),
        ("ArgMax", "", UnsupportedError, "only one maximum along an axis"),
    ],
)  # fmt: skip
def test_what_is_refused(kind, parameters, error, text, tmp_path):
    with pytest.raises(error, match=text):
        load_caffe(written(tmp_path, layer(kind, parameters), {}))


def test_a_unit_of_shufflenet_is_one_part(tmp_path, rng):
    text = layer("Convolution", "convolution_param { num_output: 8 kernel_size: 1 }", tops=["c"],
                 name="c")  # fmt: skip
    text += layer("ShuffleChannel", "shuffle_channel_param { group: 2 }", ["c"], ["s"], name="s")
    text += layer("ConvolutionDepthwise",
                  "convolution_param { num_output: 8 kernel_size: 3 pad: 1 }", ["s"])  # fmt: skip
    blobs = {
        "c": [rng.standard_normal((8, 4, 1, 1)), rng.standard_normal(8)],
        "one": [rng.standard_normal((8, 1, 3, 3)), rng.standard_normal(8)],
    }
    samples = {"data": rng.standard_normal((4, *SHAPE[1:])).astype(np.float32)}
    report = compile_onnx(
        written(tmp_path, text, blobs), calibration=samples, target="B512",
        output=tmp_path / "m.xmodel",
    )  # fmt: skip
    assert [part.device for part in report.subgraphs] == ["USER", "DPU"]
