# SPDX-License-Identifier: Apache-2.0
"""Dilated convolutions that TensorFlow writes as plain ones of every so many-th pixel.

``SpaceToBatchND`` makes a sample of each phase of rows and columns, a convolution without dilation
meets them, ``BatchToSpaceND`` puts the phases together again. tf2onnx has these as::

    [C, N, H, W]  SpaceToDepth  [C, b b N, H/b, W/b]  exchanged  Conv  exchanged  DepthToSpace

with the first two axes exchanged around the convolution: by Transpose, or, of one channel, by
anything that keeps the order of elements. What cuts off padding and adds a bias behind, still with
exchanged axes, goes along.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import (
    DefUse,
    Fusion,
    attributes_of,
    fused,
    with_origin,
    without_unread,
)
from opendpu.frontend.identities import VIEWS, keeps_order
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

Shape = tuple[int, ...]
ShapeOf = Callable[[str], Shape | None]
EXCHANGED = (1, 0, 2, 3)
RANK = 4


def dilated(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    uses: Counter[str],
    outputs: Sequence[str],
    shape_of: ShapeOf,
    add_floats: Callable[[str, Shape], None],
) -> list[onnx.NodeProto]:
    """Return the nodes with dilated convolutions in place of those of phases.

    ``shape_of`` says the shape of a float32 tensor, ``outputs`` are the model's; ``constants`` gets
    biases, and ``add_floats`` is told what else is new.
    """
    if not any(node.op_type == "DepthToSpace" for node in nodes):
        return list(nodes)
    search = _Search(DefUse(nodes, uses), constants, shape_of)

    def find(node: onnx.NodeProto) -> Fusion | None:
        found = search.around(node) if node.op_type == "Conv" else None
        return None if found is None else _written(found, constants, shape_of, add_floats)

    return without_unread(fused(nodes, find), outputs)


@dataclasses.dataclass
class _Dilated:
    """A convolution of phases: what it is of, with exchanged axes, and its nodes from it on."""

    source: str
    block: int
    conv: onnx.NodeProto
    nodes: list[onnx.NodeProto]
    result: onnx.NodeProto
    """What puts the phases together."""
    cut: onnx.NodeProto | None = None
    bias: str = ""


class _Search:
    """Where such convolutions are among the nodes of a model."""

    def __init__(self, links: DefUse, constants: Mapping[str, Array], shape_of: ShapeOf) -> None:
        self.links, self.constants, self.shape_of = links, constants, shape_of

    def around(self, conv: onnx.NodeProto) -> _Dilated | None:
        """Return the convolution of phases that a node is."""
        if not _is_plain(conv):
            return None
        before = self._moves_before(conv.input[0])
        split = self.links.producers.get(before[0].input[0] if before else conv.input[0])
        if split is None or split.op_type != "SpaceToDepth":
            return None
        behind = self._moves_behind(conv.output[0])
        join = self._reader(behind[-1].output[0] if behind else conv.output[0])
        if join is None or join.op_type != "DepthToSpace" or len(join.output) != 1:
            return None
        block = int(attributes_of(split)["blocksize"])
        nodes = [conv, *behind, join]
        ends = (
            (split.output[0], conv.input[0], before),
            (conv.output[0], join.input[0], behind),
        )
        if int(attributes_of(join)["blocksize"]) != block or not all(
            self._exchanges(*end) for end in ends
        ):
            return None
        phases, samples = self.shape_of(conv.input[0]), self.shape_of(split.input[0])
        if phases is None or samples is None or phases[0] != block * block * samples[1]:
            return None
        if samples[1] > 1 and attributes_of(join).get("mode", b"DCR") != b"DCR":
            return None
        found = _Dilated(split.input[0], block, conv, nodes, join)
        self._end(found)
        if any(node.domain not in DEFAULT_DOMAINS for node in found.nodes):
            return None
        return found if self.links.is_closed(found.nodes) else None

    def _moves_before(self, name: str) -> list[onnx.NodeProto]:
        """Return what moves data in front of a tensor, in order."""
        found: list[onnx.NodeProto] = []
        node = self.links.producers.get(name)
        while node is not None and node.op_type in (*VIEWS, "Transpose"):
            found.insert(0, node)
            node = self.links.producers.get(node.input[0])
        return found

    def _moves_behind(self, name: str) -> list[onnx.NodeProto]:
        found: list[onnx.NodeProto] = []
        node = self._reader(name)
        while node is not None and node.op_type in (*VIEWS, "Transpose"):
            found.append(node)
            node = self._reader(node.output[0])
        return found

    def _reader(self, name: str) -> onnx.NodeProto | None:
        """Return what alone reads a tensor."""
        readers = self.links.readers.get(name, [])
        return readers[0] if len(readers) == 1 and self.links.uses[name] == 1 else None

    def _exchanges(self, first: str, last: str, moves: Sequence[onnx.NodeProto]) -> bool:
        """Return whether moves exchange the first two axes of a tensor of four."""
        before, after = self.shape_of(first), self.shape_of(last)
        if before is None or after is None or len(before) != RANK:
            return False
        if tuple(before[axis] for axis in EXCHANGED) != after:
            return False
        turns = [node for node in moves if node.op_type == "Transpose"]
        if 1 in before[:2]:
            return all(keeps_order(node, self.shape_of) for node in turns)
        return len(moves) == 1 and len(turns) == 1 and (
            tuple(attributes_of(turns[0]).get("perm", ())) == EXCHANGED
        )  # fmt: skip

    def _end(self, found: _Dilated) -> None:
        """Take what cuts off rows and columns, and what adds a number a channel."""
        reader = self._reader(found.result.output[0])
        if reader is not None and reader.op_type == "Slice" and self._is_of_space(reader):
            found.cut = reader
            found.nodes.append(reader)
            reader = self._reader(reader.output[0])
        if reader is None or reader.op_type != "Add" or len(found.conv.input) > 2:
            return
        given = [name for name in reader.input if name in self.constants]
        shape = self.shape_of(reader.output[0])
        if len(given) == 1 and shape is not None:
            value = self.constants[given[0]]
            if value.shape == (shape[0], *(1,) * (len(shape) - 1)):
                found.bias = given[0]
                found.nodes.append(reader)

    def _is_of_space(self, cut: onnx.NodeProto) -> bool:
        axes = self.constants.get(cut.input[3]) if len(cut.input) > 3 else None
        return axes is not None and set((axes % RANK).tolist()) <= {2, 3}


def _is_plain(conv: onnx.NodeProto) -> bool:
    """Return whether a convolution of images has neither steps, padding nor dilation."""
    attrs = attributes_of(conv)
    return (
        conv.domain in DEFAULT_DOMAINS
        and len(attrs.get("kernel_shape", (1, 1))) == RANK - 2
        and set(attrs.get("strides", (1,))) == {1}
        and set(attrs.get("dilations", (1,))) == {1}
        and not any(attrs.get("pads", ()))
        and attrs.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID")
    )


def _written(
    found: _Dilated, constants: MutableMapping[str, Array], shape_of: ShapeOf,
    add_floats: Callable[[str, Shape], None],
) -> Fusion:  # fmt: skip
    """Return the dilated convolution with all that goes along, between exchanges of axes."""
    last, joined = found.nodes[-1], shape_of(found.result.output[0]) or ()
    (y,) = last.output
    exchange: dict[str, Any] = {"perm": list(EXCHANGED)}
    made = [helper.make_node("Transpose", [found.source], [f"{y}_samples"], **exchange)]
    samples = shape_of(found.source) or ()
    add_floats(f"{y}_samples", tuple(samples[axis] for axis in EXCHANGED))
    attrs = attributes_of(found.conv) | {"dilations": [found.block] * 2}
    inputs = [f"{y}_samples", *found.conv.input[1:]]
    if found.bias:
        constants[f"{y}_bias"] = np.ravel(constants[found.bias])
        inputs[2:] = [f"{y}_bias"]
    made.append(helper.make_node("Conv", inputs, [f"{y}_dilated"], found.conv.name, **attrs))
    add_floats(f"{y}_dilated", tuple(joined[axis] for axis in EXCHANGED))
    if found.cut is not None:
        cut = onnx.NodeProto()
        cut.CopyFrom(found.cut)
        cut.input[0], cut.output[0] = made[-1].output[0], f"{y}_cut"
        made.append(cut)
        shape = shape_of(found.cut.output[0]) or ()
        add_floats(f"{y}_cut", tuple(shape[axis] for axis in EXCHANGED))
    made.append(helper.make_node("Transpose", [made[-1].output[0]], [y], **exchange))
    return Fusion([with_origin(one, found.conv) for one in made], found.nodes)
