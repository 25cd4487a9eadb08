# SPDX-License-Identifier: Apache-2.0
"""Every operator against onnxruntime, in small NCHW models."""

import numpy as np
import pytest
from onnx import helper

node = helper.make_node
X = [1, 4, 9, 7]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def kinds(graph) -> list[str]:
    return [node.kind for node in graph if node.kind not in ("data", "const")]


@pytest.mark.parametrize(
    ("attrs", "weights", "kind"),
    [
        ({}, (6, 4, 3, 3), "conv2d"),
        ({"pads": [1, 2, 0, 1], "strides": [2, 1]}, (6, 4, 3, 3), "conv2d"),
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (6, 4, 3, 3), "conv2d"),
        ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (6, 4, 4, 4), "conv2d"),
        ({"auto_pad": "VALID"}, (6, 4, 3, 3), "conv2d"),
        ({"dilations": [2, 3]}, (6, 4, 3, 2), "conv2d"),
        ({"group": 4, "pads": [1, 1, 1, 1]}, (4, 1, 3, 3), "depthwise-conv2d"),
        ({"group": 4, "strides": [1, 2]}, (8, 1, 3, 3), "conv2d"),
        ({"group": 2}, (6, 2, 3, 3), "conv2d"),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_conv(save, agrees, attrs, weights, kind, bias):
    constants = {"w": random(*weights)}
    if bias:
        constants["b"] = random(weights[0])
    path = save(
        [node("Conv", ["x", *constants], ["y"], name="c", **attrs)],
        {"x": X},
        {"y": None},
        constants,
    )
    assert kinds(agrees(path)) == [kind]


@pytest.mark.parametrize(
    ("attrs", "weights", "kept"),
    [
        ({"pads": [1, 1, 1, 1]}, (6, 4, 1, 1), [0, 0, 0, 0]),
        ({"pads": [2, 0, 1, 1], "strides": [1, 2]}, (6, 4, 1, 2), [0, 1, 0, 0]),
        ({"pads": [1, 3, 0, 2], "dilations": [1, 1]}, (6, 4, 3, 3), [0, 0, 1, 0]),
        ({"pads": [4, 4, 4, 4], "dilations": [2, 2]}, (6, 4, 3, 3), [4, 4, 4, 4]),
        ({"pads": [5, 4, 5, 4], "dilations": [2, 2], "group": 4}, (4, 1, 3, 3), [4, 4, 0, 0]),
        ({"pads": [10, 0, 0, 0]}, (6, 4, 1, 1), [0, 0, 10, 0]),  # more than the map: not worth it
    ],
)
def test_padding_as_large_as_the_kernel_is_an_op_of_its_own(save, agrees, attrs, weights, kept):
    path = save(
        [node("Conv", ["x", "w"], ["y"], **attrs)], {"x": X}, {"y": None}, {"w": random(*weights)}
    )
    graph = agrees(path)
    (conv,) = (found for found in graph if found.kind.endswith("conv2d"))
    assert conv.attrs["pad"] == kept
    assert ("pad" in kinds(graph)) == (sum(kept) < sum(attrs["pads"]))


def test_a_pad_that_a_kernel_cannot_take_stays(save, agrees):
    path = save(
        [
            node("Pad", ["x"], ["a"], pads=[0, 0, 1, 1, 0, 0, 1, 1], name="border"),
            node("Conv", ["a", "w"], ["y"]),
        ],
        {"x": X},
        {"y": None},
        {"w": random(6, 4, 1, 1)},
        opset=10,
    )
    assert kinds(agrees(path)) == ["pad", "conv2d"]


def test_conv_of_one_dimension(save, agrees):
    path = save(
        [
            node("Conv", ["x", "w"], ["y"], pads=[1, 2], strides=[2]),
            node("MaxPool", ["y"], ["z"], kernel_shape=[2]),
        ],
        {"x": [1, 3, 20]},
        {"z": None},
        {"w": random(5, 3, 4)},
    )
    agrees(path)


