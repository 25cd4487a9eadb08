# SPDX-License-Identifier: Apache-2.0
"""Convolutions over volumes and videos, frame by frame: those over feature maps that they are.

A frame of the result of a three-dimensional kernel is a two-dimensional one over as many frames of
the input as the kernel is deep, side by side in the channels. What reads such results, and treats
frames alike, does so frame by frame, too; everybody else gets the frames stacked again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import attributes_of, reduced_axes, with_origin
from opendpu.frontend.sequences import side_by_side
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS, ELEMENTWISE

if TYPE_CHECKING:
    from opendpu.frontend.analysis import Analysis

RANK = 5
"""Axes of volumes: samples, channels, frames, rows, columns."""
FRAME_AXIS = 2
MOST_FRAMES = 32
"""Frames of the deepest result that is written frame by frame."""
MOST_NODES = 1 << 12
"""Nodes of a model that volumes make at most."""


def frame_by_frame(node: onnx.NodeProto, known: "Analysis") -> list[onnx.NodeProto] | None:
    """Return what a node computes frame by frame, if it is over volumes; None where it stays.

    The frames that it makes are noted in ``known``; a rule that finds none has made the result.
    """
    rule = RULES.get(node.op_type) if node.domain in DEFAULT_DOMAINS else None
    if rule is None or len(node.output) != 1 or len(known.nodes) > MOST_NODES:
        return None
    frames = _Frames(node, known)
    made = rule(frames)
    if made is None or len(made) > MOST_FRAMES:
        return None
    if made:
        known.frames[node.output[0]] = tuple(made)
    return [with_origin(other, node) for other in frames.nodes]


def stacked(name: str, frames: Sequence[str], known: "Analysis") -> list[onnx.NodeProto]:
    """Return the nodes that make a volume of its frames: one tall map of all, seen as a volume."""
    shape = shape_of_frames(frames, known)
    if shape is None:
        return side_by_side(name, frames, FRAME_AXIS, known)
    known.constants[f"{name}/shape"] = np.array(shape, np.int64)
    return [
        helper.make_node("Concat", list(frames), [f"{name}/tall"], axis=FRAME_AXIS),
        helper.make_node("Reshape", [f"{name}/tall", f"{name}/shape"], [name]),
    ]


def shape_of_frames(frames: Sequence[str], known: "Analysis") -> tuple[int, ...] | None:
    """Return the shape of a volume of some frames."""
    shape = known.shape(frames[0])
    return shape and (*shape[:FRAME_AXIS], len(frames), *shape[FRAME_AXIS:])


class _Frames:
    """Writes a node frame by frame."""

    def __init__(self, node: onnx.NodeProto, known: "Analysis") -> None:
        self.node = node
        self.known = known
        self.attrs = attributes_of(node)
        self.nodes: list[onnx.NodeProto] = []

    def op(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Append a node; return its result."""
        made = f"{self.node.output[0]}/frame{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [made], made, **attrs))
        return made

    def constant(self, what: str, array: Array) -> str:
        """Return a constant of this node."""
        made = f"{self.node.output[0]}/{what}"
        self.known.constants[made] = array
        return made

    def of(self, name: str) -> Sequence[str] | None:
        """Return the frames of a volume, if it is known to be made of some."""
        return self.known.frames.get(name)

    def cut(self, name: str) -> Sequence[str] | None:
        """Return the frames of any volume."""
        shape = self.known.shape_of_floats(name)
        if name in self.known.frames or shape is None or len(shape) != RANK:
            return self.of(name)
        return [
            self.op("Gather", [name, self.constant(f"place{i}", np.array(i))], axis=FRAME_AXIS)
            for i in range(shape[FRAME_AXIS])
        ]

    def window(self, kernel: Sequence[int]) -> tuple[dict[str, Any], list[int]] | None:
        """Return the attributes over rows and columns, and stride, dilation and padding of frames.

        None for windows that say their padding in another way.
        """
        given = {"strides": [1] * 3, "dilations": [1] * 3, "pads": [0] * 6}
        given |= {k: list(v) for k, v in self.attrs.items() if k in given}
        if self.attrs.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
            return None
        pads = given["pads"]
        flat = {
            "kernel_shape": list(kernel[1:]), "strides": given["strides"][1:],
            "dilations": given["dilations"][1:], "pads": [*pads[1:3], *pads[4:6]],
        }  # fmt: skip
        return flat, [given["strides"][0], given["dilations"][0], pads[0], pads[3]]

    def taps(self, count: int, depth: int, steps: Sequence[int]) -> list[list[tuple[int, int]]]:
        """Return, for each frame of the result, which kernel frame meets which frame of the input.

        Frames of the padding are left out.
        """
        stride, dilation, before, after = steps
        made = (count + before + after - dilation * (depth - 1) - 1) // stride + 1
        meets = (
            [(k, t * stride - before + k * dilation) for k in range(depth)] for t in range(made)
        )
        return [[(k, place) for k, place in each if 0 <= place < count] for each in meets]


