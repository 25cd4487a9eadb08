# SPDX-License-Identifier: Apache-2.0
"""Pooling: layers of the misc engine."""

import dataclasses

from opendpu.compiler.average import average_factor
from opendpu.compiler.fixed import point_of
from opendpu.compiler.lower.context import Context
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.lower.window import window_of
from opendpu.compiler.maxima import is_split, steps_of
from opendpu.compiler.plan import AluLayer, Window
from opendpu.ir import Node
from opendpu_arch.isa import AluMode


@lowers("pool-fix")
def pool(context: Context, node: Node) -> None:
    """Add a layer that takes the maximum or the average of every window."""
    source = node.inputs["input"][0]
    window = window_of(node)
    right = point_of(context.draft[source]) - point_of(node)
    mode, factor = AluMode.MAXPOOL, 0
    if node.attrs["type"] == "AVG":
        mode = AluMode.AVEPOOL
        factor, shift = average_factor(kernel_h=window.kernel_h, kernel_w=window.kernel_w)
        right += shift
    elif is_split(node, context.target):
        _in_steps(context, node, _shift_cut(right))
        return
    context.layers.append(
        AluLayer(
            name=node.name, source=source, output=node.name, window=window, mode=mode,
            multi_factor=factor, shift_cut=_shift_cut(right),
        )
    )  # fmt: skip


def _in_steps(context: Context, node: Node, shift_cut: int) -> None:
    """Add a layer for each step of a large window; the last one shifts."""
    source = context.features[node.inputs["input"][0]]
    steps = steps_of(node, context.draft[source.name])
    assert steps is not None
    windows = [
        (Window(kernel_w=s.kernel, stride_w=s.stride, pad_left=s.pad), "width", s.outputs)
        for s in steps[0]
    ] + [
        (Window(kernel_h=s.kernel, stride_h=s.stride, pad_top=s.pad), "height", s.outputs)
        for s in steps[1]
    ]
    for number, (window, side, outputs) in enumerate(windows):
        last = number == len(windows) - 1
        name = node.name if last else f"{node.name}/{number}"
        if not last:
            context.features[name] = dataclasses.replace(source, name=name, **{side: outputs})
        context.layers.append(
            AluLayer(
                name=name, source=source.name, output=name, window=window,
                mode=AluMode.MAXPOOL, shift_cut=shift_cut if last else 0,
            )
        )  # fmt: skip
        source = context.features[name]


def _shift_cut(right: int) -> int:
    """Return the field for a shift to the right, or to the left if negative."""
    return 8 + right if right >= 0 else -right
