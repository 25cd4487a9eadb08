# SPDX-License-Identifier: Apache-2.0
"""One network in the files of every framework, with the same weights."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

FRONTEND = Path(__file__).parent.parent
sys.path += [str(FRONTEND / "litert"), str(FRONTEND / "tf")]

from graph_defs import Network as GraphDef  # noqa: E402

from opendpu.frontend.caffe.proto import Net  # noqa: E402


class Weights:
    """Of a convolution, a depthwise one, one of 1x1 beside it, and a fully connected layer.

    Parameters
    ----------
    side
        Pixels of an image in either direction.
    channels
        Of all that is between input and output.
    """

    def __init__(self, side: int = 12, channels: int = 8) -> None:
        random = np.random.default_rng(7)

        def of(*shape: int) -> np.ndarray:
            deep = shape[0] * shape[1] * shape[2] if len(shape) == 4 else shape[0]
            scale = 0.4 if channels == 8 else (2 / deep) ** 0.5
            return (random.standard_normal(shape) * scale).astype(np.float32)

        self.size, self.channels = (1, side, side, 3), channels
        self.first, self.first_bias = of(3, 3, 3, channels), of(channels)  # HWIO
        self.deep, self.deep_bias = of(3, 3, channels, 1), of(channels)
        self.point, self.point_bias = of(1, 1, channels, channels), of(channels)
        self.dense, self.dense_bias = of(channels, 5), of(5)


def as_onnx(folder: Path, own: Weights) -> Path:
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]), node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2", "b2"], ["d"], pads=[1, 1, 1, 1], group=own.channels),
        node("Relu", ["d"], ["r2"]), node("Conv", ["r2", "w3", "b3"], ["p"]),
        node("Add", ["p", "r1"], ["s"]), node("MaxPool", ["s"], ["m"], kernel_shape=[2, 2],
                                              strides=[2, 2]),
        node("GlobalAveragePool", ["m"], ["g"]), node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w4", "b4"], ["y"]),
    ]  # fmt: skip
    arrays = {
        "w1": own.first.transpose(3, 2, 0, 1), "b1": own.first_bias,
        "w2": own.deep.transpose(2, 3, 0, 1), "b2": own.deep_bias,
        "w3": own.point.transpose(3, 2, 0, 1), "b3": own.point_bias,
        "w4": own.dense, "b4": own.dense_bias,
    }  # fmt: skip
    shape = [1, 3, *own.size[1:3]]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in arrays.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def as_tflite(folder: Path, own: Weights) -> Path:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")
    from tflite_files import Network, options

    net = Network()
    same = {"padding": 0, "strideH": 1, "strideW": 1}

    def conv(x: str, name: str, w: np.ndarray, b: np.ndarray, relu: int) -> str:
        return net.op(
            "CONV_2D", [x, net.const(f"{name}/w", w), net.const(f"{name}/b", b)], [name],
            options("Conv2D", fusedActivationFunction=relu, **same),
        )  # fmt: skip

    r1 = conv(net.data("x", own.size), "c1", own.first.transpose(3, 0, 1, 2), own.first_bias, 1)
    deep = [net.const("w2", own.deep.transpose(3, 0, 1, 2)), net.const("b2", own.deep_bias)]
    r2 = net.op("DEPTHWISE_CONV_2D", [r1, *deep], ["d"],
                options("DepthwiseConv2D", depthMultiplier=1, fusedActivationFunction=1,
                        **same))  # fmt: skip
    p = conv(r2, "p", own.point.transpose(3, 0, 1, 2), own.point_bias, 0)
    s = net.op("ADD", [p, r1], ["s"], options("Add"))
    m = net.op("MAX_POOL_2D", [s], ["m"], options("Pool2D", padding=1, strideH=2, strideW=2,
                                                  filterHeight=2, filterWidth=2))  # fmt: skip
    g = net.op("MEAN", [m, net.const("axes", np.array([1, 2], np.int32))], ["g"],
               options("Reducer"))  # fmt: skip
    net.op("FULLY_CONNECTED", [g, net.const("w4", own.dense.T), net.const("b4", own.dense_bias)],
           ["y"], options("FullyConnected"))  # fmt: skip
    return net.write(folder / "net.tflite", ["y"])


def as_frozen_graph(folder: Path, own: Weights) -> Path:
    net, same = GraphDef(), {"padding": "SAME", "strides": [1, 1, 1, 1]}
    net.data("x", (-1, *own.size[1:]))
    constants = {
        "w1": own.first, "b1": own.first_bias, "w2": own.deep, "b2": own.deep_bias, "w3": own.point,
        "b3": own.point_bias, "w4": own.dense, "b4": own.dense_bias,
        "axes": np.array([1, 2], np.int32),
    }  # fmt: skip
    for name, array in constants.items():
        net.const(name, array)
    net.node("c1", "Conv2D", "x", "w1", **same)
    net.node("r1", "Relu", net.node("a1", "BiasAdd", "c1", "b1"))
    net.node("d", "DepthwiseConv2dNative", "r1", "w2", **same)
    net.node("r2", "Relu", net.node("a2", "BiasAdd", "d", "b2"))
    net.node("c3", "Conv2D", "r2", "w3", **same)
    net.node("s", "AddV2", net.node("p", "BiasAdd", "c3", "b3"), "r1")
    net.node("m", "MaxPool", "s", padding="VALID", ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1])
    net.node("g", "Mean", "m", "axes", keep_dims=False)
    net.node("y", "BiasAdd", net.node("f", "MatMul", "g", "w4"), "b4")
    return net.write(folder / "net.pb")


def as_caffe(folder: Path, own: Weights) -> Path:
    count = own.channels
    side = f"dim: {own.size[1]}"
    conv = (
        f"convolution_param {{{{ num_output: {count} kernel_size: {{}} pad: {{}} group: {{}} }}}}"
    )
    layers = [
        ("Input", "x", [], f"input_param {{ shape {{ dim: 1 dim: 3 {side} {side} }} }}"),
        ("Convolution", "c1", ["x"], conv.format(3, 1, 1)), ("ReLU", "r1", ["c1"], ""),
        ("Convolution", "d", ["r1"], conv.format(3, 1, count)), ("ReLU", "r2", ["d"], ""),
        ("Convolution", "p", ["r2"], conv.format(1, 0, 1)), ("Eltwise", "s", ["p", "r1"], ""),
        ("Pooling", "m", ["s"], "pooling_param { pool: MAX kernel_size: 2 stride: 2 }"),
        ("Pooling", "g", ["m"], "pooling_param { pool: AVE global_pooling: true }"),
        ("InnerProduct", "y", ["g"], "inner_product_param { num_output: 5 }"),
    ]  # fmt: skip
    text = 'name: "net"\n'
    for kind, name, bottoms, parameters in layers:
        below = " ".join(f'bottom: "{bottom}"' for bottom in bottoms)
        text += f'layer {{ name: "{name}" type: "{kind}" {below} top: "{name}" {parameters} }}\n'
    path = folder / "net.prototxt"
    path.write_text(text)
    net = Net()
    blobs = {
        "c1": (own.first.transpose(3, 2, 0, 1), own.first_bias),
        "d": (own.deep.transpose(2, 3, 0, 1), own.deep_bias),
        "p": (own.point.transpose(3, 2, 0, 1), own.point_bias), "y": (own.dense.T, own.dense_bias),
    }  # fmt: skip
    for name, arrays in blobs.items():
        layer = net.layer.add()
        layer.name = name
        for array in arrays:
            blob = layer.blobs.add()
            blob.shape.dim.extend(array.shape)
            blob.data.extend(array.ravel().tolist())
    (folder / "net.caffemodel").write_bytes(net.SerializeToString())
    return path


def torch_module(own: Weights) -> Any:
    """Return the network as a module of PyTorch."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")
    count = own.channels

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c1 = torch.nn.Conv2d(3, count, 3, 1, 1)
            self.d = torch.nn.Conv2d(count, count, 3, 1, 1, 1, count)
            self.p, self.y = torch.nn.Conv2d(count, count, 1), torch.nn.Linear(count, 5)
            arrays = {
                self.c1: (own.first.transpose(3, 2, 0, 1), own.first_bias),
                self.d: (own.deep.transpose(2, 3, 0, 1), own.deep_bias),
                self.p: (own.point.transpose(3, 2, 0, 1), own.point_bias),
                self.y: (own.dense.T, own.dense_bias),
            }
            with torch.no_grad():
                for part, (weight, bias) in arrays.items():
                    part.weight.copy_(torch.from_numpy(np.ascontiguousarray(weight)))
                    part.bias.copy_(torch.from_numpy(bias))

        def forward(self, x):
            first = torch.relu(self.c1(x))
            x = self.p(torch.relu(self.d(first))) + first
            x = torch.nn.functional.max_pool2d(x, 2)
            return self.y(x.mean((2, 3)))

    return Module().eval()


