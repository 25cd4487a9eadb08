# SPDX-License-Identifier: Apache-2.0
"""Channels of a frozen graph by number: what is cut together in a graph of TensorFlow 1.

Numbers go from node to node, as in :mod:`tf_nndct.groups` from layer to layer. Constants are
weights: what they are along an axis has the numbers of what it is computed with. Constants that
say sizes (of a reshape, of what a dropout draws) follow in ``sizes``.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from opendpu.ir import Array
from opendpu.pruning import IN, OUT
from opendpu_arch.errors import UnsupportedError
from tf1_nndct.frozen import Graph, dimensions, node_of, value_of
from tf_nndct.channels import Channels
from tf_nndct.groups import Structure, structure_of

ALIKE = frozenset({
    "Abs", "AvgPool", "BatchToSpaceND", "Cast", "CheckNumerics", "Elu", "Erf", "Exp", "Floor",
    "Identity", "LeakyRelu", "Log", "MaxPool", "Neg", "PreventGradient", "ReadVariableOp",
    "Reciprocal", "Relu", "Relu6", "ResizeBilinear", "ResizeNearestNeighbor", "Rsqrt", "Selu",
    "Sigmoid", "Softplus", "Softsign", "SpaceToBatchND", "Sqrt", "Square", "StopGradient", "Tanh",
})  # fmt: skip
"""Operators that make each channel out of one of their first input."""
TOGETHER = frozenset({
    "Add", "AddN", "AddV2", "BiasAdd", "DivNoNan", "GreaterEqual", "Maximum", "Minimum", "Mul",
    "Pow", "RealDiv", "Select", "SelectV2", "SquaredDifference", "Sub",
})  # fmt: skip
"""Those that make each channel out of one of every input."""
NORMALIZATIONS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
DRAWING = frozenset({"RandomUniform", "RandomStandardNormal"})
PADDING = frozenset({"MirrorPad", "Pad", "PadV2"})


def analyze(graph: Graph, excludes: Iterable[str] = ()) -> Structure:
    """Find the groups of a frozen graph.

    Parameters
    ----------
    excludes
        Names of nodes whose channels stay.

    Raises
    ------
    UnsupportedError
        A node has its channels first, or there is none of a name of ``excludes``.
    """
    for name in excludes:
        if name not in graph.nodes:
            raise UnsupportedError(
                f"the graph has no node {name!r} of excludes",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
    return structure_of(_Walk(graph).numbered(frozenset(excludes)))


class _Walk:
    """Goes through a graph once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.a = Channels()
        self.found: dict[str, Array] = {}
        self.weights: dict[tuple[str, int], Array] = {}
        self.whole: dict[str, str] = {}  # constants that stay as they are, and why

    def numbered(self, excludes: frozenset[str]) -> Channels:
        for name, node in self.graph.nodes.items():
            if node.op == "Const":
                continue
            self.found[name] = made = self.result(node)
            if name in excludes:
                self.a.pin(made, "it is excluded")
        for name in self.graph.outputs:
            self.a.pin(self.ids(name), "an output of the network")
        return self.a

    def ids(self, tensor: str) -> Array:
        """Return the channels of a tensor that is read."""
        name = node_of(tensor)
        node = self.graph.nodes[name]
        if node.op != "Const":
            return self.found[name]
        shape = dimensions(node)
        if not shape or shape[-1] == 1 or node.attr["dtype"].type not in _FLOATING:
            return self.a.fresh(1)
        return self.weigh(name, name, len(shape) - 1, OUT, None)

    def weigh(self, path: str, name: str, axis: int, side: str, ids: Array | None) -> Array:
        """Let a constant have channels along an axis; return them."""
        known = self.weights.get((name, axis))
        if known is None:
            size = dimensions(self.graph.nodes[name])[axis]
            known = self.weights[name, axis] = self.a.fresh(size) if ids is None else ids
            self.a.slices.append((path, name, axis, side, known))
        elif ids is not None:
            self.a.join(known, ids)
        if name in self.whole:
            self.a.pin(known, self.whole[name])
        return known

    def stay(self, node: Any, reason: str) -> Array:
        shape = self.graph.shapes.get(f"{node.name}:0")
        return self.a.stay(shape[-1] if shape else 1, reason)

    def result(self, node: Any) -> Array:
        """Return the channels that a node makes."""
        inputs = [name for name in node.input if not name.startswith("^")]
        if node.attr["data_format"].s == b"NCHW" and node.op != "BiasAdd":
            raise UnsupportedError(
                f"node {node.name!r} has its channels first; graphs must have them last",
                code="OPTIMIZER_UNSUPPORTED_OP_ERROR",
            )
        if not inputs or node.op in {"Shape", "ShapeN", "Size", "Rank"}:
            return self.stay(node, f"{node.op} makes it")
        if node.op in ALIKE:
            return self.ids(inputs[0])
        if node.op in TOGETHER:
            return self.together(node, inputs)
        if node.op in NORMALIZATIONS:
            return self.normalization(node, inputs)
        if node.op in DRAWING:
            return self.sized(node, inputs[0])
        if node.op in PADDING:
            return self.padding(node, inputs)
        rule = _RULES.get(node.op)
        return self.unknown(node, inputs) if rule is None else rule(self, node, inputs)

    def unknown(self, node: Any, inputs: list[str]) -> Array:
        reason = f"{node.name} ({node.op}) reads it"
        for name in inputs:
            constant = self.graph.constant(name)
            if constant is None:
                self.a.pin(self.ids(name), reason)
                continue
            self.whole[constant.name] = reason
            for (weights, _), ids in self.weights.items():
                if weights == constant.name:
                    self.a.pin(ids, reason)
        return self.stay(node, f"{node.op} makes it")

    def produce(self, node: Any, count: int) -> Array:
        made = self.a.made[node.name] = self.a.fresh(count)
        return made

    def positions(self, tensor: str) -> int:
        shape = self.graph.shape(tensor) or ()
        return int(np.prod([size or 1 for size in shape[1:-1]], dtype=np.int64))

    def convolution(self, node: Any, inputs: list[str]) -> Array:
        weights = self.graph.constant(inputs[1])
        if weights is None:
            return self.unknown(node, inputs)
        height, width, read, count = dimensions(weights)
        given, made = self.ids(inputs[0]), self.produce(node, count)
        if read != len(given):
            self.a.pin(given, f"{node.name} has groups")
            self.a.pin(made, "it has groups")
        else:
            self.weigh(node.name, weights.name, 2, IN, given)
            self.weigh(node.name, weights.name, 3, OUT, made)
        groups = max(len(given) // read, 1)
        each = height * width * self.positions(node.name) // groups
        self.a.work.append((node.name, each, made, given))
        return made

    def depthwise(self, node: Any, inputs: list[str]) -> Array:
        weights = self.graph.constant(inputs[1])
        if weights is None:
            return self.unknown(node, inputs)
        height, width, _, multiplier = dimensions(weights)
        given = self.ids(inputs[0])
        made = np.repeat(given, multiplier)
        self.a.depthwise.add(node.name)
        self.weigh(node.name, weights.name, 2, OUT, given)
        self.a.work.append((node.name, height * width * self.positions(node.name), made, None))
        return made

    def transposed(self, node: Any, inputs: list[str]) -> Array:
        weights = self.graph.constant(inputs[1])
        if weights is None:
            return self.unknown(node, inputs)
        height, width, count, _ = dimensions(weights)
        given, made = self.ids(inputs[2]), self.produce(node, count)
        self.weigh(node.name, weights.name, 3, IN, given)
        self.weigh(node.name, weights.name, 2, OUT, made)
        self.size(inputs[0], made)
        self.a.work.append((node.name, height * width * self.positions(inputs[2]), made, given))
        return made

    def product(self, node: Any, inputs: list[str]) -> Array:
        weights = self.graph.constant(inputs[1])
        if weights is None or node.attr["transpose_a"].b:
            return self.unknown(node, inputs)
        read, wrote = (1, 0) if node.attr["transpose_b"].b else (0, 1)
        given, made = self.ids(inputs[0]), self.produce(node, dimensions(weights)[wrote])
        self.weigh(node.name, weights.name, read, IN, given)
        self.weigh(node.name, weights.name, wrote, OUT, made)
        self.a.work.append((node.name, self.positions(node.name), made, given))
        return made

    def normalization(self, node: Any, inputs: list[str]) -> Array:
        given = self.ids(inputs[0])
        for name in inputs[1:]:
            constant = self.graph.constant(name)
            if constant is None:
                self.a.join(given, self.ids(name))
            elif dimensions(constant) == (len(given),):
                self.weigh(node.name, constant.name, 0, OUT, given)
        return given

    def together(self, node: Any, inputs: list[str]) -> Array:
        channels = [self.ids(name) for name in inputs]
        widest = max(channels, key=len)
        for name, other in zip(inputs, channels, strict=True):
            if len(other) == len(widest):
                self.a.join(widest, other)
            elif self.graph.constant(name) is None:
                self.a.pin(other, f"{node.name} spreads it over other channels")
        return widest

    def concatenation(self, node: Any, inputs: list[str]) -> Array:
        *parts, axis = inputs
        constant, shape = self.graph.constant(axis), self.graph.shape(parts[0])
        if constant is None or shape is None:
            return self.unknown(node, parts)
        channels = [self.ids(name) for name in parts]
        if int(value_of(constant)) % len(shape) == len(shape) - 1:
            return np.concatenate(channels)
        for other in channels[1:]:
            self.a.join(channels[0], other)
        return channels[0]

    def mean(self, node: Any, inputs: list[str]) -> Array:
        constant, shape = self.graph.constant(inputs[1]), self.graph.shape(inputs[0])
        if constant is None or shape is None or len(shape) - 1 in value_of(constant) % len(shape):
            return self.unknown(node, inputs)
        return self.ids(inputs[0])

    def squeezed(self, node: Any, inputs: list[str]) -> Array:
        given, shape = self.ids(inputs[0]), self.graph.shape(node.name)
        fits = shape and shape[-1] == len(given)
        return given if fits else self.unknown(node, inputs)

    def part(self, node: Any, inputs: list[str]) -> Array:
        """Return the channels of a part of a feature map, with all channels in their order."""
        before, after = self.graph.shape(inputs[0]), self.graph.shape(node.name)
        steps = self.graph.constant(inputs[3]) if node.op == "StridedSlice" else None
        if not before or not after or len(before) != len(after) or before[-1] != after[-1]:
            return self.unknown(node, inputs)
        if steps is not None and value_of(steps)[-1] < 0:
            return self.unknown(node, inputs)
        return self.ids(inputs[0])

    def padding(self, node: Any, inputs: list[str]) -> Array:
        constant = self.graph.constant(inputs[1])
        if constant is None or value_of(constant)[-1].any():
            return self.unknown(node, inputs)
        return self.ids(inputs[0])

    def reshaped(self, node: Any, inputs: list[str]) -> Array:
        given, before = self.ids(inputs[0]), self.graph.shape(inputs[0])
        after = self.graph.shape(node.name)
        if not before or not after or None in before[1:] or after[-1] is None:
            return self.unknown(node, inputs)
        whole = self.positions(inputs[0]) * len(given)
        if after[-1] == len(given):
            made = given
        elif after[-1] == whole and all(size in (1, None, before[0]) for size in after[:-1]):
            made = np.tile(given, self.positions(inputs[0]))
        else:
            return self.unknown(node, inputs)
        self.size(inputs[1], made)
        return made

    def sized(self, node: Any, shape: str) -> Array:
        """Return channels that can go, of what is as large as a constant says."""
        made = self.a.fresh((self.graph.shape(node.name) or (1,))[-1] or 1)
        self.size(shape, made)
        return made

    def size(self, shape: str, ids: Array) -> None:
        """Let the last size of a constant shape follow channels."""
        node = self.graph.constant(shape)
        if node is None:
            packed = self.graph.nodes[node_of(shape)]
            if packed.op == "Shape":
                return
            if packed.op != "Pack":
                self.a.pin(ids, f"{packed.name} computes its size")
                return
            node = self.graph.constant(packed.input[-1])
            if node is None:
                return
        value = value_of(node)
        if value.size and int(value.flat[-1]) != -1:
            if node.name in self.a.sizes:
                self.a.join(self.a.sizes[node.name], ids)
            self.a.sizes[node.name] = ids


_RULES: dict[str, Any] = {
    "ConcatV2": _Walk.concatenation, "Conv2D": _Walk.convolution,
    "Conv2DBackpropInput": _Walk.transposed, "DepthwiseConv2dNative": _Walk.depthwise,
    "MatMul": _Walk.product, "Max": _Walk.mean, "Mean": _Walk.mean, "Reshape": _Walk.reshaped,
    "Slice": _Walk.part, "Squeeze": _Walk.squeezed, "StridedSlice": _Walk.part,
}  # fmt: skip
_FLOATING = (1, 2, 14, 19)
"""DT_FLOAT, DT_DOUBLE, DT_BFLOAT16, DT_HALF of TensorFlow's ``types.proto``."""