@pytest.mark.parametrize(
    ("attrs", "weights"),
    [
        ({"strides": [2, 2]}, (4, 6, 2, 2)),
        ({"strides": [2, 3], "pads": [1, 0, 1, 2]}, (4, 6, 4, 5)),
        ({"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}, (4, 3, 3, 3)),
    ],
)
def test_conv_transpose(save, agrees, attrs, weights):
    path = save(
        [node("ConvTranspose", ["x", "w"], ["y"], **attrs)],
        {"x": X},
        {"y": None},
        {"w": random(*weights)},
    )
    assert kinds(agrees(path)) == ["transposed-conv2d"]


@pytest.mark.parametrize("shape", [X, [1, 4], [1, 4, 5]])
def test_batch_normalization(save, agrees, shape):
    constants = {name: random(4) for name in ("s", "b", "m")} | {"v": np.abs(random(4)) + 0.1}
    path = save(
        [node("BatchNormalization", ["x", *constants], ["y"])], {"x": shape}, {"y": None}, constants
    )
    agrees(path)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": [2, 3]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ],
)
def test_pool(save, agrees, kind, attrs):
    agrees(save([node(kind, ["x"], ["y"], **attrs)], {"x": X}, {"y": None}))


def test_pool_without_windows_behind_the_map(save, agrees):
    """onnx's shape inference counts one more; onnxruntime and ONNX's definition do not."""
    attrs = {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1}
    nodes = [node("MaxPool", ["x"], ["p"], **attrs), node("Relu", ["p"], ["y"])]
    graph = agrees(save(nodes, {"x": [1, 4, 8, 8]}, {"y": None}))
    assert [node.shape for node in graph][-1] == (1, 4, 4, 4)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("count", [0, 1])
def test_pool_larger_than_the_map(save, agrees, kind, count):
    """The head of transformers' EfficientNet: a window of as many pixels as there are channels."""
    attrs = {"kernel_shape": [640, 640], "strides": [640, 640], "ceil_mode": 1}
    if kind == "AveragePool":
        attrs["count_include_pad"] = count
    graph = agrees(save([node(kind, ["x"], ["y"], **attrs)], {"x": X}, {"y": None}))
    (pool,) = (made for made in graph if made.kind in ("maxpool2d", "avgpool2d"))
    assert pool.attrs["kernel"] == [X[3], X[2]]


def test_average_pool_that_counts_the_padding(save, agrees):
    attrs = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    agrees(save([node("AveragePool", ["x"], ["y"], **attrs)], {"x": X}, {"y": None}))


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pool(save, agrees, kind):
    agrees(save([node(kind, ["x"], ["y"])], {"x": X}, {"y": None}))


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("axes", "kind"), [([2, 3], "avgpool2d"), ([1], "reduction_mean")])
def test_reduce_mean(save, agrees, keepdims, axes, kind):
    path = save(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("ReduceMean", ["c"], ["y"], axes=axes, keepdims=keepdims),
        ],
        {"x": X},
        {"y": None},
        {"w": random(5, 4, 1, 1)},
    )
    assert kind in kinds(agrees(path))


def test_reduce_mean_with_axes_as_input(save, agrees):
    path = save(
        [node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)],
        {"x": X},
        {"y": None},
        {"axes": np.array([-1, -2])},
        opset=18,
    )
    agrees(path)


@pytest.mark.parametrize(
    ("op", "attrs", "kind"),
    [
        ("Relu", {}, "relu"),
        ("LeakyRelu", {"alpha": 0.1}, "leaky-relu"),
        ("LeakyRelu", {}, "leaky-relu"),
        ("HardSwish", {}, "hard-swish"),
        ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, "hard-sigmoid"),
        ("Sigmoid", {}, "sigmoid"),
        ("Tanh", {}, "tanh"),
        ("Elu", {"alpha": 0.5}, "elu"),
        ("Exp", {}, "exp"),
        ("Neg", {}, "neg"),
    ],
)
def test_activation(save, agrees, op, attrs, kind):
    path = save([node(op, ["x"], ["y"], **attrs)], {"x": [1, 3, 2]}, {"y": None})
    assert kinds(agrees(path)) == [kind]


@pytest.mark.parametrize(("high", "kind"), [(6.0, "relu6"), (None, "relu")])
def test_clip(save, agrees, high, kind):
    weights = {"low": np.float32(0)} | ({} if high is None else {"high": np.float32(high)})
    path = save(
        [node("Clip", ["x", *weights], ["y"])],
        {"x": X},
        {"y": None},
        {k: np.array(v) for k, v in weights.items()},
    )
    assert kinds(agrees(path)) == [kind]


@pytest.mark.parametrize(
    ("shape", "slopes", "kind"),
    [
        (X, (1,), "leaky-relu"),
        (X, (1, 1, 1, 1), "leaky-relu"),
        (X, (4, 1, 1), "prelu"),
        (X, (1, 4, 1, 1), "prelu"),
        ([1, 4, 9], (4, 1), "prelu"),
        ([1, 4, 9], (1, 4, 1), "prelu"),
        ([1, 5], (5,), "prelu"),
        ([1, 5], (1, 5), "prelu"),
        ([1, 4, 3, 5, 2], (4, 1, 1, 1), "prelu"),
        (X, (4, 9, 7), "onnx"),
    ],
)
def test_prelu(save, agrees, shape, slopes, kind):
    path = save(
        [node("PRelu", ["x", "s"], ["y"])], {"x": shape}, {"y": None}, {"s": random(*slopes)}
    )
    moves = ("reshape", "transpose")
    assert [found for found in kinds(agrees(path)) if found not in moves] == [kind]