def _weights(f: _Frames) -> Array | None:
    """Return the constant kernels of a layer over volumes."""
    weights = f.known.constants.get(f.node.input[1])
    if weights is None or weights.ndim != RANK or weights.dtype != np.float32:
        return None
    return weights if weights.shape[2] <= MOST_FRAMES else None


def _convolution(f: _Frames) -> list[str] | None:
    weights = _weights(f)
    if weights is None:
        return None
    depth, group = weights.shape[2], int(f.attrs.get("group", 1))
    found = f.window(weights.shape[2:])
    frames = f.cut(f.node.input[0])
    if found is None or frames is None:
        return None
    flat, steps = found
    every = f.taps(len(frames), depth, steps)
    if not 0 < len(every) <= MOST_FRAMES or not all(every):
        return None
    if group > 1 < depth:
        return [_sum(f, "Conv", weights, frames, taps, flat | {"group": group}) for taps in every]
    result = []
    for taps in every:
        kernels = [k for k, _ in taps]
        own = weights[:, :, kernels].transpose(0, 2, 1, 3, 4)
        name = f.constant(
            f"weights{kernels[0]}_{kernels[-1]}",
            own.reshape(len(own), -1, *weights.shape[3:]),
        )
        read = [frames[place] for _, place in taps]
        x = read[0] if len(read) == 1 else f.op("Concat", read, axis=1)
        result.append(f.op("Conv", [x, name, *f.node.input[2:]], group=group, **flat))
    return result


def _sum(
    f: _Frames, op_type: str, weights: Array, frames: Sequence[str],
    taps: Sequence[tuple[int, int]], attrs: Mapping[str, Any],
) -> str:  # fmt: skip
    """Append a layer for each kernel frame that meets one, the first with the bias, and the sum."""
    made = ""
    for k, place in taps:
        read = [frames[place], f.constant(f"weights{k}", weights[:, :, k])]
        more = f.op(op_type, read if made else [*read, *f.node.input[2:]], **attrs)
        made = f.op("Add", [made, more]) if made else more
    return made


