# SPDX-License-Identifier: Apache-2.0
"""Float ops on the CPU against onnxruntime, which nobody here wrote."""

import numpy as np
import onnx
import onnxruntime
import pytest

import xir
from opendpu.runtime import cpu
from opendpu_arch.errors import GraphError, UnsupportedError


def run(kind: str, attrs: dict, *inputs: np.ndarray) -> np.ndarray:
    """Return what our CPU computes for one float op."""
    graph = xir.Graph("g")
    ops = []
    for i, array in enumerate(inputs):
        attributes = {"shape": list(array.shape), "data_type": xir.DataType.of(array).to_string()}
        ops.append(graph.create_op(f"i{i}", "data", attributes))
    args = {}
    for arg in graph.get_definition(kind).args:
        take = len(ops) if arg.occurrence.repeated else 1
        args[arg.name], ops = ops[:take], ops[take:]
    return cpu.evaluate(graph.create_op("op", kind, attrs, args), inputs)


def reference(kind: str, inputs: list[np.ndarray], **attrs: object) -> np.ndarray:
    """Return what onnxruntime computes for one node."""
    names = [f"i{i}" if array is not None else "" for i, array in enumerate(inputs)]
    node = onnx.helper.make_node(kind, names, ["y"], **attrs)
    infos = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, inputs, strict=True)
        if array is not None
    ]
    output = onnx.helper.make_empty_tensor_value_info("y")
    graph = onnx.helper.make_graph([node], "g", infos, [output])
    opset = onnx.helper.make_opsetid("", 18)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    fed = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
    return session.run(None, fed)[0]


def nchw(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))