def test_prelu_behind_layers(save, agrees):
    """As exporters of Keras write it: slopes with the batch's axis, dense layers too."""
    path = save(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("PRelu", ["c", "s"], ["p"]),
            node("Transpose", ["p"], ["t"], perm=[0, 2, 3, 1]),
            node("Flatten", ["t"], ["f"]),
            node("MatMul", ["f", "v"], ["d"]),
            node("PRelu", ["d", "r"], ["y"]),
        ],
        {"x": X},
        {"y": None},
        {
            "w": random(6, 4, 3, 3),
            "s": random(1, 6, 1, 1),
            "v": random(6 * 7 * 5, 8),
            "r": random(8),
        },
    )
    found = [kind for kind in kinds(agrees(path)) if kind not in ("reshape", "flatten")]
    assert found == ["conv2d", "prelu", "inner-product", "prelu"]


@pytest.mark.parametrize(("opset", "axis"), [(13, 1), (13, -1), (11, 3)])
def test_softmax(save, agrees, opset, axis):
    path = save(
        [node("Conv", ["x", "w"], ["c"]), node("Softmax", ["c"], ["y"], axis=axis)],
        {"x": X},
        {"y": None},
        {"w": random(5, 4, 1, 1)},
        opset=opset,
    )
    agrees(path)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Min", "Max"])
def test_arithmetic_of_two_tensors(save, agrees, op):
    path = save(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("Exp", ["c"], ["e"]),
            node(op, ["x", "e"], ["y"]),
        ],
        {"x": X},
        {"y": None},
        {"w": random(4, 4, 1, 1) * 0.1},
    )
    agrees(path)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1, 1), (1,), (), (9, 7), (1, 4, 9, 7), (7,)])
@pytest.mark.parametrize("swapped", [False, True])
def test_arithmetic_with_a_constant(save, agrees, op, shape, swapped):
    inputs = ["k", "c"] if swapped else ["c", "k"]
    constant = np.array(np.abs(random(*shape)) + 0.5)
    path = save(
        [
            node("Conv", ["x", "w"], ["d"], pads=[1, 1, 1, 1]),
            node("Sigmoid", ["d"], ["c"]),
            node(op, inputs, ["y"]),
        ],
        {"x": X},
        {"y": None},
        {"w": random(4, 4, 3, 3) * 0.1, "k": constant},
    )
    agrees(path)


def test_addition_after_a_convolution_becomes_its_bias(save, agrees):
    path = save(
        [node("Conv", ["x", "w", "b"], ["c"]), node("Add", ["k", "c"], ["y"])],
        {"x": X},
        {"y": None},
        {"w": random(5, 4, 3, 3), "b": random(5), "k": random(5, 1, 1)},
    )
    assert kinds(agrees(path)) == ["conv2d"]


def test_addition_to_a_shared_convolution_stays(save, agrees):
    path = save(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("Add", ["c", "k"], ["y"]),
            node("Relu", ["c"], ["z"]),
        ],
        {"x": X},
        {"y": None, "z": None},
        {"w": random(5, 4, 3, 3), "k": random(5, 1, 1)},
    )
    assert sorted(kinds(agrees(path))) == ["conv2d", "relu", "scale"]


def test_squeeze_and_excitation(save, agrees):
    path = save(
        [
            node("GlobalAveragePool", ["x"], ["g"]),
            node("Conv", ["g", "w"], ["c"]),
            node("Sigmoid", ["c"], ["s"]),
            node("Mul", ["x", "s"], ["y"]),
        ],
        {"x": X},
        {"y": None},
        {"w": random(4, 4, 1, 1)},
    )
    agrees(path)


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_concat(save, agrees, axis):
    path = save(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("Relu", ["x"], ["r"]),
            node("Concat", ["r", "c", "x"], ["y"], axis=axis),
        ],
        {"x": X},
        {"y": None},
        {"w": random(4, 4, 1, 1)},
    )
    agrees(path)


@pytest.mark.parametrize("flat", ["Flatten", "Reshape"])
@pytest.mark.parametrize("relu", [False, True])
def test_fully_connected_after_a_feature_map_needs_no_transpose(save, agrees, flat, relu):
    inputs = ["c"] if flat == "Flatten" else ["c", "shape"]
    path = save(
        [
            node("Conv", ["x", "w"], ["c"]),
            node(flat, inputs, ["f"]),
            *([node("Relu", ["f"], ["g"])] if relu else []),
            node("Gemm", ["g" if relu else "f", "v", "b"], ["y"], transB=1, alpha=0.5, beta=2.0),
        ],
        {"x": X},
        {"y": None},
        {
            "w": random(3, 4, 2, 2),
            "v": random(10, 3 * 8 * 6),
            "b": random(10),
            "shape": np.array([0, -1]),
        },
    )
    assert "transpose" not in kinds(agrees(path))


