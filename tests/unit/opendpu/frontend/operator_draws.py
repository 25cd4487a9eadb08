# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models with random attributes, a draw for every operator that can be converted."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

Rng = np.random.Generator


@dataclasses.dataclass
class Case:
    """A small model with the input ``x``."""

    nodes: list[NodeProto]
    shape: tuple[int, ...]
    weights: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    opset: int = 17
    outputs: tuple[str, ...] = ("y",)
    head: str = "x"

    def behind_convolution(self, rng: Rng) -> "Case":
        """Return the case with a 1x1 convolution before it, from ``image`` to ``x``."""
        channels = self.shape[1]
        kernel = floats(rng, channels, channels, *(1,) * (len(self.shape) - 2))
        first = helper.make_node("Conv", ["image", "kernel"], ["x"])
        return dataclasses.replace(
            self,
            nodes=[first, *self.nodes],
            weights=self.weights | {"kernel": kernel},
            head="image",
        )

    def model(self) -> onnx.ModelProto:
        """Return the model."""
        graph = helper.make_graph(
            self.nodes,
            "small",
            [helper.make_tensor_value_info(self.head, TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in self.outputs],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in self.weights.items()],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


DRAWS: dict[str, Callable[[Rng], Case]] = {}
"""By operator."""


def draws(*names: str) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    def register(draw: Callable[..., Case]) -> Callable[..., Case]:
        for name in names:
            DRAWS[name] = draw if len(names) == 1 else lambda rng, op=name: draw(rng, op)
        return draw

    return register


def node(op: str, *inputs: str, **attrs: Any) -> NodeProto:
    return helper.make_node(op, inputs or ("x",), ["y"], **attrs)


def floats(rng: Rng, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def image(rng: Rng, channels: int | None = None) -> tuple[int, ...]:
    return (1, channels or int(rng.integers(1, 9)), *(int(n) for n in rng.integers(6, 12, 2)))


def pair(rng: Rng, low: int, high: int) -> list[int]:
    return [int(n) for n in rng.integers(low, high + 1, 2)]


def any_shape(rng: Rng) -> tuple[int, ...]:
    return (1, *(int(n) for n in rng.integers(1, 7, rng.integers(1, 4))))


def window(rng: Rng, kernel: list[int]) -> dict[str, Any]:
    attrs: dict[str, Any] = {"strides": pair(rng, 1, 3)}
    mode = rng.choice(["pads", "none", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if mode == "pads":
        attrs["pads"] = [int(rng.integers(0, kernel[i % 2])) for i in range(4)]
    elif mode != "none":
        attrs["auto_pad"] = str(mode)
        # onnxruntime cannot pool with strides beyond the kernel here
        attrs["strides"] = [min(s, k) for s, k in zip(attrs["strides"], kernel, strict=True)]
    return attrs


@draws("Conv")
def _conv(rng: Rng) -> Case:
    group = int(rng.choice([1, 1, 2, 3]))
    channels, outputs = (group * int(rng.integers(1, 4)) for _ in range(2))
    kernel = pair(rng, 1, 4)
    attrs = window(rng, kernel)
    if "auto_pad" not in attrs:
        attrs["dilations"] = pair(rng, 1, 2) if max(kernel) < 4 else [1, 1]
    if "pads" in attrs and rng.random() < 0.3:  # beyond the kernel too
        attrs["pads"] = [int(rng.integers(0, kernel[i % 2] + 2)) for i in range(4)]
    weights = {"w": floats(rng, outputs, channels // group, *kernel), "b": floats(rng, outputs)}
    names = ["w", "b"][: int(rng.integers(1, 3))]
    return Case([node("Conv", "x", *names, group=group, **attrs)], image(rng, channels), weights)


@draws("ConvTranspose")
def _conv_transpose(rng: Rng) -> Case:
    group = int(rng.choice([1, 1, 2]))
    channels = group * int(rng.integers(1, 4))
    kernel, strides = pair(rng, 1, 4), pair(rng, 1, 3)
    mode = rng.choice(["pads", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if str(mode).startswith("SAME"):  # else onnxruntime's result is shorter than ONNX says
        kernel = [max(k, s) for k, s in zip(kernel, strides, strict=True)]
    attrs: dict[str, Any] = {"strides": strides, "group": group}
    if mode == "pads":
        attrs["pads"] = [int(rng.integers(0, kernel[i % 2])) for i in range(4)]
        attrs["dilations"] = pair(rng, 1, 2)
        attrs["output_padding"] = [int(rng.integers(0, s)) for s in strides]
    else:
        attrs["auto_pad"] = str(mode)
    weights = {"w": floats(rng, channels, int(rng.integers(1, 4)), *kernel)}
    return Case([node("ConvTranspose", "x", "w", **attrs)], image(rng, channels), weights)


@draws("MaxPool", "AveragePool")
def _pool(rng: Rng, op: str) -> Case:
    kernel = pair(rng, 1, 4)
    attrs = window(rng, kernel)
    if "auto_pad" not in attrs and op == "MaxPool":
        attrs["ceil_mode"] = int(rng.integers(0, 2))
    if op == "AveragePool":
        attrs["count_include_pad"] = int("pads" in attrs and rng.integers(0, 2))
    return Case([node(op, kernel_shape=kernel, **attrs)], image(rng))


@draws("GlobalAveragePool", "GlobalMaxPool")
def _global(rng: Rng, op: str) -> Case:
    return Case([node(op)], image(rng))


@draws("ReduceMean", "ReduceMax", "ReduceSum")
def _reduce(rng: Rng, op: str) -> Case:
    shape = any_shape(rng)
    count = int(rng.integers(1, len(shape) + 1))
    axes = sorted(int(a) for a in rng.choice(range(len(shape)), count, replace=False))
    keep = {"keepdims": int(rng.integers(0, 2))}
    if op == "ReduceSum":
        return Case([node(op, "x", "a", **keep)], shape, {"a": np.array(axes)})
    return Case([node(op, axes=axes, **keep)], shape)


@draws("ArgMax")
def _argmax(rng: Rng) -> Case:
    shape = any_shape(rng) if rng.integers(0, 2) else image(rng)
    axis, keep = int(rng.integers(-len(shape), len(shape))), int(rng.integers(0, 2))
    arg = helper.make_node("ArgMax", ["x"], ["i"], axis=axis, keepdims=keep)
    return Case([arg, node("Cast", "i", to=1)], shape)


UNARY = ("Relu", "HardSwish", "Sigmoid", "Tanh", "Exp", "Neg", "Mish", "Identity")


@draws(*UNARY)
def _unary(rng: Rng, op: str) -> Case:
    return Case([node(op)], any_shape(rng), opset=18)


@draws("Swish")
def _swish(rng: Rng) -> Case:
    alpha = float(rng.choice([1.0, 0.5, 1.702]))
    return Case([node("Swish", alpha=alpha)], any_shape(rng), opset=24)


@draws("Cast")
def _cast(rng: Rng) -> Case:
    return Case([node("Cast", to=1)], any_shape(rng))


@draws("Dropout")
def _dropout(rng: Rng) -> Case:
    return Case([node("Dropout")], any_shape(rng))


@draws("Clip")
def _clip(rng: Rng) -> Case:
    low, high = sorted(floats(rng, 2))
    bounds = [(0.0, 6.0), (0.0, None), (low, high), (low, None), (None, high), (None, None)]
    bound = bounds[int(rng.integers(0, len(bounds)))]
    weights = {n: np.float32(v) for n, v in zip("lh", bound, strict=True) if v is not None}
    names = [n if n in weights else "" for n in "lh"]
    return Case([node("Clip", "x", *names)], any_shape(rng), weights)


@draws("LeakyRelu", "Elu")
def _sloped(rng: Rng, op: str) -> Case:
    return Case([node(op, alpha=float(rng.random()))], any_shape(rng))


@draws("PRelu")
def _prelu(rng: Rng) -> Case:
    shape = image(rng)
    slopes = [(1,), (shape[1], 1, 1), (1, shape[1], 1, 1)]
    slope = slopes[int(rng.integers(0, len(slopes)))]
    return Case([node("PRelu", "x", "s")], shape, {"s": floats(rng, *slope)})


@draws("HardSigmoid")
def _hard_sigmoid(rng: Rng) -> Case:
    alpha, beta = [(1 / 6, 0.5), (0.2, 0.5), tuple(rng.random(2))][int(rng.integers(0, 3))]
    return Case([node("HardSigmoid", alpha=alpha, beta=beta)], any_shape(rng))


@draws("Gelu")
def _gelu(rng: Rng) -> Case:
    return Case([node("Gelu")], any_shape(rng), opset=20)


@draws("Softmax")
def _softmax(rng: Rng) -> Case:
    shape = any_shape(rng)
    return Case([node("Softmax", axis=int(rng.integers(-len(shape), len(shape))))], shape)


@draws("Pow")
def _pow(rng: Rng) -> Case:
    return Case([node("Pow", "x", "e")], any_shape(rng), {"e": np.float32(2)})


@draws("Add", "Sub", "Mul", "Div", "Min", "Max", "Sum")
def _binary(rng: Rng, op: str) -> Case:
    shape = image(rng)
    relu = helper.make_node("Relu", ["x"], ["r"])
    if rng.integers(0, 2):  # two computed tensors, one perhaps smaller
        pooled = helper.make_node("GlobalMaxPool", ["x"], ["r"])
        first = relu if rng.integers(0, 2) else pooled
        if op == "Div":
            return Case([first, helper.make_node("Exp", ["r"], ["e"]), node(op, "x", "e")], shape)
        return Case([first, node(op, "x", "r")], shape)
    other = [(1,), (1, shape[1], 1, 1), (shape[1], 1, 1), (1, 1, 1, shape[3]), shape]
    constant = np.abs(floats(rng, *other[int(rng.integers(0, len(other)))])) + 0.5
    names = ["x", "c"] if rng.integers(0, 2) or op == "Div" else ["c", "x"]
    return Case([node(op, *names)], shape, {"c": constant})


@draws("BatchNormalization")
def _batch_normalization(rng: Rng) -> Case:
    shape = [image(rng), (1, 5), (1, 4, 9)][int(rng.integers(0, 3))]
    weights = {n: floats(rng, shape[1]) for n in "sbmv"}
    weights["v"] = np.abs(weights["v"]) + 0.1
    return Case([node("BatchNormalization", "x", *"sbmv", epsilon=1e-3)], shape, weights)


@draws("LRN")
def _lrn(rng: Rng) -> Case:
    size = int(rng.choice([1, 3, 5, 7]))
    attrs = {n: float(v) for n, v in zip(("alpha", "beta", "bias"), rng.random(3), strict=True)}
    return Case([node("LRN", size=size, **attrs | {"bias": 1 + attrs["bias"]})], image(rng))


@draws("InstanceNormalization")
def _instance_normalization(rng: Rng) -> Case:
    shape = [image(rng), (1, int(rng.integers(1, 9)), 9)][int(rng.integers(0, 2))]
    weights = {n: floats(rng, shape[1]) for n in "sb"}
    epsilon = float(rng.choice([1e-5, 1e-3]))
    return Case([node("InstanceNormalization", "x", *"sb", epsilon=epsilon)], shape, weights)


@draws("GroupNormalization")
def _group_normalization(rng: Rng) -> Case:
    """Draw operator set 18, which has scale and bias of a group, or 21, of a channel."""
    groups, members = (int(n) for n in rng.integers(1, 4, 2))
    shape = image(rng, groups * members)
    opset = int(rng.choice([18, 21]))
    weights = {n: floats(rng, groups if opset == 18 else shape[1]) for n in "sb"}
    attrs = {"num_groups": groups, "epsilon": float(rng.choice([1e-5, 1e-3]))}
    return Case([node("GroupNormalization", "x", *"sb", **attrs)], shape, weights, opset=opset)


@draws("LpNormalization")
def _lp_normalization(rng: Rng) -> Case:
    shape = any_shape(rng)
    axis = int(rng.integers(-len(shape), len(shape)))
    return Case([node("LpNormalization", axis=axis, p=2)], shape)


@draws("Gemm")
def _gemm(rng: Rng) -> Case:
    size, outputs = (int(n) for n in rng.integers(1, 9, 2))
    turned = int(rng.integers(0, 2))
    shape = (outputs, size) if turned else (size, outputs)
    attrs = {"alpha": float(rng.random()) + 0.5, "beta": float(rng.random()), "transB": turned}
    weights = {"w": floats(rng, *shape), "b": floats(rng, *[(outputs,), (1,)][turned])}
    return Case([node("Gemm", "x", "w", "b", **attrs)], (1, size), weights)


@draws("MatMul")
def _matmul(rng: Rng) -> Case:
    shape = any_shape(rng)
    if rng.integers(0, 2):
        weights = {"w": floats(rng, shape[-1], int(rng.integers(1, 8)))}
        return Case([node("MatMul", "x", "w")], shape, weights)
    perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    turned = helper.make_node("Transpose", ["x"], ["t"], perm=perm)
    return Case([turned, node("MatMul", "x", "t")], shape)


@draws("Reshape")
def _reshape(rng: Rng) -> Case:
    shape = image(rng)
    options = [(1, -1), (0, 0, -1), (1, shape[2], -1), (-1, shape[3])]
    shuffled = np.array(options[int(rng.integers(0, len(options)))])
    pool = helper.make_node("MaxPool", ["x"], ["m"], kernel_shape=[1, 1])
    return Case([pool, node("Reshape", "m", "s")], shape, {"s": shuffled})


@draws("Flatten")
def _flatten(rng: Rng) -> Case:
    pool = helper.make_node("MaxPool", ["x"], ["m"], kernel_shape=[2, 2])
    return Case([pool, node("Flatten", "m", axis=int(rng.integers(0, 5)))], image(rng))


@draws("Expand")
def _expand(rng: Rng) -> Case:
    """All, none or some of a map's channels and pixels come several times."""
    shape = image(rng)
    some = [axis for axis in range(len(shape)) if rng.integers(0, 2)]
    pool = node("ReduceMax", axes=some or [0], keepdims=1)
    pool.output[0] = "m"
    front = [1] * int(rng.integers(0, 2))
    target = np.array([*front, *(shape if rng.integers(0, 2) else (1,) * len(shape))])
    return Case([pool, node("Expand", "m", "s")], shape, {"s": target})


@draws("Tile")
def _tile(rng: Rng) -> Case:
    shape = any_shape(rng)
    return Case([node("Tile", "x", "n")], shape, {"n": rng.integers(1, 4, len(shape))})


@draws("Squeeze", "Unsqueeze")
def _squeeze(rng: Rng, op: str) -> Case:
    pool = helper.make_node("GlobalMaxPool", ["x"], ["m"])
    axes = [[2], [3], [2, 3]][int(rng.integers(0, 3))] if op == "Squeeze" else [1]
    return Case([pool, node(op, "m", "a")], image(rng), {"a": np.array(axes)})


@draws("Transpose")
def _transpose(rng: Rng) -> Case:
    shape = any_shape(rng)
    return Case([node("Transpose", perm=[int(a) for a in rng.permutation(len(shape))])], shape)


@draws("Concat")
def _concat(rng: Rng) -> Case:
    pool = helper.make_node("MaxPool", ["x"], ["m"], kernel_shape=[1, 1])
    names = ["x", "m", "x", "m"][: int(rng.integers(1, 5))]
    return Case([pool, node("Concat", *names, axis=int(rng.integers(-4, 4)))], image(rng))


@draws("Pad")
def _pad(rng: Rng) -> Case:
    shape = any_shape(rng)
    mode = str(rng.choice(["constant", "reflect", "edge"]))
    limits = [min(2, size - 1) if mode == "reflect" else 2 for size in shape] * 2
    least = [-1 if mode == "constant" and size > 2 else 0 for size in shape] * 2
    pads = np.array([int(rng.integers(a, b + 1)) for a, b in zip(least, limits, strict=True)])
    pads[0] = pads[len(shape)] = 0
    weights = {"p": pads, "v": np.float32(rng.standard_normal())}
    return Case([node("Pad", "x", "p", "v", mode=mode)], shape, weights)


@draws("Slice")
def _slice(rng: Rng) -> Case:
    shape = image(rng)
    axes = rng.permutation(4)[: int(rng.integers(1, 4))]
    starts = [int(rng.integers(-shape[a], shape[a])) for a in axes]
    ends = [
        shape[a] if s >= 0 else int(rng.integers(s + 1, 1))
        for a, s in zip(axes, starts, strict=True)
    ]
    ends = [e if e else 1 << 30 for e in ends]
    steps = rng.integers(1, 4, len(axes))
    for place in range(len(axes)):
        if rng.integers(0, 4) == 0:  # from the end to the beginning
            starts[place], ends[place], steps[place] = -1, -1 << 31, -steps[place]
    weights = {"s": np.array(starts), "e": np.array(ends), "a": axes, "t": steps}
    return Case([node("Slice", "x", *"seat")], shape, weights)


@draws("Gather")
def _gather(rng: Rng) -> Case:
    """Draw indices that rise by one step, some of them from the end, a single one, or any."""
    shape = image(rng)
    axis = int(rng.integers(1, 4))
    first, step = int(rng.integers(0, shape[axis])), int(rng.integers(1, 4))
    places = np.arange(first, shape[axis], step) - (shape[axis] if rng.integers(0, 2) else 0)
    indices = places[0] if rng.integers(0, 3) == 0 else places
    if rng.integers(0, 3) == 0:
        indices = rng.integers(-shape[axis], shape[axis], int(rng.integers(1, 9)))
    cut = node("Gather", "x", "i", axis=axis - 4 * int(rng.integers(0, 2)))
    return Case([cut], shape, {"i": np.array(indices)})


@draws("Split")
def _split(rng: Rng) -> Case:
    shape = image(rng, 6)
    sizes = [[1, 2, 3], [4, 1, 1], [2, 2, 2]][int(rng.integers(0, 3))]
    outputs = ("y", "z", "u")
    cut = helper.make_node("Split", ["x", "s"], outputs, axis=1)
    return Case([cut], shape, {"s": np.array(sizes)}, outputs=outputs)


@draws("Resize", "Upsample")
def _resize(rng: Rng, op: str) -> Case:
    scales = np.array([1, 1, *rng.integers(1, 4, 2)], np.float32)
    mode = str(rng.choice(["nearest", "linear"]))
    if op == "Upsample":
        return Case([node(op, "x", "s", mode=mode)], image(rng), {"s": scales}, opset=9)
    where = str(rng.choice(["asymmetric", "half_pixel", "align_corners"]))
    if mode == "nearest":
        where = "asymmetric"
    attrs = {"mode": mode, "coordinate_transformation_mode": where, "nearest_mode": "floor"}
    return Case([node(op, "x", "", "s", **attrs)], image(rng), {"s": scales})


@draws("DepthToSpace", "SpaceToDepth")
def _blocks(rng: Rng, op: str) -> Case:
    size = int(rng.integers(1, 4))
    if op == "SpaceToDepth":
        shape = (1, int(rng.integers(1, 5)), *(size * n for n in pair(rng, 1, 4)))
        return Case([node(op, blocksize=size)], shape)
    mode = str(rng.choice(["DCR", "CRD"]))
    channels = size**2 * int(rng.integers(1, 4))
    return Case([node(op, blocksize=size, mode=mode)], image(rng, channels))
