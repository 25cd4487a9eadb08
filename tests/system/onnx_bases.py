# SPDX-License-Identifier: Apache-2.0
"""Small whole models that compile, for mutations to start from."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Nodes = Sequence[onnx.NodeProto]


def _model(
    name: str, nodes: Nodes, weights: dict[str, np.ndarray], shape: tuple[int, ...], output: str
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, key) for key, value in weights.items()],
    )
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def _weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(0, 0.3, shape).astype(np.float32)


def classifier() -> onnx.ModelProto:
    """Convolutions with batch normalization and pooling, a dense layer, a softmax."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2], name="conv0"),
        node("BatchNormalization", ["c0", "s", "o", "m", "v"], ["n0"], name="norm"),
        node("Relu", ["n0"], ["r0"], name="relu"),
        node("Conv", ["r0", "w1"], ["c1"], group=8, auto_pad="SAME_UPPER", name="depthwise"),
        node("Clip", ["c1", "low", "high"], ["r1"], name="relu6"),
        node("MaxPool", ["r1"], ["p"], kernel_shape=[2, 2], strides=[2, 2], name="pool"),
        node("GlobalAveragePool", ["p"], ["g"], name="global"),
        node("Flatten", ["g"], ["f"], name="flatten"),
        node("Gemm", ["f", "w2", "b2"], ["d"], transB=1, name="dense"),
        node("Softmax", ["d"], ["y"], axis=1, name="softmax"),
    ]
    weights = {
        "w0": _weights(8, 3, 3, 3), "b0": _weights(8), "s": _weights(8) + 2, "o": _weights(8),
        "m": _weights(8), "v": _weights(8) ** 2 + 1, "w1": _weights(8, 1, 3, 3),
        "low": np.float32(0), "high": np.float32(6), "w2": _weights(5, 8), "b2": _weights(5),
    }  # fmt: skip
    weights = {name: np.asarray(value, np.float32) for name, value in weights.items()}
    return _model("classifier", nodes, weights, (1, 3, 12, 12), "y")


def branches() -> onnx.ModelProto:
    """A residual, a concatenation, resizing, padding, a slice, a transposed convolution."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["a"], kernel_shape=[1, 1], name="a"),
        node("LeakyRelu", ["a"], ["l"], alpha=0.1, name="leaky"),
        node("Pad", ["l", "pads"], ["p"], name="pad"),
        node("Conv", ["p", "w1"], ["b"], dilations=[1, 1], name="b"),
        node("Add", ["a", "b"], ["s"], name="sum"),
        node("Resize", ["s", "", "scales"], ["u"], mode="nearest", name="up",
             coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        node("ConvTranspose", ["s", "w2"], ["t"], strides=[2, 2], name="transposed"),
        node("Concat", ["u", "t"], ["k"], axis=1, name="join"),
        node("Slice", ["k", "starts", "ends", "axes"], ["h"], name="cut"),
        node("Transpose", ["h"], ["q"], perm=[0, 2, 3, 1], name="transpose"),
        node("Reshape", ["q", "shape"], ["y"], name="reshape"),
    ]  # fmt: skip
    weights = {
        "w0": _weights(4, 2, 1, 1), "w1": _weights(4, 4, 3, 3), "w2": _weights(4, 4, 2, 2),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
        "scales": np.array([1, 1, 2, 2], np.float32), "starts": np.array([1], np.int64),
        "ends": np.array([7], np.int64), "axes": np.array([1], np.int64),
        "shape": np.array([1, -1], np.int64),
    }  # fmt: skip
    return _model("branches", nodes, weights, (1, 2, 6, 6), "y")


def mixed() -> onnx.ModelProto:
    """Sigmoids, products, reductions, a split, a matrix product: half of it on the CPU."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["a"], name="a"),
        node("Sigmoid", ["a"], ["g"], name="gate"),
        node("Mul", ["a", "g"], ["m"], name="silu"),
        node("Split", ["m"], ["s0", "s1"], axis=1, name="split"),
        node("HardSigmoid", ["s0"], ["h"], alpha=1 / 6, name="hard"),
        node("Sub", ["h", "s1"], ["d"], name="sub"),
        node("ReduceMean", ["d"], ["r"], axes=[2, 3], keepdims=0, name="mean"),
        node("MatMul", ["r", "w1"], ["n"], name="matmul"),
        node("Tanh", ["n"], ["t"], name="tanh"),
        node("Unsqueeze", ["t", "last"], ["y"], name="unsqueeze"),
    ]
    weights = {
        "w0": _weights(8, 3, 2, 2), "w1": _weights(4, 6), "last": np.array([2], np.int64),
    }  # fmt: skip
    return _model("mixed", nodes, weights, (1, 3, 7, 7), "y")


def quantized() -> onnx.ModelProto:
    """A convolution between QuantizeLinear and DequantizeLinear."""
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "sx", "z"], ["xq"], name="qx"),
        node("DequantizeLinear", ["xq", "sx", "z"], ["xd"], name="dx"),
        node("DequantizeLinear", ["w", "sw", "z"], ["wd"], name="dw"),
        node("Conv", ["xd", "wd"], ["c"], pads=[1, 1, 1, 1], name="conv"),
        node("Relu", ["c"], ["r"], name="relu"),
        node("QuantizeLinear", ["r", "sy", "z"], ["yq"], name="qy"),
        node("DequantizeLinear", ["yq", "sy", "z"], ["y"], name="dy"),
    ]
    kernel = np.random.default_rng(5).integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    weights = {
        "w": kernel, "sx": np.float32(2**-5), "sw": np.float32(2**-7), "sy": np.float32(2**-4),
        "z": np.int8(0),
    }  # fmt: skip
    weights = {name: np.asarray(value) for name, value in weights.items()}
    return _model("quantized", nodes, weights, (1, 3, 6, 6), "y")


BASES: tuple[Callable[[], onnx.ModelProto], ...] = (classifier, branches, mixed, quantized)
"""What makes each model."""
