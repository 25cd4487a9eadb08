# SPDX-License-Identifier: Apache-2.0
"""Convolutions with more taps along an axis than instructions have, as ones with more channels.

Instructions have four bits for a kernel's rows and columns. Of 41 taps, each of three layers of
channels takes 14: the map, and the same map moved on by 14 and by 28 positions. So all taps stay in
one sum, which is rounded once. A sequence with a stride is folded first: as many positions as the
stride has steps become channels, without moving a byte, and taps get fewer by as much.

Groups are convolutions of their own, side by side: as many together as fill the lanes of the array,
with zeros between.
"""

import dataclasses
import math
from collections.abc import Collection
from typing import Any

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.ops.window import explicit_pad, pair
from opendpu.quantize.layers import has_constant_weights
from opendpu_arch.isa import ConvInit
from opendpu_arch.target import Target

MOST_TAPS = min(ConvInit.values_of(name)[-1] for name in ("kernel_h", "kernel_w"))
"""Rows or columns of a kernel that CONVINIT can say."""

MOST_LAYERS = 16
"""Copies of a map with which a convolution is still worth it."""

USUAL = Target.from_name("B512")
"""Whose banks have to hold the weights where no target is given."""


@dataclasses.dataclass(frozen=True)
class _Axis:
    """A convolution along one axis: sizes of map and result, padding before, and its numbers."""

    size: int
    made: int
    before: int
    taps: int
    stride: int
    dilation: int

    @property
    def layers(self) -> int:
        """How many times the map is needed."""
        return -(-self.taps // MOST_TAPS)

    @property
    def kept(self) -> int:
        """The taps of each."""
        return -(-self.taps // self.layers)

    @property
    def step(self) -> int:
        """How far one is moved on from that before it."""
        return self.kept * self.dilation

    @property
    def covered(self) -> int:
        """Positions that each of them has."""
        return (self.made - 1) * self.stride + (self.kept - 1) * self.dilation + 1

    @property
    def needed(self) -> int:
        """Positions of the padded map."""
        return (self.layers - 1) * self.step + self.covered

    def folded(self) -> "_Axis":
        """Return the same with ``stride`` positions as channels of one."""
        taps = -(-self.taps // self.stride)
        return _Axis(self.made - 1 + taps, self.made, 0, taps, 1, 1)


def split_wide_kernels(
    graph: Graph, floating: Collection[str] = (), target: Target | None = None
) -> int:
    """Rewrite wide convolutions, in place, but for ``floating`` ones; return how many there were.

    The last part has the name of the convolution.
    """
    wide = [
        node
        for node in graph
        if node.name not in floating and _is_wide(graph, node, target or USUAL)
    ]
    for node in wide:
        for part in _bundles(graph, node, target or USUAL):
            _rewrite(graph, part)
    if wide:
        graph.sort()
    return len(wide)


def _is_wide(graph: Graph, node: Node, target: Target) -> bool:
    """Return whether a convolution is too wide, and its weights fit a bank when it is rewritten."""
    if node.kind != "conv2d" or max(pair(node, "kernel")) <= MOST_TAPS:
        return False
    if not has_constant_weights(graph, node):
        return False
    axes = _axes(graph, node)
    folded = _folded_axis(graph, node, axes)
    if folded is not None:
        axes[folded] = axes[folded].folded()
    layers = math.prod(axis.layers for axis in axes)
    channels = graph[node.inputs["weights"][0]].shape[3] * _together(graph, node, target) * layers
    channels *= 1 if folded is None else pair(node, "stride")[1 - folded]
    words = math.prod(axis.kept for axis in axes) * -(-channels // target.channel_parallel)
    return layers <= MOST_LAYERS and words <= target.bank_depth


def _together(graph: Graph, node: Node, target: Target) -> int:
    """Return how many groups are one convolution: a divisor of their number."""
    group = int(node.attrs.get("group") or 1)
    most = max(1, target.channel_parallel // graph[node.inputs["weights"][0]].shape[3])
    return next(n for n in range(min(group, most), 0, -1) if group % n == 0)


def _bundles(graph: Graph, node: Node, target: Target) -> list[Node]:
    """Return convolutions without groups that make what a convolution makes.

    Where they are several, the op itself becomes what joins them.
    """
    group, some = int(node.attrs.get("group") or 1), _together(graph, node, target)
    if group == 1:
        return [node]
    (source,), weights = node.inputs["input"], graph[node.inputs["weights"][0]].value
    assert weights is not None
    biases = [graph[name].value for name in node.inputs.get("bias", ())]
    attrs = {**node.attrs, "group": 1}
    outputs, inputs = weights.shape[0] // group, weights.shape[3]
    made = []
    for first in range(0, group, some):
        rows = slice(first * outputs, (first + some) * outputs)
        dense = np.zeros((some * outputs, *weights.shape[1:3], some * inputs), weights.dtype)
        for number, taps in enumerate(np.split(weights[rows], some)):
            place = slice(number * outputs, (number + 1) * outputs)
            dense[place, ..., number * inputs : (number + 1) * inputs] = taps
        name = graph.unique(f"{node.name}_group")
        given = {
            "input": [_channels(graph, node, source, first * inputs, (first + some) * inputs)],
            "weights": [graph.add_const(f"{name}_weights", dense).name],
        }  # fmt: skip
        if biases and biases[0] is not None:
            given["bias"] = [graph.add_const(f"{name}_bias", biases[0][rows]).name]
        shape = (*node.shape[:3], some * outputs)
        made.append(graph.add(name, node.kind, shape, given, attrs, origin=node.origin))
    node.kind, node.inputs = "concat", {"input": [part.name for part in made]}
    node.attrs = {"axis": 3}
    return made


def _channels(graph: Graph, node: Node, source: str, begin: int, end: int) -> str:
    """Return some channels of a map; the map itself if these are all."""
    *front, channels = graph[source].shape
    if (begin, end) == (0, channels):
        return source
    attrs = {"begin": [0, 0, 0, begin], "end": [*front, end], "strides": [1, 1, 1, 1]}
    return _added(graph, node, "strided_slice", (*front, end - begin), [source], attrs)


def _axes(graph: Graph, node: Node) -> list[_Axis]:
    """Return rows and columns."""
    shape = graph[node.inputs["input"][0]].shape
    pads = explicit_pad(node, shape)
    kernel, stride, dilation = (pair(node, key) for key in ("kernel", "stride", "dilation"))
    return [
        _Axis(shape[1 + n], node.shape[1 + n], pads[2 * m], kernel[m], stride[m], dilation[m])
        for n, m in ((0, 1), (1, 0))
    ]


def _folded_axis(graph: Graph, node: Node, axes: list[_Axis]) -> int | None:
    """Return the axis whose positions can become channels: the only one of a sequence."""
    for number, (axis, other) in enumerate(zip(axes, reversed(axes), strict=True)):
        alone = (other.size, other.made, other.taps, other.before) == (1, 1, 1, 0)
        if axis.stride > 1 and axis.dilation == 1 and alone:
            return number
    return None


def _rewrite(graph: Graph, node: Node) -> None:
    axes, weights = _axes(graph, node), graph[node.inputs["weights"][0]].value
    assert weights is not None
    (source,) = node.inputs["input"]
    number = _folded_axis(graph, node, axes)
    if number is not None:
        axis, after = axes[number], axes[number].folded()
        lengths = [1, 1]
        lengths[number] = after.size * axis.stride
        source = _of_size(graph, node, source, axes, lengths)
        source, weights = _fold(graph, node, source, weights, number, axis.stride, after)
        axes[number] = after
    source = _of_size(graph, node, source, axes, [axis.needed for axis in axes])
    parts, slices = [], []
    for row in range(axes[0].layers):
        for column in range(axes[1].layers):
            starts = [n * axis.step for n, axis in zip((row, column), axes, strict=True)]
            ends = [s + axis.covered for s, axis in zip(starts, axes, strict=True)]
            parts.append(_cut(graph, node, source, starts, ends))
            slices.append(_taps(weights, axes, (row, column)))
    if len(parts) > 1:
        source = _joined(graph, node, parts)
    arrays = np.concatenate(slices, axis=3)
    node.inputs["input"] = [source]
    node.inputs["weights"] = [graph.add_const(graph.unique(f"{node.name}_taps"), arrays).name]
    node.attrs = {
        **node.attrs, "kernel": [axes[1].kept, axes[0].kept],
        "stride": [axes[1].stride, axes[0].stride], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR",
        "dilation": [axes[1].dilation, axes[0].dilation],
    }  # fmt: skip


def _taps(weights: Array, axes: list[_Axis], which: tuple[int, int]) -> Array:
    """Return the taps of one layer of channels, zeros behind the last one."""
    made = np.zeros((len(weights), axes[0].kept, axes[1].kept, weights.shape[3]), weights.dtype)
    (top, left) = (n * axis.kept for n, axis in zip(which, axes, strict=True))
    some = weights[:, top : top + axes[0].kept, left : left + axes[1].kept]
    made[:, : some.shape[1], : some.shape[2]] = some
    return made


def _of_size(graph: Graph, node: Node, source: str, axes: list[_Axis], lengths: list[int]) -> str:
    """Pad a map with zeros as the convolution does, and cut it: to ``lengths`` in all."""
    batch, *sizes, channels = graph[source].shape
    before = [axis.before for axis in axes] if sizes == [a.size for a in axes] else [0, 0]
    after = [
        max(0, length - size - first)
        for length, size, first in zip(lengths, sizes, before, strict=True)
    ]
    if any(before) or any(after):
        amounts = [0, 0, before[0], after[0], before[1], after[1], 0, 0]
        sizes = [s + b + a for s, b, a in zip(sizes, before, after, strict=True)]
        attrs = {"paddings": amounts, "mode": "CONSTANT", "constant_values": [0.0] * 8}
        source = _added(graph, node, "pad", (batch, *sizes, channels), [source], attrs)
    return _cut(graph, node, source, [0, 0], lengths)


def _cut(graph: Graph, node: Node, source: str, starts: list[int], ends: list[int]) -> str:
    """Return a part of the rows and columns of a map; the map itself if that is all."""
    batch, *sizes, channels = graph[source].shape
    if starts == [0, 0] and ends == sizes:
        return source
    attrs = {
        "begin": [0, *starts, 0], "end": [batch, *ends, channels], "strides": [1, 1, 1, 1],
    }  # fmt: skip
    shape = (batch, *(e - s for s, e in zip(starts, ends, strict=True)), channels)
    return _added(graph, node, "strided_slice", shape, [source], attrs)


def _joined(graph: Graph, node: Node, parts: list[str]) -> str:
    """Return some maps side by side, as channels."""
    *shape, channels = graph[parts[0]].shape
    return _added(graph, node, "concat", (*shape, channels * len(parts)), parts, {"axis": 3})


def _fold(
    graph: Graph, node: Node, source: str, weights: Array, number: int, stride: int, after: _Axis
) -> tuple[str, Array]:
    """Let ``stride`` positions of a sequence be channels of one; return map and weights."""
    shape = list(graph[source].shape)
    shape[1 + number] //= stride
    shape[3] *= stride
    source = _added(graph, node, "reshape", tuple(shape), [source], {"shape": shape})
    taps, channels = weights.shape[1 + number], weights.shape[3]
    flat = weights.reshape(len(weights), taps, channels)
    whole = np.zeros((len(weights), after.taps * stride, channels), weights.dtype)
    whole[:, :taps] = flat
    sizes = [1, 1]
    sizes[number] = after.taps
    return source, whole.reshape(len(weights), *sizes, stride * channels)


def _added(
    graph: Graph, node: Node, kind: str, shape: tuple[int, ...], sources: list[str],
    attrs: dict[str, Any],
) -> str:  # fmt: skip
    name = graph.unique(f"{node.name}_{kind}")
    return graph.add(name, kind, shape, {"input": sources}, attrs, origin=node.origin).name
