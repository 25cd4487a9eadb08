# SPDX-License-Identifier: Apache-2.0
"""Large windows of max pooling in steps: the maximum of maxima is the maximum, to the bit.

Columns first, then rows; a side longer than an instruction's kernel that is a whole feature map in
two steps. Averages are rounded in every step, so there is no such way for them.
"""

import dataclasses

from opendpu.compiler.constraints.layers import MAX_ALU_KERNEL
from opendpu.compiler.constraints.registry import pair
from opendpu.compiler.layout import ADDRESS_GROUPS
from opendpu.ir import Node
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True)
class Step:
    """A window along one axis."""

    kernel: int
    stride: int
    pad: int
    outputs: int


def is_split(node: Node, target: Target) -> bool:
    """Tell whether the window of a ``pool-fix`` is more than one instruction takes.

    Its rows are in four address groups at most, which are equally large.
    """
    (_, width), (_, height) = pair(node, "kernel")
    sizes = (width, height, *(size for _, size in pair(node, "stride")))
    words = ADDRESS_GROUPS * -(-height // (ADDRESS_GROUPS * target.pixel_parallel)) * width
    return max(sizes) > MAX_ALU_KERNEL or words > target.bank_depth


def steps_of(node: Node, source: Node) -> tuple[list[Step], list[Step]] | None:
    """Return the steps along the columns and along the rows, or none if there are none."""
    left, _, top, _ = (int(p) for p in node.attrs["pad"])
    (_, width), (_, height) = pair(node, "kernel")
    (_, step_w), (_, step_h) = pair(node, "stride")
    columns = _along(width, step_w, left, source.shape[2], node.shape[2])
    rows = _along(height, step_h, top, source.shape[1], node.shape[1])
    return None if columns is None or rows is None else (columns, rows)


def _along(kernel: int, stride: int, pad: int, size: int, outputs: int) -> list[Step] | None:
    if outputs == 1:
        stride = 1
    if max(kernel, stride) <= MAX_ALU_KERNEL:
        return [Step(kernel, stride, pad, outputs)]
    part = -(-size // MAX_ALU_KERNEL)
    if outputs > 1 or pad or kernel < size or part > MAX_ALU_KERNEL:
        return None
    parts = -(-size // part)
    return [Step(part, part, 0, parts), Step(parts, 1, 0, 1)]
