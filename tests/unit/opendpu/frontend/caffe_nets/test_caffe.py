# SPDX-License-Identifier: Apache-2.0
"""Networks of Caffe as float graphs, against what its layers mean, computed by hand."""

import numpy as np
import pytest
from caffe_files import layer, run, written

from opendpu.frontend import load_model
from opendpu.frontend.caffe import forks, load_caffe
from opendpu.frontend.caffe.layers import DEPTHWISE
from opendpu.frontend.caffe.proto import Net
from opendpu.frontend.caffe.registry import HANDLERS
from opendpu_arch.errors import ModelFormatError, UnsupportedError


def windows(x, kernel, stride, pads, size, fill):
    """Return what each window of a pool sees, NaN for what is outside, ``[N, C, H, W, K]``."""
    padded = np.full((*x.shape[:2], 40, 40), np.nan)
    inner = np.full((*x.shape[:2], x.shape[2] + 2 * pads, x.shape[3] + 2 * pads), fill)
    inner[:, :, pads : pads + x.shape[2], pads : pads + x.shape[3]] = x
    padded[:, :, : inner.shape[2], : inner.shape[3]] = inner
    rows = [padded[:, :, stride * i : stride * i + kernel] for i in range(size[0])]
    parts = [[row[..., stride * j : stride * j + kernel] for j in range(size[1])] for row in rows]
    return np.stack([np.stack(part, 2) for part in parts], 2).reshape(*x.shape[:2], *size, -1)


@pytest.fixture
def x(rng):
    return rng.standard_normal((1, 4, 7, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "size"), [(2, 2, 0, (4, 3)), (3, 2, 0, (3, 3)), (3, 2, 1, (4, 4))]
)
def test_pools_round_up(kernel, stride, pad, size, x, tmp_path):
    text = f"kernel_size: {kernel} stride: {stride} pad: {pad}"
    path = written(tmp_path, layer("Pooling", f"pooling_param {{ pool: MAX {text} }}"), {})
    (found,) = run(load_caffe(path), x)
    expected = np.nanmax(windows(x, kernel, stride, pad, size, -np.inf), -1)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "size"), [(2, 2, 0, (4, 3)), (3, 2, 0, (3, 3)), (3, 1, 1, (7, 6))]
)
def test_means_count_padding_but_not_what_is_outside(kernel, stride, pad, size, x, tmp_path):
    text = f"kernel_size: {kernel} stride: {stride} pad: {pad}"
    path = written(tmp_path, layer("Pooling", f"pooling_param {{ pool: AVE {text} }}"), {})
    (found,) = run(load_caffe(path), x)
    expected = np.nanmean(windows(x, kernel, stride, pad, size, 0.0), -1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_normalization_becomes_one_scale(x, tmp_path, rng):
    mean, variance = rng.standard_normal(4), rng.uniform(0.5, 2, 4)
    factor, offset = rng.standard_normal(4), rng.standard_normal(4)
    path = written(
        tmp_path,
        layer("BatchNorm", "batch_norm_param { eps: 0.01 }", tops=["data"])
        + layer("Scale", "scale_param { bias_term: true }", name="two"),
        {"one": [mean * 3, variance * 3, np.array([3.0])], "two": [factor, offset]},
    )
    (found,) = run(load_caffe(path), x)
    shape = (4, 1, 1)
    normal = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + 0.01)
    expected = normal * factor.reshape(shape) + offset.reshape(shape)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def relu(a):
    return np.maximum(a, 0)