def test_flatten_with_other_users_is_put_in_order(save, agrees):
    path = save(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("Flatten", ["c"], ["f"]),
            node("Softmax", ["f"], ["y"]),
        ],
        {"x": X},
        {"f": None, "y": None},
        {"w": random(3, 4, 2, 2)},
    )
    assert kinds(agrees(path)).count("transpose") == 1


@pytest.mark.parametrize("shape", [[1, 6], [1, 5, 6], [3, 6]])
def test_matmul_with_bias(save, agrees, shape):
    path = save(
        [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["y"])],
        {"x": shape},
        {"y": None},
        {"w": random(6, 4), "b": random(4)},
    )
    assert "scale" not in kinds(agrees(path))


def test_matmul_of_two_tensors(save, agrees):
    path = save(
        [node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("MatMul", ["x", "t"], ["y"])],
        {"x": [1, 5, 6]},
        {"y": None},
    )
    assert "matmul" in kinds(agrees(path))


def test_shape_operators(save, agrees):
    path = save(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("GlobalAveragePool", ["c"], ["g"]),
            node("Squeeze", ["g", "axes"], ["s"]),
            node("Unsqueeze", ["s", "axes"], ["u"]),
            node("Identity", ["u"], ["i"]),
            node("Conv", ["i", "v"], ["d"]),
            node("Dropout", ["d"], ["y"]),
        ],
        {"x": X},
        {"y": None},
        {"w": random(6, 4, 3, 3), "v": random(5, 6, 1, 1), "axes": np.array([2, 3])},
    )
    assert kinds(agrees(path)) == ["conv2d", "avgpool2d", "conv2d"]


def test_channels_last_model_has_no_transposes(save, agrees):
    """As tf2onnx writes it: transposes around everything spatial."""
    path = save(
        [
            node("Transpose", ["x"], ["a"], perm=[0, 3, 1, 2]),
            node("Conv", ["a", "w"], ["b"]),
            node("Relu", ["b"], ["c"]),
            node("Transpose", ["c"], ["d"], perm=[0, 2, 3, 1]),
            node("Add", ["d", "k"], ["e"]),
            node("Transpose", ["e"], ["f"], perm=[0, 3, 1, 2]),
            node("MaxPool", ["f"], ["g"], kernel_shape=[2, 2]),
            node("Transpose", ["g"], ["y"], perm=[0, 2, 3, 1]),
        ],
        {"x": [1, 9, 7, 4]},
        {"y": None},
        {"w": random(6, 4, 3, 3), "k": random(6)},
    )
    graph = agrees(path)
    assert kinds(graph) == ["conv2d", "relu", "scale", "maxpool2d"]
    assert "onnx_order" not in graph.attrs


@pytest.mark.parametrize("extra", [{}, {"value": np.array(0.5, np.float32)}])
def test_pad(save, agrees, extra):
    path = save(
        [
            node("Pad", ["x", "p", *extra], ["a"]),
            node("Conv", ["a", "w"], ["y"], pads=[0, 1, 0, 0]),
        ],
        {"x": X},
        {"y": None},
        {"w": random(6, 4, 3, 3), "p": np.array([0, 0, 1, 1, 0, 0, 0, 2]), **extra},
    )
    assert kinds(agrees(path)) == (["pad", "conv2d"] if extra else ["conv2d"])


@pytest.mark.parametrize(
    ("pads", "mode", "made"),
    [
        ([0, 0, 1, 1, 0, 0, 1, 1], "edge", ["pad"]),
        ([0, 0, 3, 0, 0, 0, 1, 2], "edge", ["pad"] * 3),
        ([0, 0, 0, 0, 0, 0, 0, 0], "edge", ["pad"]),
        ([0, 0, 9, 0, 0, 0, 0, 0], "edge", ["onnx"]),
        ([0, 0, -1, 2, 0, 0, 1, -2], "edge", ["strided_slice", "pad", "pad"]),
        ([0, -1, 0, 0, 0, 0, 0, 2], "constant", ["strided_slice", "pad"]),
        ([0, 0, 1, 0, 0, 0, 0, -3], "reflect", ["strided_slice", "pad"]),
    ],
)
def test_pads_of_every_mode_and_sign(save, agrees, pads, mode, made):
    path = save([node("Pad", ["x"], ["y"], pads=pads, mode=mode)], {"x": X}, {"y": None}, opset=10)
    assert kinds(agrees(path)) == made


