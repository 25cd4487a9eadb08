# SPDX-License-Identifier: Apache-2.0
"""Reductions along axes, and where the largest elements are."""

import onnx
import tflite

from opendpu.frontend.channels_last import arithmetic
from opendpu.frontend.channels_last.axes import known_shape
from opendpu.frontend.tflite.registry import Call, handles

_REDUCERS = {
    "MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin", "REDUCE_PROD": "ReduceProd",
}  # fmt: skip


@handles(*_REDUCERS)
def reduce(call: Call) -> str:
    """The second input are the axes."""
    keep = bool(call.options(tflite.ReducerOptions).KeepDims())
    kind, axes = _REDUCERS[call.operator.kind], call.integers(1, "axes")
    return arithmetic.reduce(call.b, kind, call.x, axes, keep=keep, name=call.name)


@handles("REDUCE_ALL", "REDUCE_ANY")
def reduce_bools(call: Call) -> str:
    """Whether all or some are true: the smallest or largest of zeros and ones."""
    keep = bool(call.options(tflite.ReducerOptions).KeepDims())
    kind = "ReduceMin" if call.operator.kind == "REDUCE_ALL" else "ReduceMax"
    numbers = call.b.node("Cast", [call.x], to=onnx.TensorProto.FLOAT)
    axes = call.integers(1, "axes")
    found = arithmetic.reduce(call.b, kind, numbers, axes, keep=keep, name=f"{call.name}/number")
    return call.cast(found)


@handles("ARG_MAX", "ARG_MIN")
def arg(call: Call) -> str:
    """Of 32 or 64 bits, as the operator says."""
    largest = call.operator.kind == "ARG_MAX"
    (axis,) = call.integers(1, "axes")
    found = call.b.node(
        "ArgMax" if largest else "ArgMin", [call.x], axis=axis % len(known_shape(call.b, call.x)),
        keepdims=0,
    )  # fmt: skip
    return call.cast(found)


@handles("TOPK_V2")
def top_k(call: Call) -> list[str]:
    """The largest elements along the last axis, and where they are."""
    count = call.b.integers(*call.integers(1, "counts"))
    values, places = call.b.nodes("TopK", [call.x, count], [call.names[0], ""], axis=-1)
    return [values, call.b.node("Cast", [places], call.names[1], to=onnx.TensorProto.INT32)]


@handles("CUMSUM")
def cumsum(call: Call) -> str:
    """Sums of what is before."""
    given = call.options(tflite.CumsumOptions)
    return call.node(
        "CumSum", call.x, call.input(1), exclusive=int(given.Exclusive()),
        reverse=int(given.Reverse()),
    )  # fmt: skip
