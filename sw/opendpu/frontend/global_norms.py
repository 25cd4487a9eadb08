# SPDX-License-Identifier: Apache-2.0
"""Normalizations of whole feature maps that programs write out: mean, variance, root, quotient.

Speech separation has them as gLN, over all axes but the batch; over rows and columns they are
InstanceNorm. Both are one ``GroupNormalization``, of one group or of as many as there are channels.
Means of several axes may be one node or one after the other. Over the last of three axes they are
LayerNorm (:mod:`opendpu.frontend.normalizations`).
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, MutableMapping, Sequence

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import DefUse, Fusion, fused, kept_axes, with_origin
from opendpu.frontend.feature_norms import MAP_RANKS, Shape, by_channel, channel_reader
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS


def globally_normalized(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    uses: Counter[str],
    shape_of: Callable[[str], Shape | None],
) -> list[onnx.NodeProto]:
    """Return the nodes with normalizations of whole maps as one each.

    Results inside one must have no other reader; ``shape_of`` says the shape of a float32 tensor.
    ``constants`` gets scales and biases.
    """
    return fused(nodes, _Search(DefUse(nodes, uses), constants, shape_of).at)


@dataclasses.dataclass
class _Norm:
    """What a quotient divides, and the nodes that belong to it, the quotient not among them."""

    x: str
    groups: int
    epsilon: float
    scale: Array
    nodes: list[onnx.NodeProto]


@dataclasses.dataclass
class _Search:
    links: DefUse
    constants: MutableMapping[str, Array]
    shape_of: Callable[[str], Shape | None]

    def at(self, quotient: onnx.NodeProto) -> Fusion | None:
        """Return the normalization of which a node is the quotient."""
        norm = self._norm(quotient) if quotient.op_type == "Div" else None
        shape = self.shape_of(norm.x) if norm is not None else None
        if norm is None or shape is None:
            return None
        inside, scale, bias = [*norm.nodes, quotient], norm.scale, np.zeros(shape[1], np.float32)
        for op_type in ("Mul", "Add"):
            reader, value = channel_reader(
                self.links, inside[-1], op_type, shape, self.constants, self.shape_of
            )
            if reader is not None and value is not None:
                scale, bias = (scale * value, bias) if op_type == "Mul" else (scale, value)
                inside.append(reader)
        known = all(node.domain in DEFAULT_DOMAINS for node in inside)
        if not known or not self.links.is_closed(inside):
            return None
        last = inside[-1]
        names = [f"{last.output[0]}_{what}" for what in ("scale", "bias")]
        self.constants.update(zip(names, (scale, bias), strict=True))
        made = helper.make_node(
            "GroupNormalization", [norm.x, *names], last.output, last.name,
            num_groups=norm.groups, epsilon=norm.epsilon,
        )  # fmt: skip
        return Fusion([with_origin(made, last)], inside)

    def _norm(self, quotient: onnx.NodeProto) -> _Norm | None:
        """Return what a quotient divides by its deviation, if that is what it does."""
        divided, below = quotient.input
        root = self._root(below)
        if root is None:
            return None
        nodes, variance, epsilon = [root], root.input[0], 0.0
        added = self.links.made(variance, "Add")
        if added is not None:
            pairs = zip(added.input, reversed(added.input), strict=True)
            given = [(one, self.constants[two]) for one, two in pairs if two in self.constants]
            if len(given) != 1 or given[0][1].size != 1:
                return None
            variance, epsilon = given[0][0], float(given[0][1].ravel()[0])
            nodes.insert(0, added)
        square, means = self._mean(variance)
        centred = self._square(square)
        if centred is None or not means:
            return None
        sub = self.links.made(centred.input[0], "Sub")
        shape = self.shape_of(sub.input[0]) if sub is not None else None
        if sub is None or shape is None or len(shape) not in MAP_RANKS:
            return None
        x, others = self._mean(sub.input[1])
        axes = self._axes(means, len(shape))
        groups = {tuple(range(1, len(shape))): 1, (2, 3): shape[1]}.get(axes)
        if x != sub.input[0] or groups is None or self._axes(others, len(shape)) != axes:
            return None
        nodes = [*others, sub, centred, *means, *nodes]
        scale = np.ones(shape[1], np.float32)
        product = self.links.made(divided, "Mul")
        if product is not None:
            for name in product.input:
                value = by_channel(product, name, shape, self.constants, self.shape_of)
                if value is not None:
                    scale, divided = value, name
                    nodes.append(product)
                    break
        again = self.links.made(divided, "Sub")
        if again is None or list(again.input) != list(sub.input):
            return None
        if again is not sub:
            nodes.insert(0, again)
        return _Norm(x, groups, epsilon, scale, nodes)

    def _root(self, name: str) -> onnx.NodeProto | None:
        """Return the square root that makes a tensor."""
        node = self.links.producers.get(name)
        if node is None or node.op_type == "Sqrt":
            return node
        exponent = self.constants.get(node.input[1]) if node.op_type == "Pow" else None
        half = exponent is not None and exponent.size == 1 and float(exponent.ravel()[0]) == 0.5
        return node if half else None

    def _square(self, name: str) -> onnx.NodeProto | None:
        """Return what makes the square of a tensor."""
        node = self.links.producers.get(name)
        if node is None or node.op_type not in ("Mul", "Pow"):
            return None
        if node.op_type == "Mul":
            return node if node.input[0] == node.input[1] else None
        exponent = self.constants.get(node.input[1])
        return node if exponent is not None and np.all(exponent == 2) else None

    def _mean(self, name: str) -> tuple[str, list[onnx.NodeProto]]:
        """Return what a tensor is the mean of, and the nodes, the first one in front."""
        nodes: list[onnx.NodeProto] = []
        while (node := self.links.made(name, "ReduceMean")) is not None:
            nodes.insert(0, node)
            name = node.input[0]
        return name, nodes

    def _axes(self, means: Sequence[onnx.NodeProto], rank: int) -> tuple[int, ...]:
        """Return the axes that means are taken over and keep; none if one does not."""
        found: set[int] = set()
        for node in means:
            axes = kept_axes(node, self.constants)
            if not axes:
                return ()
            found.update(axis % rank for axis in axes)
        return tuple(sorted(found))
