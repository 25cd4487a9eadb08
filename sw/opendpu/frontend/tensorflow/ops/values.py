# SPDX-License-Identifier: Apache-2.0
"""Constants, what is known of shapes, and nodes that change nothing."""

import numpy as np

from opendpu.frontend.channels_last.axes import known_shape
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tensorflow.registry import Call, handles


@handles("Const")
def const(call: Call) -> str:
    """An array."""
    value = call.attr("value")
    if not isinstance(value, np.ndarray):
        raise Refusal("it has no value")
    return call.b.constant(value, call.name)


@handles(
    "Identity", "StopGradient", "PreventGradient", "CheckNumerics", "PlaceholderWithDefault",
    "Snapshot", "EnsureShape",
)  # fmt: skip
def identity(call: Call) -> str:
    """What comes in."""
    return call.x


@handles("IdentityN")
def identity_n(call: Call) -> list[str]:
    """All that come in."""
    return call.inputs


@handles("Shape")
def shape(call: Call) -> str:
    """The shape, which is known."""
    dtype = call.attr("out_type", np.dtype(np.int32))
    return call.b.constant(np.array(known_shape(call.b, call.x), dtype), call.name)


@handles("ShapeN")
def shape_n(call: Call) -> list[str]:
    """The shapes, which are known."""
    dtype = call.attr("out_type", np.dtype(np.int32))
    return [call.b.constant(np.array(known_shape(call.b, x), dtype)) for x in call.inputs]


@handles("Size", "Rank")
def size(call: Call) -> str:
    """How many elements or axes there are."""
    found = known_shape(call.b, call.x)
    number = int(np.prod(found)) if call.node.op == "Size" else len(found)
    return call.b.constant(np.array(number, call.attr("out_type", np.dtype(np.int32))), call.name)


@handles("Range")
def range_(call: Call) -> str:
    """Numbers one after another."""
    start, limit, delta = (call.constant(i, "limits") for i in range(3))
    made = np.arange(start.item(), limit.item(), delta.item()).astype(start.dtype)
    return call.b.constant(made, call.name)


@handles("ZerosLike", "OnesLike")
def filled(call: Call) -> str:
    """Zeros or ones in the shape of the input."""
    make = np.zeros if call.node.op == "ZerosLike" else np.ones
    made = make(known_shape(call.b, call.x), call.b.dtype(call.x))
    return call.b.constant(made, call.name)


@handles("Placeholder")
def placeholder(call: Call) -> str:
    """An input that is no input of the network."""
    raise Refusal("it is no input")