W = np.arange(24, dtype=np.float32).reshape(6, 4) / 10
CASES = {
    "Sigmoid": ("", lambda x: 1 / (1 + np.exp(-x)), []),
    "TanH": ("", np.tanh, []),
    "AbsVal": ("", np.abs, []),
    "Exp": ("", np.exp, []),
    "BNLL": ("", lambda x: np.log1p(np.exp(x)), []),
    "Dropout": ("", lambda x: x, []),
    "Split": ("", lambda x: x, []),
    "ReLU": ("relu_param { negative_slope: 0.1 }", lambda x: np.where(x < 0, 0.1 * x, x), []),
    "ReLU6": ("", lambda x: np.clip(x, 0, 6), []),
    "ELU": ("elu_param { alpha: 0.5 }", lambda x: np.where(x < 0, 0.5 * np.expm1(x), x), []),
    "PReLU": (
        "",
        lambda x: np.where(x < 0, x * W[0].reshape(4, 1, 1), x),
        [W[0]],
    ),
    "Power": ("power_param { power: 2 scale: 3 shift: 1 }", lambda x: (1 + 3 * x) ** 2, []),
    "Bias": ("", lambda x: x + W[1].reshape(4, 1, 1), [W[1]]),
    "InnerProduct": (
        "inner_product_param { num_output: 6 axis: -1 }",
        lambda x: x @ np.ones((6, 6)) + W[:, 0],
        [np.ones((6, 6)), W[:, 0]],
    ),
    "Convolution": (
        "convolution_param { num_output: 6 kernel_size: 1 stride_h: 2 stride_w: 1 }",
        lambda x: np.einsum("oc,nchw->nohw", W, x[:, :, ::2]) + W[:, 1].reshape(6, 1, 1),
        [W.reshape(6, 4, 1, 1), W[:, 1]],
    ),
    "Deconvolution": (
        "convolution_param { num_output: 6 kernel_size: 1 bias_term: false }",
        lambda x: np.einsum("oc,nchw->nohw", W, x),
        [W.T.reshape(4, 6, 1, 1)],
    ),
    "Softmax": ("", lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), []),
    "SoftmaxWithLoss": ("", lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), []),
    "Flatten": ("", lambda x: x.reshape(1, -1), []),
    "Reshape": (
        "reshape_param { shape { dim: 0 dim: 2 dim: -1 } }",
        lambda x: x.reshape(1, 2, 84),
        [],
    ),
    "Permute": (
        "permute_param { order: 0 order: 2 order: 3 order: 1 }",
        lambda x: x.transpose(0, 2, 3, 1),
        [],
    ),
    "Reduction": (
        "reduction_param { operation: MEAN axis: 2 coeff: 3 }",
        lambda x: 3 * x.mean((2, 3)),
        [],
    ),
    "Tile": ("tile_param { tiles: 2 }", lambda x: np.tile(x, (1, 2, 1, 1)), []),
    "LRN": (
        "lrn_param { local_size: 1 alpha: 0.5 beta: 0.5 k: 2 }",
        lambda x: x / np.sqrt(2 + 0.5 * x * x),
        [],
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_computes_what_the_layer_means(kind, x, tmp_path):
    parameters, function, blobs = CASES[kind]
    path = written(tmp_path, layer(kind, parameters), {"one": blobs})
    (found,) = run(load_caffe(path), x)
    np.testing.assert_allclose(found, function(x), rtol=1e-4, atol=1e-4)


def test_layers_of_several_tensors(x, tmp_path):
    halves = layer("Slice", "slice_param { slice_point: 1 }", tops=["a", "b"], name="cut")
    text = halves + layer("ReLU", bottoms=["b"], tops=["b"], name="in_place")
    text += layer("Tile", "tile_param { tiles: 3 }", ["a"], ["wide"], name="wide")
    text += layer(
        "Eltwise", "eltwise_param { coeff: 1 coeff: -2 }", ["wide", "b"], ["sum"], name="sum"
    )
    text += layer("Eltwise", "eltwise_param { operation: MAX }", ["sum", "b"], ["max"], name="max")
    text += layer("Eltwise", "eltwise_param { operation: PROD }", ["max", "b"], ["p"], name="prod")
    text += layer(
        "Pooling", "pooling_param { pool: AVE global_pooling: true }", ["b"], ["g"], name="g"
    )
    text += layer("Flatten", "", ["g"], ["flat"], name="flat")
    text += layer(
        "Scale", "scale_param { axis: 0 num_axes: 2 }", ["p", "flat"], ["s"], name="scale"
    )
    text += layer("Pooling", "pooling_param { kernel_size: 3 }", ["b"], ["small"], name="small")
    text += layer("Crop", "crop_param { axis: 2 offset: 1 }", ["s", "small"], ["c"], name="crop")
    text += layer("Concat", "", ["c", "small"], ["y"], name="joined")
    text += layer("Accuracy", "", ["y"], ["accuracy"], name="accuracy")
    (found,) = run(load_caffe(written(tmp_path, text, {})), x)
    a, b = x[:, :1], relu(x[:, 1:])
    total = np.tile(a, (1, 3, 1, 1)) - 2 * b
    product = np.maximum(total, b) * b * b.mean((2, 3), keepdims=True)
    small = np.nanmax(windows(b, 3, 1, 0, (5, 4), -np.inf), -1)
    expected = np.concatenate([product[:, :, 1:6, 1:5], small], 1)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_every_handler_is_compared():
    others = {"Pooling", "BatchNorm", "Scale", "Slice", "Eltwise", "Concat", "Crop"}
    detection = {"Normalize", "PriorBox", "DetectionOutput"}  # in test_detection
    here = {k for k, handler in HANDLERS.items() if handler.__module__ != forks.__name__}
    assert here - set(DEPTHWISE) == set(CASES) | others | detection  # others in test_forks


@pytest.mark.parametrize(("kind", "dtype"), [(0, "<f8"), (1, "<f4"), (2, "<f2")])
def test_weights_as_raw_bytes(kind, dtype, x, tmp_path):
    slopes = np.array([0.5, 0.25, 2, 3])
    path = written(tmp_path, layer("PReLU"), {"one": [slopes]})
    file = tmp_path / "weights.caffemodel"
    net = Net.FromString(file.read_bytes())
    blob = net.layer[0].blobs[0]
    del blob.data[:]
    blob.raw_data_type, blob.raw_data = kind, slopes.astype(dtype).tobytes()
    file.write_bytes(net.SerializeToString())
    (found,) = run(load_caffe(path), x)
    np.testing.assert_allclose(found, np.where(x > 0, x, x * slopes[:, None, None]), rtol=1e-6)
    blob.ClearField("raw_data_type")
    blob.raw_data = b"odd"
    file.write_bytes(net.SerializeToString())
    with pytest.raises(ModelFormatError, match=r"is no \.caffemodel"):
        load_caffe(path)


def test_either_file_leads_to_the_network(x, tmp_path):
    path = written(tmp_path, layer("ReLU"), {})
    for given in (path, tmp_path / "weights.caffemodel"):
        (found,) = run(load_model(given), x)
        np.testing.assert_array_equal(found, relu(x))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (layer("Crop"), ModelFormatError, r"layer 'one' \(Crop\): it has no second bottom"),
        (layer("Convolution", "convolution_param { num_output: 3 kernel_size: 1 }"),
         ModelFormatError, r"'one' \(Convolution\): the \.caffemodel has no weights of it"),
        (layer("ReLU", bottoms=["nothing"]), ModelFormatError, r"reads 'nothing', which nobody"),
        (layer("PSROIPooling") + layer("Proposal", name="two"), UnsupportedError,
         r"has 2 operators that cannot be converted:\n  PSROIPooling \(no counterpart\): one\n"),
        ("layers { }", ModelFormatError, r"has 'layers' of Caffe before 2014"),
        ("layer {", ModelFormatError, r"is not a network of Caffe: "),
    ],
)  # fmt: skip
def test_faults(text, error, message, tmp_path):
    with pytest.raises(error, match=message):
        load_caffe(written(tmp_path, text, {}))


