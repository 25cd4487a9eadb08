# SPDX-License-Identifier: Apache-2.0
"""The quantizer: AMD's form, legal shifts, shared scales, small errors, clear refusals."""

import numpy as np
import pytest
from oracle import evaluate_float, evaluate_quantized

import xir
from opendpu.ir import FloatGraph, QuantizedGraph, to_xir
from opendpu.quantize import corrected, executor, quantize, quantize_with_report
from opendpu.quantize.corrections import refine
from opendpu.quantize.corrections import trials as trials_of
from opendpu.quantize.scales import grid
from opendpu.quantize.scales.grid import FIX_POINTS, best_fix_point, no_overflow, squared_error
from opendpu.quantize.transforms.equalize import equalize
from opendpu.quantize.transforms.fold import fold
from opendpu_arch.errors import TensorError, UnsupportedError

METHODS = ("minmse", "diffs", "nonoverflow")
WINDOW = {"kernel": [3, 3], "stride": [1, 1], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
POOL = {"kernel": [2, 2], "stride": [2, 2], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


class Net(FloatGraph):
    """A float network that is written down one op a line, 8x8 pixels."""

    def __init__(self, seed=0):
        super().__init__("net")
        self.random = np.random.default_rng(seed)
        self.add("x", "data", (1, 8, 8, 4))

    def put(self, name, kind, inputs, attrs=None, shape=None):
        names = inputs if isinstance(inputs, dict) else {"input": inputs}
        return self.add(name, kind, shape or self[names["input"][0]].shape, names, attrs).name

    def conv(self, name, source, channels, kind="conv2d", scale=1.0, bias=True):
        size = self[source].shape
        shape = (1, 3, 3, size[3]) if kind == "depthwise-conv2d" else (channels, 3, 3, size[3])
        weights = self.random.standard_normal(shape) * scale / np.sqrt(np.prod(shape[1:]))
        inputs = {"input": [source], "weights": [self.add_const(f"{name}_w", weights).name]}
        if bias:
            values = self.random.standard_normal(channels) * scale
            inputs["bias"] = [self.add_const(f"{name}_b", values).name]
        return self.put(name, kind, inputs, WINDOW, (*size[:3], channels))

    def done(self, *outputs) -> FloatGraph:
        self.outputs = list(outputs)
        return self.moved(FloatGraph)


def varied(seed=0) -> FloatGraph:
    """A network with everything whose scales depend on each other."""
    net = Net(seed)
    net.conv("a", "x", 8)
    net.put("ar", "relu", ["a"])
    net.conv("b", "ar", 8, "depthwise-conv2d", scale=0.1)
    net.put("b6", "relu6", ["b"])
    net.conv("c", "ar", 8, bias=False)
    net.put("s", "add", ["b6", "c"])
    net.put("sr", "relu", ["s"])
    net.put("m", "maxpool2d", ["sr"], POOL, (1, 4, 4, 8))
    net.put("v", "avgpool2d", ["ar"], POOL, (1, 4, 4, 8))
    net.put("k", "concat", ["m", "v"], {"axis": 3}, (1, 4, 4, 16))
    net.conv("d", "k", 6)
    net.put("dl", "leaky-relu", ["d"], {"alpha": 0.1})
    net.put("f", "reshape", ["dl"], {"shape": [1, 96]}, (1, 96))
    weights = net.random.standard_normal((5, 96)) / 10
    inputs = {"input": ["f"], "weights": [net.add_const("g_w", weights).name]}
    net.put("g", "inner-product", inputs, {"axis": 1}, (1, 5))
    net.put("p", "softmax", ["g"], {"axis": 1})
    return net.done("p", "k")


def samples(count=48, seed=1, shape=(8, 8, 4)):
    return {"x": np.random.default_rng(seed).standard_normal((count, *shape)).astype(np.float32)}


def fixes(graph) -> dict[str, int]:
    return {node.name: node.fix_point for node in graph if node.kind == "fix"}


@pytest.mark.parametrize("method", METHODS)
def test_form_of_amd(method):
    graph = quantize(varied(), samples(), method=method)
    assert isinstance(graph, QuantizedGraph)
    for node in graph:
        assert node.name.endswith("_fix") == (node.kind == "fix")
        if node.kind == "fix":
            assert node.name == f"{node.inputs['input'][0]}_fix"
            assert (node.quantization.bits, node.quantization.signed) == (8, True)
            assert node.quantization.rounding == "DPU_ROUND"
        if node.kind == "const":
            (user,) = graph.consumers(node.name)
            scaled = node.value * 2.0**user.fix_point
            np.testing.assert_array_equal(scaled, np.clip(np.rint(scaled), -128, 127))
    assert graph.outputs == ["p", "k_fix"]
    fused = [
        n.name
        for n in graph
        if n.kind not in ("fix", "const")
        and n.kind != "softmax"
        and f"{n.name}_fix" not in graph.nodes
    ]
    assert set(fused) == {"a", "b", "s", "d"}


def test_form_is_the_form_of_amds_own_file(models):
    """Attributes of ``fix`` ops and constants are the ones of a file AMD's quantizer wrote."""
    amd = xir.Graph.deserialize(models / "amd_compiled" / "VoxelNet_int.xmodel")
    ours = to_xir(quantize(varied(), samples()))
    for kind in ("fix", "const", "data"):
        theirs = {
            key: op.get_attr_kind(key)
            for op in amd.get_ops()
            if op.get_type() == kind
            for key in op.get_attrs()
        }
        found = {
            key: op.get_attr_kind(key)
            for op in ours.get_ops()
            if op.get_type() == kind
            for key in op.get_attrs()
        }
        assert found == theirs


def test_file_and_back(tmp_path):
    graph = quantize(varied(), samples())
    to_xir(graph).serialize(tmp_path / "q.xmodel")
    again = xir.Graph.deserialize(tmp_path / "q.xmodel")
    x = samples(4, seed=3)
    for name, array in evaluate_quantized(graph, x).items():
        np.testing.assert_array_equal(evaluate_quantized(again, x)[name], array)


@pytest.mark.parametrize("method", METHODS)
def test_shared_scales(method):
    points = fixes(quantize(varied(), samples(), method=method))
    assert points["m_fix"] == points["sr_fix"] == points["v_fix"] == points["k_fix"]
    assert points["dl_fix"] == points["f_fix"]
    assert points["b6_fix"] >= 4


@pytest.mark.parametrize("method", METHODS)
def test_a_wide_neighbour_does_not_lower_the_fix_point_of_relu6(method):
    """The DPU's relu6 ends at 96, which is 6 at fix point 4; below that it is no relu6."""
    net = Net()
    net.conv("narrow", "x", 8)
    net.put("six", "relu6", ["narrow"])
    net.conv("wide", "x", 8, scale=16.0)
    net.put("all", "relu", ["wide"])
    net.put("both", "concat", ["six", "all"], {"axis": 3}, (1, 8, 8, 16))
    net.conv("end", "both", 4)
    x = samples()
    largest = evaluate_float(net.done("all"), x)["all"].max()
    assert no_overflow(float(largest)) < 3
    points = fixes(quantize(net.done("end"), x, method=method))
    assert points["six_fix"] == points["all_fix"] == points["both_fix"] == 4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(5))
def test_every_shift_is_legal(method, seed):
    """Weights, inputs and biases of all sizes, from 2**-12 to 2**12."""
    random = np.random.default_rng(seed)
    net = Net(seed)
    last = "x"
    for i in range(5):
        last = net.conv(f"c{i}", last, 6, scale=2.0 ** random.integers(-6, 7))
        bias = net[f"c{i}_b"]
        bias.value = bias.value * np.float32(2.0 ** random.integers(-12, 13))
        last = net.put(f"r{i}", "relu", [last])
    net.conv("side", "x", 6)
    net.put("sum", "add", [last, "side"])
    graph = quantize(net.done("sum"), samples(8), method=method)
    points = fixes(graph)
    previous = "x_fix"
    for i in range(5):
        product = points[previous] + points[f"c{i}_w_fix"]
        previous = f"r{i}_fix"
        assert 0 <= product - points[previous] <= 63
        assert 0 <= product - points[f"c{i}_b_fix"] + 1 <= 20
    assert abs(points[previous] - points["side_fix"]) <= 15
    evaluate_quantized(graph, samples(2, seed=9))


@pytest.mark.parametrize("size", [1e-6, 1e5])
def test_biases_that_are_far_too_small_or_large(size):
    """The shift of the bias ends at 0 and at 20, whatever that costs."""
    net = Net()
    net.conv("a", "x", 4)
    net["a_b"].value = np.full(4, size, np.float32)
    points = fixes(quantize(net.done("a"), samples(8), bias_correction=False))
    shift = points["x_fix"] + points["a_w_fix"] - points["a_b_fix"] + 1
    assert shift == 20 if size > 1 else 0 <= shift <= 20


@pytest.mark.parametrize(("method", "least"), [("minmse", 20), ("diffs", 20), ("nonoverflow", 15)])
def test_small_error(method, least):
    graph = varied()
    x = samples(64, seed=7)
    expected = evaluate_float(graph, x)["k"]
    quantized = quantize(graph, samples(), method=method)
    found = evaluate_quantized(quantized, x)["k_fix"] / 2.0 ** fixes(quantized)["k_fix"]
    ratio = 10 * np.log10((expected**2).sum() / ((expected - found) ** 2).sum())
    assert ratio > least


def test_bias_correction_moves_means_back():
    graph, x = varied(3), samples(64)
    expected = evaluate_float(graph, x, keep=["g"])["g"].mean(axis=0)
    errors = []
    for correct in (False, True):
        quantized = quantize(graph, x, bias_correction=correct)
        found = evaluate_float(quantized, x, keep=["g_fix"])["g_fix"].mean(axis=0)
        errors.append(np.abs(found - expected).max())
    assert errors[1] < errors[0] / 2


def test_equalization_keeps_the_function_and_evens_out_channels():
    net = Net()
    net.conv("a", "x", 8)
    net["a_w"].value = net["a_w"].value * np.logspace(-1.5, 1.5, 8).reshape(8, 1, 1, 1)
    net.put("ar", "relu", ["a"])
    net.conv("b", "ar", 8, "depthwise-conv2d")
    net.put("br", "relu", ["b"])
    net.conv("c", "br", 5)
    net.outputs = ["c"]
    x = samples(4)
    before = evaluate_float(net, x)["c"]
    ranges = np.abs(net["a_w"].value).max(axis=(1, 2, 3))
    assert equalize(net).layers == ["a", "b", "c"]
    after = evaluate_float(net, x)["c"]
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-3 * np.abs(before).max())
    evened = np.abs(net["a_w"].value).max(axis=(1, 2, 3))
    assert evened.max() / evened.min() < ranges.max() / ranges.min() / 5