@pytest.mark.parametrize(
    "attrs",
    [
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
        {"mode": "nearest"},
        {"mode": "linear"},
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ],
)
@pytest.mark.parametrize("sized", [False, True])
def test_resize(save, agrees, attrs, sized):
    inputs = ["x", "", "", "sizes"] if sized else ["x", "", "scales"]
    path = save(
        [node("Resize", inputs, ["y"], **attrs)],
        {"x": X},
        {"y": None},
        {"scales": np.array([1, 1, 2, 2], np.float32), "sizes": np.array([1, 4, 18, 14])},
    )
    assert kinds(agrees(path)) == ["resize"]


LINEAR = {"mode": "linear"}


@pytest.mark.parametrize(
    ("attrs", "sizes", "kind"),
    [
        ({"axes": [2, 3]}, [18, 21], "resize"),
        ({"axes": [3]}, [14], "resize"),
        ({"axes": [2, 3], "coordinate_transformation_mode": "align_corners"}, [5, 11], "resize"),
        ({"axes": [2, 3]}, [13, 5], "resize"),
        ({"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}, [18, 28], "onnx"),
        ({"axes": [2, 3], "antialias": 1}, [4, 3], "matmul"),
        (
            {"axes": [2, 3], "coordinate_transformation_mode": "pytorch_half_pixel"},
            [1, 1], "matmul",
        ),
    ],
)  # fmt: skip
def test_resize_of_some_axes(save, agrees, attrs, sizes, kind):
    last = node("Resize", ["x", "", "", "sizes"], ["y"], **LINEAR, **attrs)
    graph = agrees(save([last], {"x": X}, {"y": None}, {"sizes": np.array(sizes)}, opset=18))
    assert {k for k in kinds(graph) if k in ("resize", "onnx", "matmul")} == {kind}


def test_slice(save, agrees):
    path = save(
        [node("Conv", ["x", "w"], ["c"]), node("Slice", ["c", "s", "e", "a", "t"], ["y"])],
        {"x": X},
        {"y": None},
        {
            "w": random(6, 4, 1, 1),
            "s": np.array([1, -5]),
            "e": np.array([5, 100]),
            "a": np.array([1, 2]),
            "t": np.array([1, 2]),
        },
    )
    agrees(path)


@pytest.mark.parametrize("index", [np.array(2), np.array(-1), np.array([1, 3]), np.array([4])])
@pytest.mark.parametrize("axis", [1, 2])
def test_gather_in_steps_is_a_slice(save, agrees, index, axis):
    path = save(
        [node("Conv", ["x", "w"], ["c"]), node("Gather", ["c", "i"], ["y"], axis=axis)],
        {"x": X},
        {"y": None},
        {"w": random(6, 4, 1, 1), "i": index},
    )
    assert "strided_slice" in kinds(agrees(path))


@pytest.mark.parametrize(
    ("index", "parts"), [([3, 1], 2), ([0, 1, 3], 2), ([5, 4, 3, 3, 1, 2], 5), ([0, 2, 1, 3], 2)]
)
@pytest.mark.parametrize("axis", [1, 3])
def test_gather_in_other_steps_joins_slices(save, agrees, index, parts, axis):
    path = save(
        [node("Conv", ["x", "w"], ["c"]), node("Gather", ["c", "i"], ["y"], axis=axis)],
        {"x": X},
        {"y": None},
        {"w": random(6, 4, 1, 1), "i": np.array(index)},
    )
    found = kinds(agrees(path))
    assert (found.count("strided_slice"), found.count("concat")) == (parts, 1)


@pytest.mark.parametrize("axis", [1, 2])
def test_slice_from_the_end_to_the_beginning(save, agrees, axis):
    path = save(
        [node("Conv", ["x", "w"], ["c"]), node("Slice", ["c", "s", "e", "a", "t"], ["y"])],
        {"x": X},
        {"y": None},
        {
            "w": random(6, 4, 1, 1), "s": np.array([-1, 1]), "e": np.array([-1 << 31, 4]),
            "a": np.array([axis, 3]), "t": np.array([-2, 1]),
        },
    )  # fmt: skip
    assert "onnx" not in kinds(agrees(path))


@pytest.mark.parametrize("index", [np.array([[1], [2]]), np.zeros(65, int)])
def test_other_gathers_stay_onnx(save, agrees, index):
    path = save(
        [node("Conv", ["x", "w"], ["c"]), node("Gather", ["c", "i"], ["y"], axis=1)],
        {"x": X},
        {"y": None},
        {"w": random(6, 4, 1, 1), "i": index},
    )
    assert "strided_slice" not in kinds(agrees(path))


@pytest.mark.parametrize(
    ("shape", "kept"), [([1, 6, 4, 4], False), ([1, 1, 1, 6, 1, 1], False), ([1, 6, 4, 4], True)]
)
def test_expand_that_repeats_nothing_is_a_view(save, agrees, shape, kept):
    """As JAX writes it in front of most of what it broadcasts; what repeats becomes copies."""
    before = [node("Conv", ["x", "w"], ["c"])]
    before += [node("GlobalAveragePool", ["c"], ["g"])] if kept or len(shape) > 4 else []
    source = before[-1].output[0]
    path = save(
        [*before, node("Expand", [source, "s"], ["y"])], {"x": [1, 4, 4, 4]}, {"y": None},
        {"w": random(6, 4, 1, 1), "s": np.array(shape)},
    )  # fmt: skip
    found = kinds(agrees(path))
    assert ("concat" in found) == kept
    assert "onnx" not in found


@pytest.mark.parametrize(
    ("op_type", "numbers", "copied"),
    [
        ("Expand", [5, 3, 4, 7], True), ("Expand", [17, 1, 1, 1], False),
        ("Tile", [3, 2, 1, 1], True), ("Tile", [1, 1, 1, 1], True), ("Tile", [1, 1, 1, 17], False),
    ],
)  # fmt: skip
def test_what_repeats_is_copies_or_stays_onnx(save, agrees, op_type, numbers, copied):
    path = save(
        [node("Relu", ["x"], ["r"]), node(op_type, ["r", "n"], ["y"])],
        {"x": [1, 3, 4, 1] if op_type == "Expand" else X}, {"y": None}, {"n": np.array(numbers)},
    )  # fmt: skip
    assert ("onnx" not in kinds(agrees(path))) == copied


@pytest.mark.parametrize(
    ("left", "right", "layer"),
    [
        ([1, 5, 4, 6], (1, 1, 6, 3), True), ([1, 5, 6], (1, 6, 3), True), ([1, 5, 6], (6,), True),
        ([1, 6], (6,), True), ([5, 6], (1, 6, 3), False), ([1, 2, 5, 6], (1, 2, 6, 3), False),
    ],
)  # fmt: skip
def test_one_constant_matrix_for_all_samples_is_a_layer(save, agrees, left, right, layer):
    """Else a matrix of each batch is a product of its own, of four rows where boxes have sides."""
    path = save(
        [node("Relu", ["x"], ["r"]), node("MatMul", ["r", "w"], ["y"])], {"x": left}, {"y": None},
        {"w": random(*right)},
    )  # fmt: skip
    assert ("matmul" not in kinds(agrees(path))) == layer


def test_one_number_for_all_tokens_moves_no_axis(save, agrees):
    """Written with an axis of one number a token, as a softmax of single scores folds to."""
    path = save(
        [node("MatMul", ["x", "w"], ["m"]), node("Mul", ["m", "c"], ["y"])], {"x": [1, 7, 4]},
        {"y": None}, {"w": random(4, 6), "c": np.full((1, 7, 1), 0.5, np.float32)},
    )  # fmt: skip
    assert "transpose" not in kinds(agrees(path))


@pytest.mark.parametrize("shape", [[1, 7, 1], [1, 1, 4]])
def test_softmax_of_single_scores_is_one(save, agrees, shape):
    path = save(
        [node("Relu", ["x"], ["r"]), node("Softmax", ["r"], ["s"], axis=shape.index(1, 1)),
         node("Add", ["s", "r"], ["y"])],
        {"x": shape}, {"y": None}, {},
    )  # fmt: skip
    assert "softmax" not in kinds(agrees(path))


def test_a_sum_of_two_that_repeat_keeps_the_order_of_axes(save, agrees):
    """SAM's decomposed positions, a number for each row and each column of the keys."""
    rows = [node("Transpose", ["x"], ["a"], perm=[2, 0, 1, 3]), node("MatMul", ["a", "w"], ["b"]),
            node("Transpose", ["b"], ["c"], perm=[1, 2, 0, 3]),
            node("Unsqueeze", ["c", "four"], ["d"])]  # fmt: skip
    columns = [node("Transpose", ["x"], ["e"], perm=[1, 0, 2, 3]),
               node("MatMul", ["e", "w"], ["f"]),
               node("Transpose", ["f"], ["g"], perm=[1, 0, 2, 3]),
               node("Unsqueeze", ["g", "three"], ["h"])]  # fmt: skip
    path = save(
        [*rows, *columns, node("Add", ["d", "h"], ["y"])], {"x": [2, 3, 4, 8]}, {"y": None},
        {"w": random(8, 5), "four": np.array([4]), "three": np.array([3])},
    )  # fmt: skip
    graph = agrees(path)
    (total,) = (made for made in graph if made.kind == "add")
    assert total.shape == (2, 3, 4, 5, 5)


def test_square(save, agrees):
    agrees(save([node("Pow", ["x", "e"], ["y"])], {"x": X}, {"y": None}, {"e": np.array(2.0, "f")}))


def test_shapes_computed_in_the_graph_are_constants(save, agrees):
    """As PyTorch exports ``x.view(x.size(0), -1)``."""
    path = save(
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["n"], axis=0),
            node("Unsqueeze", ["n", "zeros"], ["u"]),
            node("Concat", ["u", "rest"], ["t"], axis=0),
            node("Reshape", ["x", "t"], ["y"]),
        ],
        {"x": X},
        {"y": None},
        {"zero": np.array(0), "zeros": np.array([0]), "rest": np.array([-1])},
    )
    agrees(path)


