# SPDX-License-Identifier: Apache-2.0
"""Train the demo's network in numpy and write it as ONNX.

The network: conv 3x3 1→16, ReLU, conv 3x3 16→32 with stride 2, ReLU, max pool 2x2, fully connected
128→10. Training is in float64 from a fixed seed, and weights are rounded to multiples of 2^-12 at
the end, so that another machine's matrix library, which adds in another order, writes the same
file; ``--check`` trains again and allows a difference of one such step.
"""

import argparse
import pathlib
import sys

import digits
import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from opendpu_arch import outputs

Array = npt.NDArray[np.float64]
Parameters = dict[str, Array]

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE / "digits.onnx"
STEP = 2.0**-12
"""Weights are multiples of this."""

SEED = 7
EPOCHS = 60
BATCH = 48
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-2


def initial(rng: np.random.Generator) -> Parameters:
    """Return He-initialized weights and zero biases; convolutions are [out, in, 3, 3]."""
    shapes = {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "fc": (10, 128)}
    parameters: Parameters = {}
    for name, shape in shapes.items():
        fan_in = int(np.prod(shape[1:]))
        parameters[f"{name}.weight"] = rng.normal(0, np.sqrt(2 / fan_in), shape)
        parameters[f"{name}.bias"] = np.zeros(shape[0])
    return parameters


def _columns(x: Array, stride: int) -> Array:
    """Return the 3x3 windows of ``x`` [n, c, h, w], padded by one: [n, h', w', c * 9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride].transpose(0, 2, 3, 1, 4, 5)
    return np.ascontiguousarray(windows).reshape(*windows.shape[:3], -1)


def _spread(columns: Array, channels: int, size: int, stride: int) -> Array:
    """Add gradients of windows back to their pixels, the transpose of :func:`_columns`."""
    n, rows, width, _ = columns.shape
    taps = columns.reshape(n, rows, width, channels, 3, 3).transpose(0, 3, 1, 2, 4, 5)
    padded = np.zeros((n, channels, size + 2, size + 2))
    for i in range(3):
        for j in range(3):
            padded[:, :, i : i + stride * rows : stride, j : j + stride * width : stride] += taps[
                ..., i, j
            ]
    return padded[:, :, 1:-1, 1:-1]


def _outer(gradient: Array, columns: Array) -> Array:
    """Sum gradient [n, h, w, out] times columns [n, h, w, k] over the pixels: [out, k]."""
    return gradient.reshape(-1, gradient.shape[-1]).T @ columns.reshape(-1, columns.shape[-1])


def gradients(p: Parameters, x: Array, labels: npt.NDArray[np.int64]) -> Parameters:
    """Return the gradient of the mean cross-entropy, a parameter each."""
    n = len(x)
    columns1 = _columns(x, 1)
    act1 = np.maximum(columns1 @ p["conv1.weight"].reshape(16, -1).T + p["conv1.bias"], 0)
    columns2 = _columns(act1.transpose(0, 3, 1, 2), 2)
    act2 = np.maximum(columns2 @ p["conv2.weight"].reshape(32, -1).T + p["conv2.bias"], 0)
    blocks = act2.reshape(n, 2, 2, 2, 2, 32).transpose(0, 5, 1, 3, 2, 4).reshape(n, 32, 2, 2, 4)
    winner = blocks.argmax(axis=-1)[..., np.newaxis]
    flat = np.take_along_axis(blocks, winner, -1).reshape(n, 128)
    logits = flat @ p["fc.weight"].T + p["fc.bias"]

    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    d_logits = exponentials / exponentials.sum(axis=1, keepdims=True)
    d_logits[np.arange(n), labels] -= 1
    d_logits /= n
    d_blocks = np.zeros_like(blocks)
    d_flat = d_logits @ p["fc.weight"]
    np.put_along_axis(d_blocks, winner, d_flat.reshape(n, 32, 2, 2, 1), -1)
    d_act2 = d_blocks.reshape(n, 32, 2, 2, 2, 2).transpose(0, 2, 4, 3, 5, 1).reshape(n, 4, 4, 32)
    d_act2 = d_act2 * (act2 > 0)
    d_columns2 = d_act2 @ p["conv2.weight"].reshape(32, -1)
    d_act1 = _spread(d_columns2, 16, 8, 2).transpose(0, 2, 3, 1) * (act1 > 0)
    return {
        "conv1.weight": _outer(d_act1, columns1).reshape(16, 1, 3, 3),
        "conv1.bias": d_act1.sum(axis=(0, 1, 2)),
        "conv2.weight": _outer(d_act2, columns2).reshape(32, 16, 3, 3),
        "conv2.bias": d_act2.sum(axis=(0, 1, 2)),
        "fc.weight": d_logits.T @ flat,
        "fc.bias": d_logits.sum(axis=0),
    }


def _varied(x: Array, rng: np.random.Generator) -> Array:
    """Return a batch with noise, half of its images moved by up to one pixel each way."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moved = rng.integers(0, 2, (len(x), 1)) * rng.integers(-1, 2, (len(x), 2))
    varied = [
        p[:, 1 + dy : 9 + dy, 1 + dx : 9 + dx] for p, (dy, dx) in zip(padded, moved, strict=True)
    ]
    return np.clip(np.stack(varied) + rng.normal(0, 0.1, x.shape), 0, 1)