def test_equalization_leaves_alone_what_others_see():
    net = Net()
    net.conv("a", "x", 8)
    net.put("ar", "relu6", ["a"])
    net.conv("b", "ar", 8)
    net.conv("c", "b", 8)
    net.put("s", "add", ["b", "c"])
    net.conv("d", "s", 8)
    net.outputs = ["d"]
    done = equalize(net)
    assert done.layers == []
    assert done.skipped == {
        "a": "it passes a ReLU6 whose values are not known",
        "b": "a layer reads it twice",
        "c": "a layer reads it twice",
        "d": "'d' is an output of the network",
    }


@pytest.mark.parametrize("kind", ["conv2d", "depthwise-conv2d"])
@pytest.mark.parametrize("norm", ["batchnorm", "scale"])
@pytest.mark.parametrize("bias", [False, True])
def test_folding_keeps_the_function(kind, norm, bias):
    net = Net()
    net.conv("a", "x", 4, kind, bias=bias)
    args = {"batchnorm": ("gamma", "beta", "moving_mean", "moving_var"), "scale": ("scale", "bias")}
    inputs = {"input": ["a"]}
    for arg in args[norm]:
        values = np.abs(net.random.standard_normal(4)) + 0.2
        inputs[arg] = [net.add_const(f"n_{arg}", values).name]
    attrs = {"axis": 3, "epsilon": 1e-3} if norm == "batchnorm" else {"axis": -1}
    net.put("n", norm, inputs, attrs)
    net.outputs = ["n"]
    x = samples(3)
    before = evaluate_float(net, x)["n"]
    fold(net)
    assert [node.kind for node in net if node.kind != "const"] == ["data", kind]
    np.testing.assert_allclose(evaluate_float(net, x)["n"], before, rtol=1e-4, atol=1e-4)