def test_constant_and_cast(save, agrees):
    value = helper.make_tensor("v", 1, [1, 4, 1, 1], [1.0, 2.0, 3.0, 4.0])
    path = save(
        [
            node("Constant", [], ["k"], value=value),
            node("Cast", ["x"], ["f"], to=1),
            node("Mul", ["f", "k"], ["y"]),
        ],
        {"x": X},
        {"y": None},
    )
    agrees(path)


def test_input_that_is_also_an_output(save, agrees):
    path = save(
        [node("Identity", ["x"], ["y"]), node("Relu", ["x"], ["z"])],
        {"x": X},
        {"y": None, "z": None},
    )
    agrees(path)


def test_one_tensor_as_two_outputs(save, agrees):
    path = save(
        [node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["z"])],
        {"x": X},
        {"y": None, "z": None},
    )
    agrees(path)


@pytest.mark.parametrize("opset", range(11, 22))
def test_operator_sets(save, agrees, opset):
    path = save(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("Relu", ["c"], ["r"]),
            node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2]),
            node("Flatten", ["m"], ["f"]),
            node("Gemm", ["f", "v"], ["y"]),
        ],
        {"x": X},
        {"y": None},
        {"w": random(3, 4, 2, 2), "v": random(3 * 7 * 5, 10)},
        opset=opset,
    )
    agrees(path)