def test_missing_files(tmp_path):
    path = written(tmp_path, layer("ReLU"), {})
    (tmp_path / "weights.caffemodel").unlink()
    with pytest.raises(ModelFormatError, match=r"needs a \.caffemodel file: deploy\.caffemodel"):
        load_caffe(path)
    with pytest.raises(ModelFormatError, match=r"gone\.caffemodel: no such file"):
        load_caffe(path, weights=tmp_path / "gone.caffemodel")
    (tmp_path / "deploy.caffemodel").write_bytes(b"\xff\xff")
    with pytest.raises(ModelFormatError, match=r"deploy\.caffemodel is no \.caffemodel"):
        load_caffe(path)


def test_parameters_that_leave_nothing_of_a_result_are_refused(tmp_path, rng):
    """onnx's inference ends the process on what is smaller than nothing."""
    text = layer("Deconvolution", "convolution_param { num_output: 4 kernel_size: 4 pad: 65536 }")
    text += layer("Crop", "crop_param { axis: 2 }", ("y", "data"), ("c",), "two")
    path = written(tmp_path, text, {"one": [rng.standard_normal((4, 4, 4, 4)), np.zeros(4)]})
    with pytest.raises(ModelFormatError, match=r"'two'.* its input one has a dimension of -131"):
        load_caffe(path)


def test_parameters_that_do_not_fit_are_refused(tmp_path):
    path = written(tmp_path, layer("Pooling", ""), {})
    with pytest.raises(ModelFormatError, match="parameters of 'one' do not fit its inputs, so 'y'"):
        load_caffe(path)


def test_one_shape_is_that_of_all_inputs(tmp_path):
    path = written(tmp_path, layer("Eltwise", "", ("data", "more")), {})
    text = path.read_text()
    path.write_text(text.replace('top: "data"', 'top: "data" top: "more"', 1))
    assert load_caffe(path)["y"].shape == (1, 4, 7, 6)
    for tops, shapes, message in (
        ("", "shape { dim: 1 }", "1 shapes for 0 tops"),
        ('top: "data" top: "more" top: "most"', "shape { dim: 1 } shape { dim: 2 }", "2 .* 3 tops"),
    ):
        path.write_text(f'layer {{ name: "in" type: "Input" {tops} input_param {{ {shapes} }} }}')
        with pytest.raises(ModelFormatError, match=rf"layer 'in' \(Input\) has {message}"):
            load_caffe(path)
