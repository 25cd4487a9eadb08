# SPDX-License-Identifier: Apache-2.0
"""Random float ONNX models, NCHW, as exporters write them."""

import math
import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

Shape = tuple[int, ...]


class Model:
    """A model in the making; everything follows from the seed."""

    def __init__(self, seed: int, opset: int = 15) -> None:
        self.opset = opset
        self.pick = random.Random(seed)
        self.values = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: dict[str, Shape] = {}
        self.shapes: dict[str, Shape] = {}
        """Of feature maps, without the batch."""

    def constant(self, values: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def weights(self, *shape: int, taps: int = 1) -> str:
        values = self.values.standard_normal(shape) / math.sqrt(max(1, taps))
        return self.constant(values.astype(np.float32))

    def op(self, kind: str, sources: list[str], shape: Shape, **attrs) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, sources, [name], name, **attrs))
        self.shapes[name] = shape
        return name

    def source(self) -> str:
        maps = [n for n, shape in self.shapes.items() if len(shape) == 3]
        return maps[-1] if self.pick.random() < 0.7 else self.pick.choice(maps)

    def proto(self) -> onnx.ModelProto:
        used = {name for node in self.nodes for name in node.input}
        outputs = [n.output[0] for n in self.nodes if n.output[0] not in used]
        infos = [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape and [1, *shape])
            for name, shape in [*self.inputs.items(), *((n, None) for n in outputs)]
        ]
        count = len(self.inputs)
        graph = helper.make_graph(
            self.nodes, "random", infos[:count], infos[count:],
            [constant for constant in self.constants if constant.name in used],
        )  # fmt: skip
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9
        )  # fmt: skip
        onnx.checker.check_model(shape_inference.infer_shapes(made, strict_mode=True))
        return made