@pytest.mark.parametrize("op", ["Sum", "Min", "Max"])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_any_number_of_inputs(save, agrees, op, count):
    names = [f"x{i}" for i in range(count)]
    relus = [node("Relu", [name], [f"{name}r"]) for name in names]
    path = save(
        [*relus, node(op, [f"{name}r" for name in names], ["y"])],
        dict.fromkeys(names, X),
        {"y": None},
    )
    agrees(path)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_local_response_normalization(save, agrees, size):
    path = save([node("LRN", ["x"], ["y"], size=size, alpha=0.3, beta=0.6, bias=1.5)],
                {"x": [1, 7, 3, 2]}, {"y": None})  # fmt: skip
    assert kinds(agrees(path)) == ["lrn"]


@pytest.mark.parametrize("groups", [2, 3])
def test_channel_shuffle_moves_channels_only(save, agrees, groups):
    path = save(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("Reshape", ["c", "split"], ["s"]),
            node("Transpose", ["s"], ["t"], perm=[0, 2, 1, 3, 4]),
            node("Reshape", ["t", "joined"], ["j"]),
            node("Conv", ["j", "v"], ["y"]),
        ],
        {"x": X},
        {"y": None},
        {
            "w": random(6, 4, 1, 1), "v": random(5, 6, 3, 3),
            "split": np.array([1, groups, 6 // groups, 9, 7]), "joined": np.array([1, 6, 9, 7]),
        },
    )  # fmt: skip
    graph = agrees(path)
    assert kinds(graph) == ["conv2d", "reshape", "transpose", "reshape", "conv2d"]
    (moved,) = (node for node in graph if node.kind == "transpose")
    assert moved.attrs["order"] == [0, 1, 2, 4, 3]


@pytest.mark.parametrize(
    ("shape", "onto", "perm", "final"),
    [
        ((1, 6, 4, 10), (1, 2, 3, 4, 10), (0, 2, 1, 3, 4), (1, 6, 40)),
        ((1, 6, 4, 10), (1, 6, 2, 2, 5, 2), (0, 1, 3, 5, 2, 4), (1, 24, 2, 5)),
        ((1, 8, 3, 5), (1, 2, 2, 2, 3, 5), (0, 1, 4, 2, 5, 3), (1, 2, 6, 10)),
        ((1, 4, 6, 1), (4, 2, 3), (1, 0, 2), (1, 8, 3)),
        ((1, 4, 6, 5), (120,), (0,), (1, 5, 6, 4)),
        ((1, 4, 4, 4), (16, 4), (1, 0), (1, 8, 8)),
    ],
)
@pytest.mark.parametrize("convolved", [False, True])
def test_reshapes_and_transposes(save, agrees, shape, onto, perm, final, convolved):
    """Axes split, joined and moved, from a feature map that is held channels last."""
    first = "Conv" if convolved else "Relu"
    path = save(
        [
            node(first, ["x", "w"] if convolved else ["x"], ["c"]),
            node("Reshape", ["c", "onto"], ["s"]),
            node("Transpose", ["s"], ["t"], perm=perm),
            node("Reshape", ["t", "final"], ["y"]),
        ],
        {"x": shape},
        {"y": None},
        {"w": random(shape[1], shape[1], 1, 1), "onto": np.array(onto), "final": np.array(final)},
    )
    agrees(path)


@pytest.mark.parametrize("opset", [7, 8, 9, 10])
def test_old_operator_sets(save, agrees, opset):
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        node("Dropout", ["n"], ["d"], ratio=0.5),
        node("Clip", ["d"], ["r"], min=0.0, max=6.0),
        node("Pad", ["r"], ["p"], pads=[0, 0, 1, 2, 0, 0, 0, 1]),
        node("Softmax", ["p"], ["f"], axis=3),
        node("Unsqueeze", ["v"], ["u"], axes=[1, 2]),
        node("Mul", ["f", "u"], ["k"]),
    ]
    weights = {
        "w": random(4, 4, 3, 3), "s": random(4), "b": random(4), "m": random(4),
        "v": np.abs(random(4)) + 0.5,
    }  # fmt: skip
    if opset < 10:
        nodes.append(node("Slice", ["k"], ["y"], axes=[2], starts=[1], ends=[5]))
    else:
        weights |= {"from": np.array([1]), "to": np.array([5]), "axes": np.array([2])}
        nodes.append(node("Slice", ["k", "from", "to", "axes"], ["y"]))
    agrees(save(nodes, {"x": X}, {"y": None}, weights, opset=opset))


