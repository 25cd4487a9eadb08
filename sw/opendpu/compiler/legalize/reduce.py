# SPDX-License-Identifier: Apache-2.0
"""Maximum, mean and argmax over axes."""

import dataclasses
from typing import Any

import numpy as np

from opendpu.compiler.legalize.context import Context, feature_shape
from opendpu.compiler.legalize.pool import add_pool
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call, computes, legalizes
from opendpu.ir import Node, TensorType

CHANNELS = 3
INT32 = np.dtype(np.int32)


@legalizes("reduction_max", "reduction_mean")
def reduction(call: Call) -> str:
    """Make pooling over rows and columns, and ``reduction_max-fix`` over channels."""
    context, node = call.context, call.node
    rank = len(call.shape())
    axes = {int(a) % rank + 4 - rank for a in node.attrs["axis"]}
    mean = node.kind == "reduction_mean"
    if rank > 4 or min(axes) < 4 - rank + 1 or (mean and CHANNELS in axes):
        what = "rows and columns" if mean else "rows, columns and channels"
        raise Refusal(
            f'DPU only supports "axis"({list(node.attrs["axis"])}) of {node.kind} of {rank} '
            f"dimensions that are {what} of up to 4; that would lift it",
            "XCOM_UNEXPECTED_VALUE",
        )
    source = context.view(call.sources[0], feature_shape(call.shape()))
    shape = context.result[source].shape
    window = [shape[a] if a in axes else 1 for a in (2, 1)]
    if window != [1, 1] or mean:
        kind = "AVG" if mean else "MAX"
        attrs = {"kernel": window, "stride": window, "pad": [0] * 4, "type": kind}
        size = (1, shape[1] // window[1], shape[2] // window[0], shape[3])
        source = add_pool(dataclasses.replace(call, sources=[source]), attrs, size)
    source = context.copy(source, node, call.fix)
    if CHANNELS in axes:
        made: dict[str, Any] = {"axis": [CHANNELS], "keep_dims": True}
        thin = (*context.result[source].shape[:3], 1)
        source = context.add(
            node, call.fix, "reduction_max-fix", {"input": [source]}, made, shape=thin
        )
    return context.view(source, node.shape, call.fix.name)


@computes("argmax")
def argmax(context: Context, node: Node) -> str:
    """Make ``argmax-fix`` over the channels of a quantized input; its result is int32."""
    source = context.graph[node.inputs["input"][0]]
    rank, axis = len(source.shape), int(node.attrs["axis"])
    if source.kind != "fix" or not 2 <= rank <= 4 or axis % rank != rank - 1:
        raise Refusal(
            f'DPU only supports "axis"({axis}) of argmax that is the last of 2..4 dimensions of a '
            f'quantized input, but "{source.name}" has {rank}; that would lift it',
            "XCOM_UNEXPECTED_VALUE",
        )
    name = context.result.unique(node.name)
    inputs = {"input": [context.fixed(source.name)]}
    made = TensorType(node.shape, INT32)
    return context.result.add(
        name, "argmax-fix", made, inputs, {"axis": rank - 1}, origin=node.origin
    ).name