def test_lonely_normalization_becomes_a_depthwise_convolution():
    net = Net()
    inputs = {"input": ["x"], "scale": [net.add_const("f", [1.0, 2.0, -1.0, 0.5]).name]}
    net.put("n", "scale", inputs, {"axis": -1})
    net.outputs = ["n"]
    x = samples(3)
    before = evaluate_float(net, x)["n"]
    fold(net)
    assert net["n"].kind == "depthwise-conv2d"
    np.testing.assert_allclose(evaluate_float(net, x)["n"], before, rtol=1e-6)


def affine(net, name, source, factor, offset):
    """Put a factor and an offset behind a sum of the map with itself, which takes neither."""
    net.put(f"{name}_x", "add", {"input": [source, source]})
    inputs = {
        "input": [f"{name}_x"],
        "scale": [net.add_const(f"{name}_f", factor).name],
        "bias": [net.add_const(f"{name}_o", offset).name],
    }
    net.put(name, "scale", inputs, {"axis": -1})


def reader(net, name, source, kind, size, pad):
    channels = net[source].shape[-1]
    shape = {"conv2d": (6, size, size, channels), "depthwise-conv2d": (1, size, size, channels)}
    if kind == "inner-product":
        shape = {kind: (6, int(np.prod(net[source].shape)))}
    weights = net.random.standard_normal(shape[kind])
    made = 6 if kind != "depthwise-conv2d" else channels
    inputs = {
        "input": [source],
        "weights": [net.add_const(f"{name}_w", weights).name],
        "bias": [net.add_const(f"{name}_b", net.random.standard_normal(made)).name],
    }
    side = net[source].shape[1] + 2 * pad - size + 1
    attrs = {"kernel": [size] * 2, "stride": [1, 1], "pad": [pad] * 4, "pad_mode": "FLOOR"}
    shaped = (1, side, side, made)
    if kind == "inner-product":
        attrs, shaped = {"axis": 1}, (1, 6)
    net.put(name, kind, inputs, attrs, shaped)