@pytest.mark.parametrize(("opset", "op"), [(7, "Upsample"), (9, "Upsample"), (10, "Resize")])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_old_resize(save, agrees, opset, op, mode):
    weights = {"s": np.array([1, 1, 2, 3], np.float32)}
    last = (
        node(op, ["x"], ["y"], mode=mode, scales=[1.0, 1.0, 2.0, 3.0])
        if opset < 9
        else node(op, ["x", "s"], ["y"], mode=mode)
    )
    agrees(save([last], {"x": X}, {"y": None}, weights, opset=opset))


def gate(*extra):
    """Return nodes of ``g = relu6(x + 3)`` behind a convolution ``c``, and more."""
    return [
        node("Conv", ["x", "w"], ["c"]),
        node("Add", ["c", "three"], ["t"]),
        node("Clip", ["t", "zero", "six"], ["g"]),
        *extra,
    ]


GATE = {
    "w": random(4, 4, 1, 1), "three": np.float32(3), "zero": np.float32(0), "six": np.float32(6),
    "sixth": np.float32(1 / 6),
}  # fmt: skip


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        ([("Mul", "c", "g", "m"), ("Div", "m", "six", "y")], ["hard-swish"]),
        ([("Mul", "g", "c", "m"), ("Mul", "sixth", "m", "y")], ["hard-swish"]),
        ([("Div", "g", "six", "s"), ("Mul", "s", "c", "y")], ["hard-swish"]),
        # Not it: another factor, another tensor, a sum that somebody else sees.
        ([("Mul", "c", "g", "m"), ("Mul", "m", "three", "y")], None),
        ([("Mul", "t", "g", "m"), ("Div", "m", "six", "y")], None),
        ([("Mul", "c", "g", "m"), ("Div", "m", "six", "d"), ("Add", "d", "t", "y")], None),
    ],
)
def test_hard_swish_in_parts(save, agrees, extra, found):
    nodes = gate(*(node(op, [one, other], [out]) for op, one, other, out in extra))
    graph = agrees(save(nodes, {"x": X}, {"y": None}, GATE))
    made = kinds(graph)[1:]
    assert made == found if found else "relu6" in made


def test_mobilenet_v3_block_of_tensorflow(save, agrees):
    """Channels last, transposes around every convolution, and hard-swish in parts."""
    nodes = [
        node("Transpose", ["x"], ["x1"], perm=[0, 3, 1, 2]),
        node("Conv", ["x1", "w"], ["c1"]),
        node("Transpose", ["c1"], ["c"], perm=[0, 2, 3, 1]),
        *gate(node("Mul", ["c", "g"], ["m"]), node("Mul", ["m", "sixth"], ["h"]))[1:],
        node("ReduceMean", ["h"], ["p"], axes=[1, 2], keepdims=0),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    graph = agrees(save(nodes, {"x": [1, 9, 7, 4]}, {"y": None}, GATE | {"v": random(4, 3)}))
    assert "transpose" not in kinds(graph)
    assert "hard-swish" in kinds(graph)
