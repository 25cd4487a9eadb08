# SPDX-License-Identifier: Apache-2.0
"""Normalizations of feature maps and vectors that exporters write as several nodes.

PyTorch's GroupNorm is a Reshape to groups, InstanceNormalization, a Reshape back, and a product and
a sum with one number a channel: one ``GroupNormalization`` here, in every operator set.
``F.normalize`` is a ``ReduceL2``, a Clip, an Expand and a Div; TensorFlow's ``l2_normalize`` takes
the root of a sum of squares: one ``LpNormalization``.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import DefUse, Fusion, fused, kept_axes, with_origin
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

MAP_RANKS = (3, 4)
"""Axes of feature maps: batch, channels, then space."""
Shape = tuple[int, ...]


def gathered(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    uses: Counter[str],
    shape_of: Callable[[str], Shape | None],
) -> list[onnx.NodeProto]:
    """Return the nodes with group normalizations, and vectors over their lengths, as one each.

    Results inside one must have no other reader; ``shape_of`` says the shape of a float32 tensor.
    ``constants`` gets scales and biases.
    """
    return fused(nodes, _Search(DefUse(nodes, uses), constants, shape_of).at)


@dataclasses.dataclass
class _Search:
    links: DefUse
    constants: MutableMapping[str, Array]
    shape_of: Callable[[str], Shape | None]

    def at(self, node: onnx.NodeProto) -> Fusion | None:
        """Return what a node is the middle, or the end, of."""
        find = {"InstanceNormalization": self.groups, "Div": self.unit_vectors}.get(node.op_type)
        if find is None or node.domain not in DEFAULT_DOMAINS:
            return None
        found = find(node)
        known = found is not None and all(one.domain in DEFAULT_DOMAINS for one in found.nodes)
        return found if found is not None and known and self.links.is_closed(found.nodes) else None

    def groups(self, norm: onnx.NodeProto) -> Fusion | None:
        """Return the group normalization around an InstanceNormalization."""
        before = self.links.made(norm.input[0], "Reshape")
        after = self.links.only_reader(norm.output[0], "Reshape")
        if before is None or after is None:
            return None
        shape, grouped = self.shape_of(before.input[0]), self.shape_of(norm.input[0])
        if shape is None or grouped is None or self.shape_of(after.output[0]) != shape:
            return None
        if len(shape) not in MAP_RANKS or len(grouped) < 3 or shape[0] != grouped[0]:
            return None
        count, channels = grouped[1], shape[1]
        if not count or channels % count or math.prod(shape) != math.prod(grouped):
            return None
        given = [self.constants.get(name) for name in norm.input[1:3]]
        if any(value is None or value.size != count for value in given):
            return None
        scale, bias = (
            np.repeat(np.asarray(value, np.float32).ravel(), channels // count) for value in given
        )
        inside = [before, norm, after]
        for op_type in ("Mul", "Add"):
            reader, value = channel_reader(
                self.links, inside[-1], op_type, shape, self.constants, self.shape_of
            )
            if reader is None or value is None:
                continue
            scale, bias = (
                (scale * value, bias * value) if op_type == "Mul" else (scale, bias + value)
            )
            inside.append(reader)
        last = inside[-1]
        names = [f"{last.output[0]}_{what}" for what in ("scale", "bias")]
        self.constants.update(zip(names, (scale, bias), strict=True))
        epsilon = next((a.f for a in norm.attribute if a.name == "epsilon"), 1e-5)
        made = helper.make_node(
            "GroupNormalization", [before.input[0], *names], last.output, last.name,
            num_groups=count, epsilon=epsilon,
        )  # fmt: skip
        return Fusion([with_origin(made, norm)], inside)

    def unit_vectors(self, quotient: onnx.NodeProto) -> Fusion | None:
        """Return vectors over their lengths, of which ``quotient`` is the last node."""
        x, below = quotient.input
        inside = [quotient]
        shape = self.shape_of(x)
        spread = self.links.made(below, "Expand")
        if spread is not None:
            inside.insert(0, spread)
            below = spread.input[0]
        least = 0.0
        bounded = self.links.producers.get(below)
        if bounded is not None and bounded.op_type in ("Clip", "Max") and len(bounded.input) > 1:
            floor = self.constants.get(bounded.input[1])
            if floor is None or floor.size != 1 or (len(bounded.input) > 2 and bounded.input[2]):
                return None
            least = float(floor.ravel()[0]) ** 2
            inside.insert(0, bounded)
            below = bounded.input[0]
        length = self.links.made(below, "ReduceL2")
        if length is None or length.input[0] != x or not shape:
            return None
        axes = kept_axes(length, self.constants)
        if axes is None or len(axes) != 1:
            return None
        inside.insert(0, length)
        axis = axes[0] % len(shape)
        made = helper.make_node(
            "LpNormalization", [x], quotient.output, quotient.name, axis=axis, p=2
        )
        if least:
            made.attribute.append(helper.make_attribute("epsilon", least))
        return Fusion([with_origin(made, quotient)], inside)


def channel_reader(
    links: DefUse,
    node: onnx.NodeProto,
    op_type: str,
    shape: Shape,
    constants: Mapping[str, Array],
    shape_of: Callable[[str], Shape | None],
) -> tuple[onnx.NodeProto | None, Array | None]:
    """Return what alone reads a node's result, and its constant, one number a channel.

    Either is nothing where there is no such operator, or no such constant.
    """
    reader = links.only_reader(node.output[0], op_type)
    if reader is None:
        return None, None
    return reader, by_channel(reader, node.output[0], shape, constants, shape_of)


def by_channel(
    node: onnx.NodeProto,
    computed: str,
    shape: Shape,
    constants: Mapping[str, Array],
    shape_of: Callable[[str], Shape | None],
) -> Array | None:
    """Return the constant operand of a node as one number a channel of a feature map."""
    (other,) = [name for name in node.input if name != computed] or [""]
    value = constants.get(other)
    if value is None or value.ndim > len(shape) or shape_of(node.output[0]) != shape:
        return None
    aligned = (1,) * (len(shape) - value.ndim) + value.shape
    if any(size != 1 for axis, size in enumerate(aligned) if axis != 1):
        return None
    return np.broadcast_to(value.reshape(-1), (shape[1],)).astype(np.float32)