def as_torch(folder: Path, own: Weights) -> Path:
    module = torch_module(own)
    import torch

    program = torch.export.export(module, (torch.zeros(1, 3, *own.size[1:3]),))
    torch.export.save(program, folder / "net.pt2")
    return folder / "net.pt2"


def keras_model(own: Weights) -> Any:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    layers = tf.keras.layers
    x = tf.keras.Input(own.size[1:], name="x")
    first = layers.Conv2D(own.channels, 3, padding="same", activation="relu")
    deep = layers.DepthwiseConv2D(3, padding="same", activation="relu")
    point, dense = layers.Conv2D(own.channels, 1), layers.Dense(5, name="y")
    one = first(x)
    two = layers.MaxPooling2D(2)(layers.Add()([point(deep(one)), one]))
    model = tf.keras.Model(x, dense(layers.GlobalAveragePooling2D()(two)), name="net")
    first.set_weights([own.first, own.first_bias])
    deep.set_weights([own.deep, own.deep_bias])
    point.set_weights([own.point, own.point_bias])
    dense.set_weights([own.dense, own.dense_bias])
    return model


def as_keras(folder: Path, own: Weights) -> Path:
    keras_model(own).save(folder / "net.keras")
    return folder / "net.keras"


def as_saved_model(folder: Path, own: Weights) -> Path:
    keras_model(own).export(folder / "saved", verbose=False)
    return folder / "saved"


FILES = {
    "ONNX": as_onnx, "PyTorch": as_torch, "Keras": as_keras, "SavedModel": as_saved_model,
    "frozen graph": as_frozen_graph, "TFLite": as_tflite, "Caffe": as_caffe,
}  # fmt: skip
"""What writes the network, by the framework."""