ONE, SEVERAL, WIDE = [0.7] * 4, [0.7, -1.2, 2.0, 0.6], [0.7, 0.1, 2.0, 1.0]
NONE, OFFSET = [0.0] * 4, [0.3, -2.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("readers", "factor", "offset", "folds"),
    [
        ([("conv2d", 1, 0)], ONE, OFFSET, True),
        ([("conv2d", 3, 0)], SEVERAL, OFFSET, True),
        ([("conv2d", 3, 1)], SEVERAL, NONE, True),
        ([("conv2d", 3, 1)], ONE, OFFSET, False),
        ([("conv2d", 1, 0)], WIDE, OFFSET, False),
        ([("conv2d", 1, 0)], [0.0] * 4, OFFSET, False),
        ([("depthwise-conv2d", 3, 0)], SEVERAL, OFFSET, True),
        ([("depthwise-conv2d", 3, 1)], SEVERAL, NONE, True),
        ([("depthwise-conv2d", 3, 1)], SEVERAL, OFFSET, False),
        ([("inner-product", 0, 0)], SEVERAL, OFFSET, True),
        ([("conv2d", 1, 0), ("depthwise-conv2d", 3, 0)], ONE, OFFSET, True),
        ([("conv2d", 1, 0), ("depthwise-conv2d", 3, 1)], ONE, OFFSET, False),
    ],
)
def test_what_stands_alone_is_folded_into_what_reads_it(readers, factor, offset, folds):
    net = Net()
    affine(net, "n", "x", factor, offset)
    for number, one in enumerate(readers):
        reader(net, f"y{number}", "n", *one)
    net.outputs = [f"y{number}" for number in range(len(readers))]
    x = samples(3)
    before = evaluate_float(net, x)
    fold(net)
    kinds = ["add", *([] if folds else ["depthwise-conv2d"]), *(one[0] for one in readers)]
    assert [node.kind for node in net if node.kind not in ("const", "data")] == kinds
    after = evaluate_float(net, x)
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-4, atol=1e-3)


def test_factor_and_offset_of_two_ops_are_folded_into_what_reads_them():
    """As PP-LCNetV3 has them behind hard-swish: Mul, then Add."""
    net = Net()
    affine(net, "m", "x", ONE, NONE)
    inputs = {"input": ["m"], "scale": [net.add_const("f", [1.0] * 4).name],
              "bias": [net.add_const("o", OFFSET).name]}  # fmt: skip
    net.put("n", "scale", inputs, {"axis": -1})
    reader(net, "y", "n", "conv2d", 1, 0)
    net.outputs = ["y"]
    x = samples(3)
    before = evaluate_float(net, x)["y"]
    fold(net)
    assert [node.kind for node in net if node.kind not in ("const", "data")] == ["add", "conv2d"]
    np.testing.assert_allclose(evaluate_float(net, x)["y"], before, rtol=1e-4, atol=1e-3)


