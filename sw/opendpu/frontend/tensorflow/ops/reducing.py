# SPDX-License-Identifier: Apache-2.0
"""Reductions along axes, and where the largest elements are."""

import onnx

from opendpu.frontend.channels_last import arithmetic
from opendpu.frontend.channels_last.axes import known_shape
from opendpu.frontend.tensorflow.registry import Call, handles

_REDUCERS = {
    "Mean": "ReduceMean", "Sum": "ReduceSum", "Max": "ReduceMax", "Min": "ReduceMin",
    "Prod": "ReduceProd",
}  # fmt: skip


@handles(*_REDUCERS)
def reduce(call: Call) -> str:
    """The second input are the axes."""
    return arithmetic.reduce(
        call.b, _REDUCERS[call.node.op], call.x, call.integers(1, "axes"),
        keep=bool(call.attr("keep_dims", False)), name=call.name,
    )  # fmt: skip


@handles("ArgMax", "ArgMin")
def arg(call: Call) -> str:
    """Of 64 bits, or of 32 where the node says so."""
    (axis,) = call.integers(1, "axes")
    rank = len(known_shape(call.b, call.x))
    found = call.b.node(call.node.op, [call.x], axis=axis % rank, keepdims=0)
    if "output_type" not in call.node.attrs:
        return found
    return call.cast(found, "output_type")


@handles("TopKV2")
def top_k(call: Call) -> list[str]:
    """The largest elements along the last axis, and where they are."""
    count = call.b.integers(*call.integers(1, "counts"))
    names = call.names(2)
    values, places = call.b.nodes("TopK", [call.x, count], [names[0], ""], axis=-1)
    return [values, call.b.node("Cast", [places], names[1], to=onnx.TensorProto.INT32)]


@handles("Cumsum")
def cumsum(call: Call) -> str:
    """Sums of what is before."""
    return call.emit(
        "CumSum", call.x, call.input(1), exclusive=int(call.attr("exclusive", False)),
        reverse=int(call.attr("reverse", False)),
    )  # fmt: skip
