# SPDX-License-Identifier: Apache-2.0
"""Files of operator sets 1 to 6, against what ONNX's changelog says of each operator."""

import math
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.api import compile_onnx
from opendpu.frontend import load_onnx
from opendpu.frontend.upgrade import upgraded
from opendpu.ops.session import Session

SETS = range(1, 7)
SHAPE = (1, 4, 6, 5)


def model(nodes, weights, opset, shape=SHAPE, ir_version=3):
    """Make a file of these years: weights are inputs as well."""
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", opset)] if ir_version >= 3 else []
    made = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    if not imports:
        del made.opset_import[:]
    return made


def run(made, x):
    """Return what onnxruntime computes of the file as set 7; it must load as a graph, too."""
    load_onnx(made)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    newer = upgraded(made).SerializeToString()
    session = onnxruntime.InferenceSession(newer, options, ["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.fixture
def x(rng):
    return rng.normal(size=SHAPE).astype(np.float32)


def one(op_type, *more, **attrs):
    return [helper.make_node(op_type, ["x", *more], ["y"], **attrs)]


@pytest.mark.parametrize("opset", SETS)
@pytest.mark.parametrize(
    ("shape", "axis", "wide"),
    [((4,), 1, (4, 1, 1)), ((4, 6), 1, (4, 6, 1)), ((6, 5), None, (6, 5)), ((5,), 3, (5,)),
     ((1,), 0, (1, 1, 1)), ((6,), -2, (6, 1)), (SHAPE, 0, SHAPE)],
)  # fmt: skip
def test_axes_that_meet_from_one_on(x, rng, opset, shape, axis, wide):
    b = rng.normal(size=shape).astype(np.float32)
    attrs = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    used = {"consumed_inputs": [0]} if opset < 6 else {}
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], **used),
        helper.make_node("Sub", ["r", "b"], ["y"], **attrs),
    ]
    found = run(model(nodes, {"b": b}, opset), x)
    np.testing.assert_array_equal(found, np.maximum(x, 0) - b.reshape(wide))