def test_factor_and_offset_of_two_ops_at_the_end_stay_a_layer():
    net = Net()
    affine(net, "m", "x", ONE, NONE)
    affine_inputs = {"input": ["m"], "scale": [net.add_const("f", [1.0] * 4).name],
                     "bias": [net.add_const("o", OFFSET).name]}  # fmt: skip
    net.put("n", "scale", affine_inputs, {"axis": -1})
    net.outputs = ["n"]
    x = samples(3)
    before = evaluate_float(net, x)["n"]
    fold(net)
    kinds = [node.kind for node in net if node.kind not in ("const", "data")]
    assert kinds == ["add", "depthwise-conv2d"]
    np.testing.assert_allclose(evaluate_float(net, x)["n"], before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("other", ["output", "relu"])
def test_what_others_read_too_is_not_folded_into_a_layer_behind(other):
    net = Net()
    affine(net, "n", "x", ONE, OFFSET)
    reader(net, "y", "n", "conv2d", 1, 0)
    net.outputs = ["y", "n"]
    if other == "relu":
        net.put("z", "relu", ["n"])
        net.outputs = ["y", "z"]
    x = samples(2)
    before = evaluate_float(net, x)
    fold(net)
    assert net["n"].kind == "depthwise-conv2d"
    after = evaluate_float(net, x)
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-5, atol=1e-5)


def test_a_layer_whose_own_result_is_wanted_is_not_folded_into():
    net = Net()
    net.conv("a", "x", 4)
    inputs = {"input": ["a"], "scale": [net.add_const("f", [2.0, 3.0, 4.0, 5.0]).name]}
    net.put("n", "scale", inputs, {"axis": -1})
    net.outputs = ["a", "n"]
    x = samples(2)
    before = evaluate_float(net, x)
    fold(net)
    after = evaluate_float(net, x)
    assert set(after) == {"a", "n"}
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-5, atol=1e-5)


