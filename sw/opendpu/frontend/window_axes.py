# SPDX-License-Identifier: Apache-2.0
"""Windows over three axes and more, of which at most two are moved along: over those two.

JAX's exporter writes windows over all axes of a map, with one element of batch and channels, and
sums of windows as a convolution with ones; networks of videos have windows over one frame.
onnxruntime computes at most three axes.
"""

import dataclasses
import math
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import attributes_of, with_origin
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

Shape = tuple[int, ...]
ShapeOf = Callable[[str], Shape | None]

POOLS = frozenset({"AveragePool", "MaxPool"})
AHEAD = 2
"""Axes ahead of those that windows are over: batch, channels."""
MOVED = 2
"""Axes that a map's windows are moved along."""


def over_two_axes(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    shape_of: ShapeOf,
    add_floats: Callable[[str, Shape], None],
) -> list[onnx.NodeProto]:
    """Return the nodes with such windows over maps whose channels the other axes are.

    Pools, and convolutions of one channel. ``shape_of`` says the shape of a computed float32
    tensor; ``constants`` gets shapes and weights, ``add_floats`` is told what is new.
    """
    made: list[onnx.NodeProto] = []
    for node in nodes:
        window = _window(node, constants, shape_of)
        made += [node] if window is None else window.written(constants, add_floats)
    return made


@dataclasses.dataclass(frozen=True)
class _Window:
    """A window: the axes that it is moved along, and sizes before and behind."""

    node: onnx.NodeProto
    moved: list[int]
    before: Shape
    behind: Shape

    def written(
        self, constants: MutableMapping[str, Array], add_floats: Callable[[str, Shape], None]
    ) -> list[onnx.NodeProto]:
        """Return the nodes that stand for it."""
        rank, name = len(self.before), self.node.output[0]
        order = [n for n in range(rank) if n not in self.moved] + self.moved
        inner = [self.before[n] for n in order]
        outer = [self.behind[n] for n in order]
        maps = (inner[0], math.prod(inner[1:-MOVED]))
        steps: list[onnx.NodeProto] = []

        def step(
            what: str, op_type: str, given: list[str], shape: Sequence[int], **attrs: Any
        ) -> str:
            output = name if what == "end" else f"{name}_{what}"
            made = helper.make_node(op_type, given, [output], f"{self.node.name}_{what}", **attrs)
            steps.append(with_origin(made, self.node))
            add_floats(output, tuple(shape))
            return output

        def sizes(what: str, shape: Sequence[int]) -> str:
            constants[f"{name}_{what}"] = np.array(shape, np.int64)
            return f"{name}_{what}"

        x = step("moved", "Transpose", [self.node.input[0]], inner, perm=order)
        flat = (*maps, *inner[-MOVED:])
        x = step("maps", "Reshape", [x, sizes("maps_shape", flat)], flat)
        given, attrs = [x], self._attributes()
        if self.node.op_type == "Conv":
            given += self._parameters(constants, maps[1])
            attrs["group"] = maps[1]
        x = step("windows", self.node.op_type, given, (*maps, *outer[-MOVED:]), **attrs)
        x = step("axes", "Reshape", [x, sizes("axes_shape", outer)], outer)
        back = [order.index(axis) for axis in range(rank)]
        step("end", "Transpose", [x], self.behind, perm=back)
        return steps

    def _attributes(self) -> dict[str, Any]:
        """Return the attributes for the axes that it is moved along."""
        count, places = len(self.before) - AHEAD, [axis - AHEAD for axis in self.moved]
        found = attributes_of(self.node)
        for name in found.keys() & {"kernel_shape", "strides", "dilations"}:
            found[name] = [found[name][n] for n in places]
        if "pads" in found:
            found["pads"] = [found["pads"][n + side] for side in (0, count) for n in places]
        return found

    def _parameters(self, constants: MutableMapping[str, Array], channels: int) -> list[str]:
        """Return weights and bias of the one channel, once for each."""
        name, weights = self.node.output[0], constants[self.node.input[1]]
        kernel = [weights.shape[axis] for axis in self.moved]
        constants[f"{name}_weights"] = np.tile(weights.reshape(1, 1, *kernel), (channels, 1, 1, 1))
        found = [f"{name}_weights"]
        if len(self.node.input) > AHEAD and self.node.input[AHEAD]:
            constants[f"{name}_bias"] = np.tile(constants[self.node.input[AHEAD]], channels)
            found.append(f"{name}_bias")
        return found


def _window(
    node: onnx.NodeProto, constants: MutableMapping[str, Array], shape_of: ShapeOf
) -> _Window | None:
    """Return a window over more axes than two that is moved along two at most."""
    if node.op_type not in (*POOLS, "Conv") or node.domain not in DEFAULT_DOMAINS:
        return None
    before, behind = shape_of(node.input[0]), shape_of(node.output[0])
    if before is None or behind is None or len(before) <= AHEAD + MOVED or any(node.output[1:]):
        return None
    count = len(before) - AHEAD
    attrs = attributes_of(node)
    kernel = attrs.get("kernel_shape")
    if node.op_type == "Conv":
        known = all(name in constants for name in node.input[1:] if name)
        weights = constants.get(node.input[1])
        if not known or weights is None or weights.shape[:AHEAD] != (1, 1):
            return None
        kernel = list(weights.shape[AHEAD:])
    if kernel is None or attrs.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return None
    strides, pads = attrs.get("strides", [1] * count), attrs.get("pads", [0] * 2 * count)
    idle = [
        AHEAD + n for n in range(count)
        if (kernel[n], strides[n], pads[n], pads[n + count]) == (1, 1, 0, 0)
    ]  # fmt: skip
    moved = [axis for axis in range(AHEAD, len(before)) if axis not in idle]
    missing = max(0, MOVED - len(moved))
    moved = sorted([*moved, *idle[len(idle) - missing :]])
    return _Window(node, moved, before, behind) if len(moved) == MOVED else None