def _transposed(f: _Frames) -> list[str] | None:
    weights = _weights(f)
    if weights is None or "output_shape" in f.attrs:
        return None
    found, frames = f.window(weights.shape[2:]), f.cut(f.node.input[0])
    if found is None or frames is None:
        return None
    flat, (stride, dilation, before, after) = found
    extra = list(f.attrs.get("output_padding", [0] * 3))
    attrs = flat | {"group": int(f.attrs.get("group", 1)), "output_padding": extra[1:]}
    depth = weights.shape[2]
    count = (len(frames) - 1) * stride + dilation * (depth - 1) + 1 - before - after + extra[0]
    every = [
        [
            (k, (t + before - k * dilation) // stride)
            for k in range(depth)
            if (t + before - k * dilation) % stride == 0
            and 0 <= t + before - k * dilation < len(frames) * stride
        ]
        for t in range(count)
    ]
    if not 0 < len(every) <= MOST_FRAMES or not all(every):
        return None
    return [_sum(f, "ConvTranspose", weights, frames, taps, attrs) for taps in every]


def _pool(f: _Frames) -> list[str] | None:
    """A window over rows and columns of what one over frames makes, each pixel of them a column."""
    kind, kernel = f.node.op_type, list(f.attrs["kernel_shape"])
    found, frames = f.window(kernel), f.of(f.node.input[0])
    if frames is None or found is None or f.attrs.get("ceil_mode", 0):
        return None
    flat, steps = found
    shape = f.known.shape(frames[0])
    padded = kind == "AveragePool" and any(f.attrs.get("pads", ()))
    every = f.taps(len(frames), kernel[0], steps)
    if shape is None or padded or not all(every):
        return None
    line = f.constant("line", np.array([*shape[:2], 1, math.prod(shape[2:])]))
    whole = f.constant("map", np.array(shape))
    lines = {}
    result = []
    for taps in every:
        x = frames[taps[0][1]]
        if len(taps) > 1:
            for _, place in taps:
                if place not in lines:
                    lines[place] = f.op("Reshape", [frames[place], line])
            x = f.op("Concat", [lines[place] for _, place in taps], axis=2)
            x = f.op("Reshape", [f.op(kind, [x], kernel_shape=[len(taps), 1]), whole])
        result.append(f.op(kind, [x], **flat) if math.prod(kernel[1:]) > 1 else x)
    return result


def _global_average(f: _Frames) -> list[str] | None:
    frames = f.of(f.node.input[0])
    if frames is None:
        return None
    tall = frames[0] if len(frames) == 1 else f.op("Concat", frames, axis=2)
    return [f.op("GlobalAveragePool", [tall])]


def _mean(f: _Frames) -> list[str] | None:
    axes = reduced_axes(f.node, f.known.constants)
    found = _global_average(f) if axes and {a % RANK for a in axes} == {2, 3, 4} else None
    if found is None or f.attrs.get("keepdims", 1):
        return found
    f.nodes.append(helper.make_node("Flatten", found, list(f.node.output)))
    return []


def _each(f: _Frames) -> list[str] | None:
    """What treats every element, or channel, of a frame as in any other frame."""
    held = [f.of(name) for name in f.node.input]
    counts = {len(frames) for frames in held if frames is not None} - {1}
    if all(frames is None for frames in held) or len(counts) > 1:
        return None
    count = max(counts, default=1)
    operands = []
    for position, (name, frames) in enumerate(zip(f.node.input, held, strict=True)):
        if frames is None:
            found = _flat(f, position, name)
            if found is None:
                return None
            frames = [found]
        operands.append(list(frames) if len(frames) == count else list(frames) * count)
    return [f.op(f.node.op_type, each, **f.attrs) for each in zip(*operands, strict=True)]


def _flat(f: _Frames, position: int, name: str) -> str | None:
    """Return a constant for one frame, if it is the same for all."""
    array = f.known.constants.get(name)
    if array is None:
        return name if not name else None
    axis = array.ndim - RANK + FRAME_AXIS
    if axis < 0 or f.node.op_type == "BatchNormalization":
        return name
    if array.shape[axis] != 1:
        return None
    return f.constant(f"operand{position}", array.squeeze(axis))


def _side_by_side(f: _Frames) -> list[str] | None:
    held = [f.of(name) for name in f.node.input]
    if int(f.attrs.get("axis", 0)) not in (1, 1 - RANK) or None in held:
        return None
    if len({len(frames) for frames in held if frames is not None}) != 1:
        return None
    every = zip(*(frames for frames in held if frames is not None), strict=True)
    return [f.op("Concat", each, axis=1) for each in every]


RULES: Mapping[str, Callable[[_Frames], list[str] | None]] = {
    **dict.fromkeys(ELEMENTWISE | {"BatchNormalization"}, _each), "AveragePool": _pool,
    "Concat": _side_by_side, "Conv": _convolution, "ConvTranspose": _transposed,
    "GlobalAveragePool": _global_average, "MaxPool": _pool, "ReduceMean": _mean,
}  # fmt: skip
"""What is written frame by frame: convolutions, and the others behind them."""
