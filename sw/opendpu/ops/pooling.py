# SPDX-License-Identifier: Apache-2.0
"""Pooling windows, and reductions along axes."""

import math

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.ops.onnx_builder import TO_NHWC, OnnxBuilder
from opendpu.ops.operator import Emit, Operator, Result, register
from opendpu.ops.window import onnx_window, whole_window


def _max_pool(builder: OnnxBuilder, node: Node) -> None:
    (source,) = node.inputs["input"]
    kernel, stride, pad = whole_window(node, builder.graph[source].shape)
    window = onnx_window(kernel, stride, pad, (1, 1))
    name = builder.op("MaxPool", [builder.channels_first(source)], **window)
    builder.bind(node, name, channels_first=True)


def _average_pool(builder: OnnxBuilder, node: Node) -> None:
    """Emit the means of windows, over as many elements as each counts."""
    (source,) = node.inputs["input"]
    shape = builder.graph[source].shape
    kernel, stride, pad = whole_window(node, shape)
    window = onnx_window(kernel, stride, pad, (1, 1))
    del window["dilations"]
    value = builder.channels_first(source)
    counted = counted_elements(node, shape)
    inside = counted_elements(node, shape, include=False)
    whole = bool((counted == math.prod(kernel)).all())
    if whole or (counted == inside).all():  # as ONNX counts, with one rounding
        made = builder.op("AveragePool", [value], count_include_pad=int(whole), **window)
    else:
        made = builder.op("AveragePool", [value], count_include_pad=1, **window)
        factor = (math.prod(kernel) / counted).astype(np.float32)[None, None]
        made = builder.op("Mul", [made, builder.initializer(factor)])
    builder.bind(node, made, channels_first=True)


def counted_elements(node: Node, shape: tuple[int, ...], *, include: bool | None = None) -> Array:
    """Return how many elements the average of each window [rows, columns] is of.

    ``count_include_pad`` counts the padding that the op gives, ``count_include_invalid`` what the
    last windows need beyond it; ``include`` stands for both where it is given.
    """
    kernel, stride, pad = whole_window(node, shape)
    given = [int(p) for p in node.attrs.get("pad") or (0, 0, 0, 0)]
    if str(node.attrs.get("pad_mode", "FLOOR")).upper() == "SAME":
        given = pad
    padding = beyond = bool(include)
    if include is None:
        padding = bool(node.attrs.get("count_include_pad", True))
        beyond = bool(node.attrs.get("count_include_invalid", padding))
    sides = []
    for axis, size in ((1, shape[1]), (0, shape[2])):
        before, after = given[2 * axis : 2 * axis + 2]
        extra = pad[2 * axis + 1] - after
        inside = np.concatenate(
            [np.full(before, padding), np.ones(size), np.full(after, padding),
             np.full(extra, beyond)]
        )  # fmt: skip
        starts = range(0, len(inside) - kernel[axis] + 1, stride[axis])
        sides.append((inside, starts, kernel[axis]))
    (down, rows, height), (across, columns, width) = sides
    vertical = np.array([down[r : r + height].sum() for r in rows])
    horizontal = np.array([across[c : c + width].sum() for c in columns])
    return np.asarray(vertical[:, None] * horizontal[None, :])


def reduced_window(node: Node, graph: Graph) -> tuple[int, int]:
    """Return height and width of what a mean over rows or columns is of, of others 1."""
    (source,) = node.inputs["input"]
    shape, axes = graph[source].shape, {int(axis) % 4 for axis in node.attrs["axis"]}
    if not axes <= {1, 2}:
        return 1, 1
    return shape[1] if 1 in axes else 1, shape[2] if 2 in axes else 1


def reduction(op_type: str) -> Emit:
    """Return the kernel of a reduction along axes; of feature maps in the order that they have."""

    def emit(builder: OnnxBuilder, node: Node) -> None:
        (source,) = node.inputs["input"]
        axes = [int(a) for a in node.attrs["axis"]]
        keep = int(bool(node.attrs["keep_dims"]))
        if keep and builder.is_first(source):
            moved = [TO_NHWC[axis % len(TO_NHWC)] for axis in axes]
            made = builder.reduced(op_type, builder.channels_first(source), sorted(moved), keep)
            builder.bind(node, made, channels_first=True)
            return
        builder.bind(node, builder.reduced(op_type, builder.plain(source), axes, keep))

    return emit


def argmax(builder: OnnxBuilder, node: Node) -> None:
    """Emit the index of the first largest element along an axis."""
    value = builder.plain(node.inputs["input"][0])
    index = builder.op("ArgMax", [value], axis=int(node.attrs["axis"]), keepdims=0)
    builder.bind(node, builder.op("Cast", [index], to=6))  # int32


register(
    Operator(
        kind="maxpool2d", emit=_max_pool, result=Result.SELECTED, channelwise=True,
        homogeneous=True, fixed="pool-fix",
    ),
    Operator(
        kind="avgpool2d", emit=_average_pool, channelwise=True, homogeneous=True, fixed="pool-fix"
    ),
    Operator(
        kind="reduction_max", emit=reduction("ReduceMax"), result=Result.SELECTED,
        fixed="reduction_max-fix",
    ),
    Operator(kind="reduction_mean", emit=reduction("ReduceMean"), fixed="pool-fix"),
    Operator(kind="reduction_sum", emit=reduction("ReduceSum")),
    Operator(kind="reduction_product", emit=reduction("ReduceProd")),
    Operator(kind="argmax", emit=argmax, fixed="argmax-fix"),
)  # fmt: skip
