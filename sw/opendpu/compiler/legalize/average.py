# SPDX-License-Identifier: Apache-2.0
"""Averages that do not count the padding: a pool of its own for every size of the window."""

import dataclasses
import itertools
from collections.abc import Iterator

from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call
from opendpu.ir import Node, TensorType

MOST_REGIONS = 25
"""Parts of a result: those of a 5x5 window whose padding is 2 on every side."""


@dataclasses.dataclass(frozen=True)
class Span:
    """Neighbouring outputs along an axis whose windows have the same size inside the input."""

    first: int
    """Where the first window starts in the input."""
    window: int
    stride: int
    outputs: int

    @property
    def end(self) -> int:
        """Return where the last window ends."""
        return self.first + (self.outputs - 1) * self.stride + self.window


def spans(size: int, kernel: int, stride: int, before: int, outputs: int) -> list[Span]:
    """Return the outputs along an axis of ``size`` elements, by the size of their windows.

    ``before`` is the padding in front of the axis. A window wholly in the padding has no average,
    and ONNX allows none.
    """
    edges = [(max(0, start), min(size, start + kernel))
             for start in range(-before, -before + outputs * stride, stride)]  # fmt: skip
    made: list[Span] = []
    for begin, end in edges:
        last = made[-1] if made else None
        if last and end - begin == last.window and begin == last.first + last.outputs * stride:
            made[-1] = dataclasses.replace(last, outputs=last.outputs + 1)
        else:
            made.append(Span(begin, end - begin, stride, 1))
    return made


def excluding_padding(call: Call, kernel: list[int], stride: list[int], pad: list[int]) -> str:
    """Make ``pool-fix`` ops of parts of the input, and join what they make.

    ``kernel`` and ``stride`` are width and height, ``pad`` is left, right, top and bottom.

    Raises
    ------
    Refusal
        There would be too many parts.
    """
    shape = call.shape()
    rows = spans(shape[1], kernel[1], stride[1], pad[2], call.node.shape[1])
    columns = spans(shape[2], kernel[0], stride[0], pad[0], call.node.shape[2])
    if len(rows) * len(columns) > MOST_REGIONS:
        raise Refusal(
            f"DPU only supports averages that count the padding, or have up to {MOST_REGIONS} "
            f"parts with windows of one size, but here count_include_pad is false and they are "
            f"{len(rows) * len(columns)}; less padding would lift it",
            "XCOM_UNIMPLEMENT",
        )
    numbers = itertools.count()
    made = [_joined(call, [_pooled(call, r, c, numbers) for c in columns], 2) for r in rows]
    return _joined(call, made, 1)


def _pooled(call: Call, rows: Span, columns: Span, numbers: Iterator[int]) -> str:
    """Return the averages of one part."""
    context, node, number = call.context, call.node, next(numbers)
    (source,) = call.sources
    batch, height, width, channels = call.shape()
    cut = (batch, rows.end - rows.first, columns.end - columns.first, channels)
    if cut != (batch, height, width, channels):
        taken = Node(f"{node.name}_slice{number}", "", TensorType(cut), origin=node.origin)
        fixed = context.result[source].type.with_shape(cut)
        attrs = {
            "begin": [0, rows.first, columns.first, 0],
            "end": [batch, rows.end, columns.end, channels],
            "strides": [1, 1, 1, 1],
        }
        fix = Node(f"{call.fix.name}_slice{number}", "fix", fixed)
        source = context.add(taken, fix, "strided_slice-fix", {"input": [source]}, attrs, shape=cut)
    size = (batch, rows.outputs, columns.outputs, channels)
    window: dict[str, object] = {
        "kernel": [columns.window, rows.window], "stride": [columns.stride, rows.stride],
        "pad": [0, 0, 0, 0], "pad_mode": "FLOOR", "type": "AVG",
    }  # fmt: skip
    return _part(call, "pool-fix", [source], window, size, f"_part{number}")


def _joined(call: Call, parts: list[str], axis: int) -> str:
    """Return parts of the result that lie beside each other along an axis as one."""
    if len(parts) == 1:
        return parts[0]
    size = list(call.context.result[parts[0]].shape)
    size[axis] = sum(call.context.result[part].shape[axis] for part in parts)
    return _part(call, "concat-fix", parts, {"axis": axis}, tuple(size), f"_{parts[0]}")


def _part(
    call: Call, kind: str, inputs: list[str], attrs: dict[str, object], size: tuple[int, ...],
    suffix: str,
) -> str:  # fmt: skip
    """Add an op that makes a part of the result, or all of it."""
    node, fix = call.node, call.fix
    if size != node.shape:
        node = Node(f"{node.name}{suffix}", "", TensorType(size), origin=node.origin)
        fix = Node(f"{fix.name}{suffix}", "fix", fix.type.with_shape(size))
    return call.context.add(node, fix, kind, {"input": inputs}, attrs, shape=size)