def train(images: Array, labels: npt.NDArray[np.int64]) -> Parameters:
    """Return trained parameters (Adam, cosine decay of the rate), rounded to :data:`STEP`."""
    rng = np.random.default_rng(SEED)
    parameters = initial(rng)
    mean = {k: np.zeros_like(v) for k, v in parameters.items()}
    square = {k: np.zeros_like(v) for k, v in parameters.items()}
    batches = len(images) // BATCH
    for step in range(EPOCHS * batches):
        if step % batches == 0:
            order = rng.permutation(len(images))
        chosen = order[step % batches * BATCH :][:BATCH]
        found = gradients(parameters, _varied(images[chosen], rng), labels[chosen])
        rate = LEARNING_RATE * (1 + np.cos(np.pi * step / (EPOCHS * batches))) / 2
        for name, gradient in found.items():
            mean[name] += 0.1 * (gradient - mean[name])
            square[name] += 0.001 * (gradient**2 - square[name])
            move = mean[name] / (1 - 0.9 ** (step + 1))
            size = np.sqrt(square[name] / (1 - 0.999 ** (step + 1))) + 1e-8
            parameters[name] -= rate * (move / size + WEIGHT_DECAY * parameters[name])
    return {k: np.round(v / STEP) * STEP for k, v in parameters.items()}


def to_onnx(parameters: Parameters) -> onnx.ModelProto:
    """Return the network: ``image`` [1, 1, 8, 8] in, ``logits`` [1, 10] out."""
    weights = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in parameters.items()]
    nodes = [
        helper.make_node(
            "Conv", ["image", "conv1.weight", "conv1.bias"], ["conv1"], "conv1",
            kernel_shape=[3, 3], pads=[1, 1, 1, 1],
        ),
        helper.make_node("Relu", ["conv1"], ["relu1"], "relu1"),
        helper.make_node(
            "Conv", ["relu1", "conv2.weight", "conv2.bias"], ["conv2"], "conv2",
            kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2],
        ),
        helper.make_node("Relu", ["conv2"], ["relu2"], "relu2"),
        helper.make_node(
            "MaxPool", ["relu2"], ["pool"], "pool", kernel_shape=[2, 2], strides=[2, 2]
        ),
        helper.make_node("Flatten", ["pool"], ["flat"], "flatten", axis=1),
        helper.make_node(
            "Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "fc", transB=1
        ),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])],
        weights,
    )
    model = helper.make_model(
        graph, producer_name="opendpu", opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def stored_parameters(path: pathlib.Path) -> Parameters:
    """Return the weights of an ONNX file by name."""
    graph = onnx.load(path).graph
    return {t.name: numpy_helper.to_array(t).astype(np.float64) for t in graph.initializer}


def accuracy(path: pathlib.Path, data: digits.Digits) -> float:
    """Return the part of the test images that onnxruntime gets right."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    images = data.test_images[:, np.newaxis]
    found = [int(session.run(None, {"image": i})[0].argmax()) for i in images]
    return float(np.mean(np.array(found) == data.test_labels))


def main() -> int:
    """Run the script; returns its exit code."""
    parser = argparse.ArgumentParser(description="Train the demo's network and write it as ONNX.")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=MODEL)
    parser.add_argument("--check", action="store_true", help="compare with the file, do not write")
    arguments = parser.parse_args()
    if not arguments.check:
        outputs.check(arguments.output)
    data = digits.load_digits()
    parameters = train(data.train_images.astype(np.float64), data.train_labels)
    if arguments.check:
        stored = stored_parameters(arguments.output)
        worst = max(float(np.abs(parameters[k] - stored[k]).max()) for k in parameters)
        print(f"largest difference of a weight: {worst:g} (allowed: {STEP:g})")
        return int(worst > STEP)
    outputs.write(arguments.output, to_onnx(parameters).SerializeToString(deterministic=True))
    print(
        f"wrote {arguments.output}: {arguments.output.stat().st_size} bytes, "
        f"accuracy on the test images {accuracy(arguments.output, data):.2%}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