def test_weights_with_two_users_are_folded_for_one():
    net = Net()
    net.conv("a", "x", 4)
    inputs = {"input": ["a"], "weights": ["a_w"], "bias": ["a_b"]}
    net.put("b", "conv2d", inputs, WINDOW)
    net.put(
        "n", "scale", {"input": ["b"], "scale": [net.add_const("f", [2.0] * 4).name]}, {"axis": -1}
    )
    net.outputs = ["n"]
    x = samples(2)
    before = evaluate_float(net, x)["n"]
    fold(net)
    np.testing.assert_allclose(evaluate_float(net, x)["n"], before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("largest", [1e-6, 0.3, 0.99, 1.0, 100.0, 255.0, 1e5])
def test_largest_fix_point_without_overflow(largest):
    position = no_overflow(largest)
    assert largest * 2.0**position <= 127.5 < largest * 2.0 ** (position + 1)


def test_fix_point_of_zeros_is_harmless():
    assert no_overflow(0.0) == 7


def test_best_fix_point_is_the_best_of_all(rng):
    array = rng.standard_normal(2000).astype(np.float32) * 3
    best = best_fix_point(array)
    errors = {position: squared_error(array, position) for position in range(-4, 16)}
    assert errors[best] == min(errors.values())
    assert best >= no_overflow(float(np.abs(array).max()))


def test_inputs_of_images_get_negative_fix_points():
    net = Net()
    net.conv("a", "x", 4)
    graph = net.done("a")
    x = np.random.default_rng(0).integers(0, 256, (16, 8, 8, 4)).astype(np.uint8)
    assert fixes(quantize(graph, {"x": x}))["x_fix"] == -1


def test_data_in_the_layout_of_the_onnx_model():
    graph = varied()
    graph.attrs["onnx_order"] = {"x": [0, 2, 3, 1]}
    x = np.random.default_rng(0).standard_normal((16, 8, 8, 4)).astype(np.float32)
    same = quantize(graph, {"x": x})
    order = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    assert fixes(quantize(graph, {"x": order})) == fixes(same)


@pytest.mark.parametrize("wide_first", [False, True])
def test_nothing_of_a_group_overflows(wide_first):
    net = Net()
    names = []
    for name, scale in (("wide", 30.0), ("narrow", 1.0)):
        net.conv(name, "x", 4, scale=scale)
        names.append(net.put(f"{name}_r", "relu", [name]))
    names = names if wide_first else names[::-1]
    net.put("k", "concat", names, {"axis": 3}, (1, 8, 8, 8))
    net.conv("end", "k", 4)
    x = samples()
    largest = evaluate_float(net.done("wide_r"), x)["wide_r"].max()
    points = fixes(quantize(net.done("end"), x, method="nonoverflow", cross_layer=False))
    assert points["wide_r_fix"] == points["narrow_r_fix"] == no_overflow(float(largest))


def test_what_a_pool_leaves_out_does_not_overflow_either():
    """Large negative values are in its input only, which has the position of its result."""
    net = Net()
    net.conv("a", "x", 4, scale=20.0)
    net["a_b"].value = np.full(4, -30, np.float32)
    net.put("m", "maxpool2d", ["a"], POOL, (1, 4, 4, 4))
    x = samples()
    found = evaluate_float(net.done("a", "m"), x)
    lowest, largest = -found["a"].min(), np.abs(found["m"]).max()
    assert no_overflow(float(lowest)) < no_overflow(float(largest))
    options = {"bias_correction": False, "refinement": False}
    points = fixes(quantize(net.done("m"), x, method="nonoverflow", **options))
    assert points["a_fix"] == points["m_fix"] == no_overflow(float(lowest))


def test_of_two_equally_common_positions_the_smaller_one_is_taken():
    """It saturates less. One batch has values up to 1, the other one up to a quarter."""
    net = Net()
    net.conv("a", "x", 4)
    values = np.random.default_rng(3).uniform(-1, 1, (2, 8, 8, 4)).astype(np.float32)
    values[1] /= 4
    own = [best_fix_point(batch) for batch in values]
    assert own[0] < own[1]
    for order in (1, -1):
        x = {"x": values[::order]}
        options = {"bias_correction": False, "refinement": False, "cross_layer": False}
        quantized = quantize(net.done("a"), x, method="diffs", batch=1, **options)
        assert fixes(quantized)["x_fix"] == own[0]


def test_batches_do_not_matter_for_the_least_error():
    graph, x = varied(), samples(20)
    assert fixes(quantize(graph, x, batch=3)) == fixes(quantize(graph, x, batch=20))


@pytest.mark.parametrize(
    ("calib", "text"),
    [
        ({}, "input 'x' of graph 'net' is missing"),
        ({"y": np.zeros((3, 8, 8, 4))}, "'y' is no input of graph 'net'; its inputs are: x"),
        ({"x": np.zeros((3, 9, 8, 4))}, "input 'x' has shape [3, 9, 8, 4], but must be [N, 8"),
        ({"x": np.zeros((0, 8, 8, 4))}, "calibration data of 'x' holds no samples"),
        ({"x": np.full((1, 8, 8, 4), np.nan)}, "calibration data of 'x' is not finite"),
        ({"x": np.array(["a"])}, "calibration data of 'x' has type <U1, but must be numbers"),
    ],
)
def test_bad_calibration_data(calib, text):
    with pytest.raises(TensorError) as caught:
        quantize(varied(), calib)
    assert text in str(caught.value)


def test_unknown_method():
    with pytest.raises(UnsupportedError, match="method 'kl' is unknown; choose one of minmse"):
        quantize(varied(), samples(), method="kl")


def test_refinement_lowers_the_error_of_the_results():
    """On the calibration data itself, which is what it looks at."""
    graph, x = varied(5), samples(32)
    expected = evaluate_float(graph, x, keep=["g"])["g"]
    errors = []
    for refinement in (False, True):
        quantized = quantize(graph, x, refinement=refinement, bias_correction=False)
        found = evaluate_float(quantized, x, keep=["g_fix"])["g_fix"]
        errors.append(((found - expected) ** 2).sum())
    assert errors[1] < errors[0]


@pytest.mark.parametrize("seed", [4, 9])
def test_refinement_one_sample_at_a_time_finds_the_same(monkeypatch, seed):
    """As it is done where operators would join samples that are evaluated together."""
    monkeypatch.setattr(corrected, "WORK", 0)  # whatever the samples held out say
    together = fixes(quantize(varied(seed), samples(16), weight_correction=False))
    assert together != fixes(
        quantize(varied(seed), samples(16), refinement=False, weight_correction=False)
    )
    for module in (refine, executor):
        monkeypatch.setattr(module, "mixes_samples", lambda graph, names: True)
    assert fixes(quantize(varied(seed), samples(16), weight_correction=False)) == together


def test_refinement_leaves_inputs_within_their_range():
    """Programs convert inputs, and most let wrap what is beyond: 1 must not become -128."""
    net = FloatGraph("gates")
    net.add("x", "data", (1, 1, 1, 2))
    layers = (
        ("h", "x", [[1, 1], [1, 1]], [0, -1]),
        ("y", "r", [[0, 4], [4, -4], [4, -8]], [-2, -2, -2]),  # and, or, exclusive or
    )
    for name, source, weights, bias in layers:
        inputs = {
            "input": [source],
            "weights": [net.add_const(f"{name}_w", np.float32(weights)[:, None, None]).name],
            "bias": [net.add_const(f"{name}_b", np.float32(bias)).name],
        }
        net.add(name, "conv2d", (1, 1, 1, len(bias)), inputs, POINT)
        if name == "h":
            net.add("r", "relu", (1, 1, 1, 2), {"input": ["h"]})
    net.outputs = ["y"]
    x = np.float32([[0, 0], [0, 1], [1, 0], [1, 1]]).reshape(4, 1, 1, 2)
    graph = quantize(net, {"x": x})
    assert fixes(graph)["x_fix"] == no_overflow(1.0) == 6
    found = evaluate_quantized(graph, {"x": x})
    ((_, answers),) = found.items() if isinstance(found, dict) else [("y", found)]
    assert ((answers.reshape(4, 3) > 0) == [[0, 0, 0], [0, 1, 1], [0, 1, 1], [1, 1, 0]]).all()


def test_network_without_quantized_results():
    net = Net()
    net.put("s", "softmax", ["x"], {"axis": 3})
    graph = quantize(net.done("s"), samples(4))
    assert fixes(graph) == {}
    x = samples(2)
    np.testing.assert_allclose(
        evaluate_quantized(graph, x)["s"], evaluate_float(net, x)["s"], rtol=1e-6
    )


@pytest.mark.parametrize(("limit", "most", "on"), [("WORK", (0.0, 2e6), 12), ("MOST_OPS", 12, 12)])
def test_refinement_has_a_bound_and_says_what_it_leaves_out(monkeypatch, limit, most, on):
    """Trying fix points of a large or deep network takes minutes; the least certain are tried."""
    samples = {"x": np.random.default_rng(0).standard_normal((12, 8, 8, 4))}
    assert quantize_with_report(varied(), samples).report.notes == []
    whole, trials = refine.plan_trials, []

    def planned(*given):
        trials.append(whole(*given))
        return trials[-1]

    monkeypatch.setattr(refine, "plan_trials", planned)
    monkeypatch.setattr(trials_of, limit, most)
    notes = quantize_with_report(varied(), samples).report.notes
    (plan,) = trials
    assert plan.samples == on
    assert 0 < len(plan.groups) < len(plan.groups) + plan.left_out
    assert notes == [
        f"refinement tried {len(plan.groups)} of {len(plan.groups) + plan.left_out} groups of "
        "tensors, those whose fix points are least certain"
    ]


def test_large_constants_are_judged_by_a_part(monkeypatch):
    array = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    whole = best_fix_point(array)
    monkeypatch.setattr(grid, "MOST_ELEMENTS", 1000)
    assert grid.thinned(array).size == 1000
    assert best_fix_point(array) == whole


def test_huge_values_take_the_smallest_fix_point():
    array = np.array([3e30, -1e30], np.float32)
    assert squared_error(array, FIX_POINTS[0]) == np.inf
    assert best_fix_point(array) == FIX_POINTS[0]


def test_graphs_that_would_join_samples_are_evaluated_one_by_one():
    """A reshape that has another first axis than the batch, and a maximum over it."""
    for kind, attrs, shape in (
        ("reshape", {"shape": [8, 32]}, (8, 32)),
        ("reduction_max", {"axis": [0], "keep_dims": True}, (1, 8, 8, 4)),
    ):
        net = Net()
        net.conv("a", "x", 4)
        net.put("y", kind, ["a"], attrs, shape)
        graph = net.done("y")
        samples = {"x": np.random.default_rng(0).standard_normal((5, 8, 8, 4))}
        quantized = quantize(graph, samples)
        one = {"x": samples["x"][:1].astype(np.float32)}
        (found,), (wanted,) = (f(g, one).values() for f, g in (
            (evaluate_float, quantized), (evaluate_float, graph)))  # fmt: skip
        assert np.abs(found - wanted).max() < 0.1