def nhwc(array: np.ndarray) -> np.ndarray:
    return array.transpose(0, 2, 3, 1)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(0, 2, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "pad", "group"),
    [
        ((3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
        ((3, 5), (2, 1), (1, 1), (0, 2, 1, 3), 1),
        ((2, 3), (1, 2), (3, 2), (2, 0, 0, 1), 1),
        ((1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 2),
        ((3, 3), (2, 2), (1, 1), (1, 0, 1, 0), 3),
    ],
)
def test_conv2d(rng, kernel, stride, dilation, pad, group):
    x = floats(rng, 2, 11, 10, 6)
    weights, bias = floats(rng, 12, kernel[1], kernel[0], 6 // group), floats(rng, 12)
    attrs = {
        "kernel": list(kernel),
        "stride": list(stride),
        "dilation": list(dilation),
        "pad": list(pad),
        "pad_mode": "FLOOR",
        "group": group,
    }
    left, right, top, bottom = pad
    expected = reference(
        "Conv",
        [nchw(x), nchw(weights), bias],
        strides=stride[::-1],
        dilations=dilation[::-1],
        pads=[top, left, bottom, right],
        group=group,
    )
    np.testing.assert_allclose(
        run("conv2d", attrs, x, weights, bias), nhwc(expected), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(("size", "stride"), [(9, 2), (8, 2), (7, 1), (8, 3)])
def test_conv2d_same_pads_as_tensorflow_does(rng, size, stride):
    x, weights = floats(rng, 1, size, size, 3), floats(rng, 4, 3, 3, 3)
    attrs = {"kernel": [3, 3], "stride": [stride, stride], "pad_mode": "SAME"}
    expected = reference(
        "Conv", [nchw(x), nchw(weights)], strides=[stride, stride], auto_pad="SAME_UPPER"
    )
    np.testing.assert_allclose(
        run("conv2d", attrs, x, weights), nhwc(expected), rtol=1e-4, atol=1e-4
    )


def test_depthwise_conv2d(rng):
    x, weights, bias = floats(rng, 1, 9, 8, 5), floats(rng, 1, 3, 3, 5), floats(rng, 5)
    attrs = {"kernel": [3, 3], "stride": [2, 1], "pad": [1, 1, 0, 2], "pad_mode": "FLOOR"}
    expected = reference(
        "Conv",
        [nchw(x), weights.transpose(3, 0, 1, 2).copy(), bias],
        strides=[1, 2],
        pads=[0, 1, 2, 1],
        group=5,
    )
    np.testing.assert_allclose(
        run("depthwise-conv2d", attrs, x, weights, bias), nhwc(expected), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("kernel", "stride", "pad"),
    [((3, 3), (2, 2), (1, 1, 1, 1)), ((2, 4), (1, 3), (0, 1, 2, 0)), ((1, 1), (2, 2), (0,) * 4)],
)
def test_transposed_conv2d_takes_flipped_weights(rng, kernel, stride, pad):
    x, weights, bias = floats(rng, 1, 4, 5, 3), floats(rng, 2, *kernel[::-1], 3), floats(rng, 2)
    left, right, top, bottom = pad
    attrs = {
        "kernel": list(kernel),
        "stride": list(stride),
        "pad": list(pad),
        "pad_mode": "FLOOR",
    }
    flipped = weights[:, ::-1, ::-1].transpose(3, 0, 1, 2)
    expected = reference(
        "ConvTranspose",
        [nchw(x), np.ascontiguousarray(flipped), bias],
        strides=stride[::-1],
        pads=[top, left, bottom, right],
    )
    np.testing.assert_allclose(
        run("transposed-conv2d", attrs, x, weights, bias), nhwc(expected), rtol=1e-4, atol=1e-4
    )


def test_transposed_depthwise_conv2d(rng):
    x, weights = floats(rng, 1, 4, 5, 3), floats(rng, 1, 3, 3, 3)
    attrs = {"kernel": [3, 3], "stride": [2, 2], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
    flipped = np.ascontiguousarray(weights[:, ::-1, ::-1].transpose(3, 0, 1, 2))
    expected = reference(
        "ConvTranspose", [nchw(x), flipped], strides=[2, 2], pads=[1, 1, 1, 1], group=3
    )
    np.testing.assert_allclose(
        run("transposed-depthwise-conv2d", attrs, x, weights), nhwc(expected), rtol=1e-4, atol=1e-4
    )


def test_transposed_conv2d_same_undoes_the_shape_of_a_convolution(rng):
    x, weights = floats(rng, 1, 4, 5, 3), floats(rng, 2, 3, 3, 3)
    attrs = {"kernel": [3, 3], "stride": [2, 2], "pad_mode": "SAME"}
    flipped = np.ascontiguousarray(weights[:, ::-1, ::-1].transpose(3, 0, 1, 2))
    expected = reference("ConvTranspose", [nchw(x), flipped], strides=[2, 2], auto_pad="SAME_UPPER")
    np.testing.assert_allclose(
        run("transposed-conv2d", attrs, x, weights), nhwc(expected), rtol=1e-4, atol=1e-4
    )


POOLS = [
    ([2, 2], [2, 2], [0, 0, 0, 0], 0),
    ([3, 2], [2, 1], [1, 1, 0, 1], 0),
    ([3, 3], [2, 2], [1, 0, 1, 0], 1),
    ([2, 2], [2, 2], [0, 0, 0, 0], 1),
]


@pytest.mark.parametrize(("kernel", "stride", "pad", "ceil"), POOLS)
@pytest.mark.parametrize("kind", ["maxpool2d", "avgpool2d"])
@pytest.mark.parametrize("counted", [True, False])
def test_pooling(rng, kernel, stride, pad, ceil, kind, counted):
    x = floats(rng, 1, 9, 8, 3)
    left, right, top, bottom = pad
    attrs = {
        "kernel": kernel,
        "stride": stride,
        "pad": pad,
        "pad_mode": "CEIL" if ceil else "FLOOR",
    }
    common = {
        "kernel_shape": kernel[::-1],
        "strides": stride[::-1],
        "pads": [top, left, bottom, right],
        "ceil_mode": ceil,
    }
    if kind == "avgpool2d":
        attrs |= {"count_include_pad": counted, "count_include_invalid": False}
        expected = reference("AveragePool", [nchw(x)], count_include_pad=int(counted), **common)
    else:
        expected = reference("MaxPool", [nchw(x)], **common)
    np.testing.assert_allclose(run(kind, attrs, x), nhwc(expected), rtol=1e-5, atol=1e-5)


def test_invalid_positions_can_count():
    x = np.ones((1, 3, 3, 1), np.float32)
    attrs = {"kernel": [2, 2], "stride": [2, 2], "pad_mode": "CEIL"}
    counted = run("avgpool2d", {**attrs, "count_include_invalid": True}, x)
    assert counted[0, :, :, 0].tolist() == [[1.0, 0.5], [0.5, 0.25]]


def test_global_pooling(rng):
    x = floats(rng, 1, 9, 8, 3)
    attrs = {"kernel": [1, 1], "stride": [1, 1], "pad_mode": "FLOOR", "global": True}
    for kind, name in (("maxpool2d", "GlobalMaxPool"), ("avgpool2d", "GlobalAveragePool")):
        np.testing.assert_allclose(
            run(kind, attrs, x), nhwc(reference(name, [nchw(x)])), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize(
    ("kind", "name", "attrs", "other"),
    [
        ("relu", "Relu", {}, {}),
        ("sigmoid", "Sigmoid", {}, {}),
        ("tanh", "Tanh", {}, {}),
        ("exp", "Exp", {}, {}),
        ("neg", "Neg", {}, {}),
        ("elu", "Elu", {"alpha": 0.5}, {"alpha": 0.5}),
        ("celu", "Celu", {"alpha": 0.5}, {"alpha": 0.5}),
        ("selu", "Selu", {}, {}),
        ("mish", "Mish", {}, {}),
        ("hard-sigmoid", "HardSigmoid", {}, {"alpha": 1 / 6, "beta": 0.5}),
        ("hard-swish", "HardSwish", {}, {}),
        ("leaky-relu", "LeakyRelu", {"alpha": 0.3}, {"alpha": 0.3}),
        ("softmax", "Softmax", {"axis": 2}, {"axis": 2}),
    ],
)
def test_elementwise(rng, kind, name, attrs, other):
    x = floats(rng, 2, 5, 7)
    expected = reference(name, [x], **other)
    np.testing.assert_allclose(run(kind, attrs, x), expected, rtol=2e-5, atol=1e-6)


def test_gelu_swish_relu6_and_hard_forms(rng):
    x = floats(rng, 3, 50) * 3
    half = np.float32(0.5)
    erf = reference("Erf", [x / np.float32(np.sqrt(2))])
    np.testing.assert_allclose(run("gelu", {}, x), half * x * (1 + erf), rtol=2e-5, atol=2e-6)
    logistic = 1 / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(run("sigmoid", {}, x), logistic, rtol=2e-6, atol=5e-7)
    np.testing.assert_allclose(run("swish", {}, x), x * logistic, rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(run("relu6", {}, x), np.clip(x, 0, 6))
    np.testing.assert_array_equal(run("hard-tanh", {}, x), np.clip(x, -1, 1))
    hard = run("hard-softmax", {"axis": 1, "type": "poly"}, x)
    np.testing.assert_allclose(hard.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("add", "Add"),
        ("sub", "Sub"),
        ("mul", "Mul"),
        ("div", "Div"),
        ("min", "Min"),
        ("max", "Max"),
    ],
)
def test_binary_ops_broadcast(rng, kind, name):
    x, y = floats(rng, 1, 4, 1, 3), floats(rng, 5, 3)
    np.testing.assert_allclose(run(kind, {}, x, y), reference(name, [x, y]), rtol=1e-6)


def test_prelu(rng):
    x, slope = floats(rng, 1, 4, 5, 3), floats(rng, 3)
    np.testing.assert_allclose(run("prelu", {}, x, slope), reference("PRelu", [x, slope]), 1e-6)


def test_batchnorm_scale_and_normalize(rng):
    x = floats(rng, 2, 4, 5, 3)
    gamma, beta, mean = (floats(rng, 3) for _ in range(3))
    variance = np.abs(floats(rng, 3)) + np.float32(0.1)
    expected = reference("BatchNormalization", [nchw(x), gamma, beta, mean, variance], epsilon=0.01)
    found = run("batchnorm", {"axis": 3, "epsilon": 0.01}, x, gamma, beta, mean, variance)
    np.testing.assert_allclose(found, nhwc(expected), rtol=1e-4, atol=1e-5)
    scaled = run("scale", {"axis": 3}, x, gamma, beta)
    np.testing.assert_allclose(scaled, x * gamma + beta, rtol=1e-6)
    unit = run("l2_normalize", {"axis": [3], "epsilon": 1e-12}, x)
    np.testing.assert_allclose(unit, reference("LpNormalization", [x], axis=3, p=2), rtol=1e-5)


def test_instance_and_group_normalization(rng):
    x, gamma, beta = floats(rng, 2, 4, 5, 6), floats(rng, 6), floats(rng, 6)
    expected = reference("InstanceNormalization", [nchw(x), gamma, beta], epsilon=0.01)
    found = run("instancenorm", {"eps": 0.01, "affine": True}, x, gamma, beta)
    np.testing.assert_allclose(found, nhwc(expected), rtol=1e-4, atol=1e-4)
    one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
    attrs = {"num_groups": 3, "num_channels": 6, "eps": 0.01, "affine": False}
    expected = reference("GroupNormalization", [nchw(x), one, zero], epsilon=0.01, num_groups=3)
    found = run("groupnorm", attrs, x)
    np.testing.assert_allclose(found, nhwc(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("reduction_max", "ReduceMax"),
        ("reduction_mean", "ReduceMean"),
        ("reduction_sum", "ReduceSum"),
        ("reduction_product", "ReduceProd"),
    ],
)
@pytest.mark.parametrize("keep", [True, False])
def test_reductions(rng, kind, name, keep):
    x = floats(rng, 2, 4, 5, 3)
    axes = np.array([1, -2])
    expected = reference(name, [x, axes], keepdims=int(keep))
    found = run(kind, {"axis": [1, -2], "keep_dims": keep}, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_argmax_takes_the_first(rng):
    x = rng.integers(0, 3, (2, 4, 6)).astype(np.float32)
    expected = reference("ArgMax", [x], axis=1, keepdims=0)
    found = run("argmax", {"axis": 1}, x)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_matmul(rng, transposed):
    a, b, bias = floats(rng, 2, 3, 4), floats(rng, 4, 5), floats(rng, 5)
    expected = reference("MatMul", [a, b]) + bias
    given = [m.swapaxes(-1, -2).copy() if t else m for m, t in zip((a, b), transposed, strict=True)]
    graph = xir.Graph("g")
    ops = [graph.create_const_op(f"i{i}", m) for i, m in enumerate((*given, bias))]
    attrs = {"transpose_a": transposed[0], "transpose_b": transposed[1]}
    op = graph.create_op("op", "matmul", attrs, {"input": ops[:2], "bias": ops[2:]})
    found = cpu.evaluate(op, [*given, bias])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_inner_product(rng):
    x, weights, bias = floats(rng, 2, 3, 4, 5), floats(rng, 7, 3, 4, 5), floats(rng, 7)
    expected = reference("Gemm", [x.reshape(2, -1), weights.reshape(7, -1), bias], transB=1)
    found = run("inner-product", {"axis": 1}, x, weights, bias)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["CONSTANT", "REFLECT", "SYMMETRIC"])
def test_pad(rng, mode):
    x = floats(rng, 1, 4, 5, 2)
    attrs = {"paddings": [0, 0, 1, 2, 3, 0, 0, 1], "mode": mode, "constant_values": [1.5] * 16}
    pads = np.array([0, 1, 3, 0, 0, 2, 0, 1])
    found = run("pad", attrs, x)
    if mode == "SYMMETRIC":
        expected = np.pad(x, [(0, 0), (1, 2), (3, 0), (0, 1)], mode="symmetric")
    elif mode == "REFLECT":
        expected = reference("Pad", [x, pads], mode="reflect")
    else:
        expected = reference("Pad", [x, pads, np.array(1.5, np.float32)], mode="constant")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("mode", "corners", "half", "coordinates"),
    [
        ("NEAREST", False, False, "asymmetric"),
        ("BILINEAR", False, False, "asymmetric"),
        ("BILINEAR", True, False, "align_corners"),
        ("BILINEAR", False, True, "half_pixel"),
    ],
)
def test_resize(rng, mode, corners, half, coordinates):
    x = floats(rng, 1, 4, 5, 2)
    attrs = {
        "mode": mode,
        "scale": [2.0, 3.0],
        "align_corners": corners,
        "half_pixel_centers": half,
    }
    expected = reference(
        "Resize",
        [nchw(x), None, np.float32([1, 1, 3, 2])],
        mode="nearest" if mode == "NEAREST" else "linear",
        nearest_mode="floor",
        coordinate_transformation_mode=coordinates,
    )
    np.testing.assert_allclose(run("resize", attrs, x), nhwc(expected), rtol=1e-5, atol=1e-5)


def test_pixel_shuffle_is_pytorchs(rng):
    x = floats(rng, 1, 3, 4, 12)
    up = run("pixel-shuffle", {"scale": 2, "upscale": True}, x)
    expected = reference("DepthToSpace", [nchw(x)], blocksize=2, mode="CRD")
    np.testing.assert_array_equal(up, nhwc(expected))
    np.testing.assert_array_equal(run("pixel-shuffle", {"scale": 2, "upscale": False}, up), x)


def test_moving_data(rng):
    x = floats(rng, 1, 4, 5, 2)
    y = floats(rng, 1, 4, 5, 3)
    np.testing.assert_array_equal(run("concat", {"axis": -1}, x, y), np.concatenate([x, y], axis=3))
    np.testing.assert_array_equal(run("stack", {"axis": 0}, x, x), np.stack([x, x]))
    np.testing.assert_array_equal(
        run("transpose", {"order": [0, 3, 1, 2]}, x), x.transpose(0, 3, 1, 2)
    )
    np.testing.assert_array_equal(run("reshape", {"shape": [0, -1]}, x), x.reshape(1, -1))
    np.testing.assert_array_equal(run("squeeze", {"axis": [0]}, x), x[0])
    np.testing.assert_array_equal(
        run("flatten", {"start_axis": 1, "end_axis": 2}, x), x.reshape(1, 20, 2)
    )
    attrs = {"begin": [0, 1, 4, 0], "end": [1, 4, 0, 2], "strides": [1, 2, -1, 1]}
    np.testing.assert_array_equal(run("strided_slice", attrs, x), x[:, 1:4:2, 4:0:-1])
    assert run("shape", {}, x).tolist() == [1, 4, 5, 2]
    assert run("cast", {"data_type": "INT32"}, x).dtype == np.int32
    np.testing.assert_array_equal(run("identity", {}, x), x)


def test_constants(rng):
    graph = xir.Graph("g")
    array = floats(rng, 2, 3)
    op = graph.create_const_op("c", array)
    np.testing.assert_array_equal(cpu.evaluate(op, []), array)
    op.set_attr("data", b"\0")
    with pytest.raises(
        GraphError, match=r"constant 'c' holds 1 bytes, but its tensor .* needs 24; "
    ):
        cpu.evaluate(op, [])


def test_refused_modes(rng):
    x = floats(rng, 1, 4, 5, 2)
    with pytest.raises(UnsupportedError, match="mode is 'CUBIC' for 4 dimensions, but must be NEA"):
        run("resize", {"mode": "CUBIC", "scale": [2.0, 2.0]}, x)
    with pytest.raises(UnsupportedError, match="mode is 'WRAP', but must be CONSTANT, REFLECT or"):
        run("pad", {"paddings": [0] * 8, "mode": "WRAP"}, x)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_local_response_normalization(rng, size):
    x = floats(rng, 2, 3, 4, 7)
    attrs = {"size": size, "alpha": 0.3, "beta": 0.6, "bias": 1.5}
    shape = {"shape": list(x.shape), "data_type": "FLOAT32"}
    found = run("lrn", attrs | shape, x)
    wanted = reference("LRN", [nchw(x)], **attrs)
    np.testing.assert_allclose(found, nhwc(wanted), rtol=1e-5, atol=1e-6)