def test_axes_that_meet_of_two_feature_maps(x):
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["g"]),
        helper.make_node("Reshape", ["g"], ["f"], shape=[1, -1]),
        helper.make_node("Mul", ["x", "f"], ["y"], broadcast=1, axis=0),
    ]
    found = run(model(nodes, {}, 1), x)
    np.testing.assert_allclose(found, x * x.mean((2, 3), keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("opset", SETS)
def test_slopes_of_channels(x, opset):
    slopes = np.array([0.1, -0.2, 0.3, 0.5], np.float32)
    found = run(model(one("PRelu", "s"), {"s": slopes}, opset), x)
    np.testing.assert_array_equal(found, np.where(x < 0, x * slopes.reshape(4, 1, 1), x))


@pytest.mark.parametrize(("opset", "to"), [(1, "INT32"), (5, "int32"), (6, TensorProto.INT32)])
def test_types_by_name(x, opset, to):
    found = run(model(one("Cast", to=to), {}, opset), x)
    np.testing.assert_array_equal(found, x.astype(np.int32))


def test_shapes_as_attributes(x):
    found = run(model(one("Reshape", shape=[0, 2, -1], consumed_inputs=[0]), {}, 4), x)
    np.testing.assert_array_equal(found, x.reshape(1, 2, -1))


def test_padding_by_its_first_name(x):
    found = run(model(one("Pad", paddings=[0, 0, 1, 2, 0, 0, 0, 3], value=2.0), {}, 1), x)
    wanted = np.pad(x, [(0, 0), (0, 0), (1, 0), (2, 3)], constant_values=2)
    np.testing.assert_array_equal(found, wanted)


def test_parts_by_an_input(x):
    nodes = [helper.make_node("Split", ["x", "n"], ["y", "rest"], axis=1)]
    found = run(model(nodes, {"n": np.array([1, 3])}, 1), x)
    np.testing.assert_array_equal(found, x[:, :1])


def test_copies_along_an_axis(x):
    weights = {"tiles": np.array([3]), "axis": np.array([2])}
    found = run(model(one("Tile", "tiles", "axis"), weights, 1), x)
    np.testing.assert_array_equal(found, np.tile(x, (1, 1, 3, 1)))


def test_enlargement_by_two_factors(x):
    nodes = one("Upsample", height_scale=2.0, width_scale=3.0, mode="nearest")
    found = run(model(nodes, {}, 1), x)
    np.testing.assert_array_equal(found, x.repeat(2, 2).repeat(3, 3))


def test_defaults_of_set_1(x):
    nodes = [
        helper.make_node("Selu", ["x"], ["s"]),
        helper.make_node("Concat", ["s", "x"], ["c"]),
        helper.make_node("GlobalLpPool", ["c"], ["y"]),
    ]
    selu = np.where(x > 0, x, 1.6732 * (np.exp(np.minimum(x, 0)) - 1)) * 1.0507
    wanted = np.sqrt((np.concatenate([selu, x], 1) ** 2).sum((2, 3), keepdims=True))
    np.testing.assert_allclose(run(model(nodes, {}, 1), x), wanted, rtol=1e-5)


@pytest.mark.parametrize("opset", [1, 5, 6])
def test_what_only_training_makes(x, rng, opset):
    """Running means and masks, which files name as results though nobody reads them."""
    numbers = {name: rng.uniform(0.5, 1, 4).astype(np.float32) for name in "sbmv"}
    used = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset < 6 else {}
    results = ["n", "m2", "v2", "m3", "v3"]
    nodes = [
        helper.make_node("BatchNormalization", ["x", *"sbmv"], results, is_test=0, **used),
        helper.make_node("Dropout", ["n"], ["y", "mask"], is_test=1, ratio=0.5),
    ]  # fmt: skip
    found = run(model(nodes, numbers, opset), x)
    s, b, m, v = (numbers[name].reshape(4, 1, 1) for name in "sbmv")
    np.testing.assert_allclose(found, (x - m) / np.sqrt(v + 1e-5) * s + b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [1, 6])
def test_dense_layers(x, rng, opset):
    w, c = (rng.normal(size=size).astype(np.float32) for size in ((3, 120), 3))
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"], axis=1),
        helper.make_node("Gemm", ["f", "w", "c"], ["y"], transB=1, broadcast=1),
    ]
    found = run(model(nodes, {"w": w, "c": c}, opset), x)
    np.testing.assert_allclose(found, x.reshape(1, -1) @ w.T + c, rtol=1e-4, atol=1e-4)


def test_files_older_than_operator_sets(x):
    made = model(one("Relu", consumed_inputs=[0]), {}, 1, ir_version=2)
    np.testing.assert_array_equal(run(made, x), np.maximum(x, 0))


@pytest.mark.parametrize("opset", [1, 7, 9])
@pytest.mark.parametrize(
    ("op_type", "attrs", "wanted"),
    [
        ("Affine", {"alpha": 2.0, "beta": -1.0}, lambda x: 2 * x - 1),
        ("ImageScaler", {"scale": 0.5, "bias": [0.0, 1.0, 2.0, 3.0]},
         lambda x: x / 2 + np.arange(4).reshape(4, 1, 1)),
        ("Scale", {"scale": 3.0}, lambda x: 3 * x),
        ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}, lambda x: 2 * np.tanh(x / 2)),
        ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}, lambda x: 2 * np.log1p(np.exp(x / 2))),
        ("Crop", {"border": [1, 2, 0, 1]}, lambda x: x[:, :, 2:-1, 1:]),
        ("Crop", {"border": [1, 2, 0, 0], "scale": [3, 2]}, lambda x: x[:, :, 2:5, 1:3]),
    ],
)  # fmt: skip
def test_operators_that_were_taken_back(x, opset, op_type, attrs, wanted):
    found = run(model(one(op_type, **attrs), {}, opset), x)
    np.testing.assert_allclose(found, wanted(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [1, 7, 8])
def test_normalization_of_every_element(x, rng, opset):
    shapes = dict.fromkeys("sbmv", SHAPE[1:])
    weights = {k: rng.uniform(0.5, 2, s).astype(np.float32) for k, s in shapes.items()}
    nodes = one("BatchNormalization", *weights, spatial=0, epsilon=1e-3)
    s, b, m, v = weights.values()
    wanted = (x - m) / np.sqrt(v + 1e-3) * s + b
    np.testing.assert_allclose(run(model(nodes, weights, opset), x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [6, 13])
@pytest.mark.parametrize(
    ("op_type", "attrs", "wanted"),
    [
        ("HardSwish", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
        ("Swish", {}, lambda x: x / (1 + np.exp(-x))),
        ("Swish", {"alpha": 1.7}, lambda x: x / (1 + np.exp(-1.7 * x))),
        ("Mish", {}, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
        ("Gelu", {"approximate": "tanh"},
         lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    ],
)  # fmt: skip
def test_activations_that_the_set_does_not_have_yet(x, opset, op_type, attrs, wanted):
    found = run(model(one(op_type, **attrs), {}, opset), x)
    np.testing.assert_allclose(found, wanted(x), rtol=1e-4, atol=1e-5)


def test_gelu_in_a_set_that_does_not_have_it_yet(x):
    found = run(model(one("Gelu"), {}, 13), x)
    curve = np.vectorize(math.erf)(x / np.sqrt(2))
    np.testing.assert_allclose(found, x / 2 * (1 + curve), rtol=1e-4, atol=1e-5)


def test_a_network_of_set_3_compiles(tmp_path, rng):
    """As Caffe2 wrote them: biases are sums, and every operator says what it overwrites."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Add", ["c", "b"], ["s"], broadcast=1, axis=1),
        helper.make_node("Relu", ["s"], ["r"], consumed_inputs=[0]),
        helper.make_node("Conv", ["r", "v"], ["y"], kernel_shape=[1, 1]),
    ]
    weights = {name: rng.normal(size=size).astype(np.float32) for name, size in
               (("w", (8, 4, 3, 3)), ("b", 8), ("v", (6, 8, 1, 1)))}  # fmt: skip
    path = pathlib.Path(tmp_path / "old.onnx")
    onnx.save(model(nodes, weights, 3), path)
    data = {"x": rng.normal(size=(4, *SHAPE[1:])).astype(np.float32)}
    output = tmp_path / "old.xmodel"
    report = compile_onnx(path, calibration=data, target="B512", output=output)
    assert output.exists()
    assert [p.device for p in report.subgraphs if p.device != "USER"] == ["DPU"]


@pytest.mark.parametrize("opset", [7, 9])
def test_an_operator_on_trial_that_a_later_set_has_is_that_one(rng, opset):
    """It stands beside others in one session."""
    nodes = [
        helper.make_node("ThresholdedRelu", ["x"], ["t"], alpha=0.4),
        helper.make_node("Exp", ["t"], ["y"]),
    ]
    x = rng.normal(size=SHAPE).astype(np.float32)
    graph = load_onnx(model(nodes, {}, opset))
    (found,) = Session(graph).run({"x": x}).values()
    np.testing.assert_allclose(found, np.exp(np.where(x > 0.4, x, 0)), rtol=1e-5)