def windows(m: Model, name: str, kernels: list[int]) -> tuple[dict, Shape]:
    """Return attributes of a window and rows and columns of its result."""
    pick, size = m.pick, []
    kernel, stride = pick.choice(kernels), pick.choice([1, 1, 2])
    kernel = min(kernel, *(n + 2 * (kernel // 2) for n in m.shapes[name][1:]))
    half = min(kernel // 2, kernel - 1)
    before, after = pick.choice([(0, 0), (half, half), (half, half), (0, half)])
    for n in m.shapes[name][1:]:
        size.append((n + before + after - kernel) // stride + 1)
    attrs = {
        "kernel_shape": [kernel] * 2, "strides": [stride] * 2,
        "pads": [before, before, after, after],
    }  # fmt: skip
    return attrs, tuple(size)


def conv(m: Model) -> str | None:
    source, pick = m.source(), m.pick
    inputs = m.shapes[source][0]
    attrs, size = windows(m, source, [1, 1, 3, 3, 5])
    group = pick.choice([1, 1, 1, inputs, *[n for n in (2, 3, 4) if inputs % n == 0]])
    outputs = inputs if group == inputs else group * pick.randint(1, 24 // min(group, 24))
    kernel = attrs["kernel_shape"][0]
    if min(size) < 1:
        return None
    taps = kernel * kernel * inputs // group
    sources = [source, m.weights(outputs, inputs // group, kernel, kernel, taps=taps)]
    if pick.random() < 0.6:
        sources.append(m.weights(outputs))
    name = m.op("Conv", sources, (outputs, *size), group=group, **attrs)
    if pick.random() < 0.3:
        parts = [m.weights(outputs), m.weights(outputs), m.weights(outputs)]
        variance = m.constant(m.values.uniform(0.5, 2, outputs).astype(np.float32))
        name = m.op("BatchNormalization", [name, *parts, variance], (outputs, *size))
    return activation(m, name) if pick.random() < 0.6 else name


def transposed(m: Model) -> str | None:
    source, pick = m.source(), m.pick
    inputs, height, width = m.shapes[source]
    if height * width > 150:
        return None
    kernel, stride, outputs = pick.choice([2, 3, 4]), pick.choice([1, 2, 2]), pick.randint(1, 12)
    pad = pick.randrange(kernel // 2 + 1)
    size = tuple((n - 1) * stride + kernel - 2 * pad for n in (height, width))
    if min(size) < 1:
        return None
    weights = m.weights(inputs, outputs, kernel, kernel, taps=inputs * kernel)
    attrs = {"strides": [stride] * 2, "pads": [pad] * 4, "kernel_shape": [kernel] * 2}
    return m.op("ConvTranspose", [source, weights], (outputs, *size), **attrs)


def pool(m: Model) -> str | None:
    source, pick = m.source(), m.pick
    channels = m.shapes[source][0]
    kind = pick.choice(["MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean"])
    if kind == "GlobalAveragePool":
        return m.op(kind, [source], (channels, 1, 1))
    if kind == "ReduceMean":
        return m.op(kind, [source], (channels, 1, 1), axes=[2, 3], keepdims=1)
    attrs, size = windows(m, source, [2, 3])
    if min(size) < 1:
        return None
    if kind == "AveragePool":
        attrs["count_include_pad"] = 1
    return m.op(kind, [source], (channels, *size), **attrs)


def activation(m: Model, name: str | None = None) -> str:
    name, pick = name or m.source(), m.pick
    shape = m.shapes[name]
    match pick.choice(["Relu", "Relu", "Clip", "LeakyRelu", "PRelu", "HardSigmoid", "HardSwish"]):
        case "Clip":
            bounds = [m.constant(np.float32(bound)) for bound in (0, 6)]
            return m.op("Clip", [name, *bounds], shape)
        case "LeakyRelu":
            return m.op("LeakyRelu", [name], shape, alpha=pick.choice([0.1, 26 / 256, 0.3]))
        case "PRelu":
            return m.op("PRelu", [name, m.weights(shape[0], 1, 1)], shape)
        case "HardSigmoid":
            return m.op("HardSigmoid", [name], shape, alpha=1 / 6, beta=0.5)
        case kind:
            return m.op(kind, [name], shape)


def combine(m: Model) -> str:
    """Add a sum or product of two maps, perhaps a constant or one pixel for all."""
    source, pick = m.source(), m.pick
    shape, kind = m.shapes[source], pick.choice(["Add", "Mul"])
    alike = [n for n, s in m.shapes.items() if s in (shape, (shape[0], 1, 1))]
    other = pick.choice([*alike, m.weights(shape[0], 1, 1)])
    return m.op(kind, pick.sample([source, other], 2), shape)


def concat(m: Model) -> str:
    source, pick = m.source(), m.pick
    shape, axis = m.shapes[source], pick.choice([0, 0, 0, 1, 2])
    fitting = [
        n for n, s in m.shapes.items()
        if len(s) == 3 and all(a == axis or s[a] == shape[a] for a in range(3))
    ]  # fmt: skip
    parts = [source, pick.choice(fitting)]
    size = list(shape)
    size[axis] = sum(m.shapes[n][axis] for n in parts)
    return m.op("Concat", parts, tuple(size), axis=axis + 1)


def shuffle(m: Model) -> str | None:
    """Trade pixels for channels, repeat them, pad them, or take some."""
    source, pick = m.source(), m.pick
    channels, height, width = m.shapes[source]
    match pick.choice(["Resize", "Pad", "Slice", "DepthToSpace", "SpaceToDepth"]):
        case "Resize":
            scales = m.constant(np.float32([1, 1, 2, 2]))
            return m.op("Resize", [source, "", scales], (channels, 2 * height, 2 * width),
                        mode="nearest", coordinate_transformation_mode="asymmetric",
                        nearest_mode="floor")  # fmt: skip
        case "Pad":
            amounts = m.constant(np.int64([0, 0, 1, 2, 0, 0, 0, 1]))
            return m.op("Pad", [source, amounts], (channels, height + 1, width + 3))
        case "Slice" if height > 2:
            limits = [m.constant(np.int64([n])) for n in (1, height, 2)]
            return m.op("Slice", [source, *limits], (channels, height - 1, width))
        case "DepthToSpace" if channels % 4 == 0:
            return m.op("DepthToSpace", [source], (channels // 4, 2 * height, 2 * width),
                        blocksize=2, mode=pick.choice(["DCR", "CRD"]))  # fmt: skip
        case "SpaceToDepth" if height % 2 == width % 2 == 0:
            return m.op("SpaceToDepth", [source], (channels * 4, height // 2, width // 2),
                        blocksize=2)  # fmt: skip
    return None


def head(m: Model) -> str | None:
    """Add a classifier at an end: flatten and Gemm."""
    source = m.source()
    elements = math.prod(m.shapes[source])
    if elements > 3000:
        return None
    flat = m.op("Flatten", [source], (elements,))
    outputs = m.pick.randint(1, 20)
    weights = [m.weights(outputs, elements, taps=elements), m.weights(outputs)]
    return m.op("Gemm", [flat, *weights], (outputs,), transB=1)


STEPS: tuple[tuple[Callable[[Model], str | None], int], ...] = (
    (conv, 8), (transposed, 2), (pool, 3), (activation, 2), (combine, 4), (concat, 3),
    (shuffle, 3), (head, 1),
)  # fmt: skip


def draw_model(seed: int, most_ops: int = 8) -> onnx.ModelProto:
    """Return a random model with one or two inputs."""
    m = Model(seed)
    for number in range(m.pick.choice([1, 1, 2])):
        shape = (m.pick.randint(1, 9), m.pick.randint(1, 12), m.pick.randint(1, 12))
        m.inputs[f"x{number}"] = m.shapes[f"x{number}"] = shape
    steps, weights = zip(*STEPS, strict=True)
    conv(m)
    for _ in range(m.pick.randint(1, most_ops)):
        if math.prod(m.shapes[m.source()]) < 20_000:
            m.pick.choices(steps, weights)[0](m)
    if not m.nodes:
        activation(m)
    used = {name for node in m.nodes for name in node.input}
    m.inputs = {name: shape for name, shape in m.inputs.items() if name in used}
    return m.proto()
