# SPDX-License-Identifier: Apache-2.0
"""Ops of two feature maps of any scale, and what sums and products of them make: the extension
``scaled``."""

import dataclasses

import numpy as np

from opendpu.compiler.legalize import multipliers, scaled_functions
from opendpu.compiler.legalize.context import feature_shape
from opendpu.compiler.legalize.eltwise import TYPES, of_features
from opendpu.compiler.legalize.multipliers import Multipliers, clamp_of, rounding_of
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call
from opendpu.ir import Node, Quantization


def requantizes(call: Call, made: Node, found: Multipliers, *, dense: bool = False) -> None:
    """Say how an op requantizes its results."""
    quantization = call.fix.quantization
    rounding = rounding_of(quantization, dense=dense)
    clamp = clamp_of(call.activation, quantization)
    made.attrs |= found.attributes(rounding, clamp) | {"nonlinear": "NONE"}


def eltwise(call: Call) -> str:
    """Make a sum, difference or product of two feature maps, of which one may be constant."""
    context, node = call.context, call.node
    constants = [n for n in call.sources if context.result[n].value is not None]
    if len(call.sources) == 2 and len(constants) == 1:
        (name,) = constants
        if context.result[name].value.size == 1:  # type: ignore[union-attr]
            features = [n for n in call.sources if n != name]
            given = context.result[features[0]].quantization
            table = scaled_functions.with_constant(
                node.kind,
                given,
                context.result[name],
                call.fix.quantization,
                first=call.sources[0] == name,
            )
            return scaled_functions.add_table(dataclasses.replace(call, sources=features), table)
    if len(call.sources) != 2:
        raise Refusal(
            f"DPU only supports {node.kind} of two inputs with scales of their own, but there are "
            f"{len(call.sources)}; pairs of two would lift it",
            "XCOM_TOO_MANY_INPUTS",
        )
    whole = [node.kind == "sub" and not number for number in range(len(call.sources))]
    placed = [_placed(call, name, whole=w) for name, w in zip(call.sources, whole, strict=True)]
    call = dataclasses.replace(call, sources=placed)
    made = context.result[_of_two(call)]
    first, second = (context.result[name].quantization for name in made.inputs["input"])
    if node.kind == "mul":
        found = multipliers.of_product(first, second, call.fix.quantization)
    else:
        found = multipliers.of_sum(first, second, call.fix.quantization)
        if max(found.shift) > 0:
            raise Refusal(
                f"DPU only supports {node.kind} whose result has at least 2**-19 of the inputs' "
                f"scale, but it is {call.fix.quantization.scale[0]:g}",
                "XCOM_UNSUPPORT_QUANTIZATION",
            )
        made.attrs["left_shift"] = multipliers.LEFT_SHIFT
    requantizes(call, made, found)
    return made.name


def _placed(call: Call, name: str, *, whole: bool = False) -> str:
    """Return a constant as a pixel, where it has one value a channel, else as a feature map.

    With ``whole``, it is a feature map anyway: what a difference is taken from cannot be a pixel.
    """
    context, source = call.context, call.context.result[name]
    if source.value is None:
        return name
    shape = call.node.shape
    values = source.value.reshape(*(1,) * (len(shape) - source.value.ndim), *source.shape)
    if values.size == shape[-1] == values.shape[-1] and not whole:
        return context.view(name, (1, 1, 1, shape[-1]))
    spread = np.ascontiguousarray(np.broadcast_to(values, shape)).reshape(feature_shape(shape))
    return context.result.add(
        context.result.unique(f"{name}_spread"), "const-fix", source.type.with_shape(spread.shape),
        value=spread, origin=source.origin,
    ).name  # fmt: skip


def _of_two(call: Call) -> str:
    """Add the op of two inputs, with the reason why the DPU has it not if that is so."""
    context, node = call.context, call.node
    try:
        return of_features(call)
    except Refusal as refusal:
        attrs = {"type": TYPES[node.kind], "nonlinear": "NONE"}
        made = context.add(node, call.fix, "eltwise-fix", {"input": call.sources}, attrs)
        context.result[made].reason = str(refusal)
        return made


def extreme(call: Call) -> str:
    """Make the larger or smaller of two feature maps of one scale.

    ``max(a, b) = b + relu(a - b)`` and ``min(a, b) = b - relu(b - a)``; differences that are not
    negative have 8 bits.
    """
    node, made = call.node, call.fix.quantization
    if len(call.sources) != 2:
        raise Refusal(
            f"DPU only supports {node.kind} of two inputs, but there are {len(call.sources)}; "
            "pairs of two would lift it",
            "XCOM_TOO_MANY_INPUTS",
        )
    one, other = (_placed(call, _at_result(call, name), whole=True) for name in call.sources)
    low, _ = made.limits
    above = dataclasses.replace(made, zero_point=(low,))
    given = [one, other] if node.kind == "max" else [other, one]
    difference = _exact(call, "sub", given, above)
    return _exact(call, "add" if node.kind == "max" else "sub", [other, difference], made)


def prelu(call: Call) -> str:
    """Make a slope for negative elements, one a channel: the sum of two ops of one sign each.

    What is negative is multiplied by the slope, what is not by a table. Both keep the result's
    zero point where they have nothing to say.
    """
    context, node, made = call.context, call.node, call.fix.quantization
    (slope,) = (context.fixed(name) for name in node.inputs["weight"])
    if context.result[slope].value is None:
        raise Refusal(
            "DPU only supports prelu with constant slopes, but they are computed; constants would "
            "lift it",
            "XCOM_ACGEN_PRELU_ERROR",
        )
    given = context.result[call.sources[0]].quantization
    below = _as(call, "below", given)
    negative = scaled_functions.add_table(below, scaled_functions.negative_part(given))
    product = _as(call, "product", made, kind="mul")
    product = dataclasses.replace(product, sources=[negative, _placed(product, slope)])
    one, other = (context.result[name].quantization for name in product.sources)
    scaled_by_slope = context.result[_of_two(product)]
    requantizes(product, scaled_by_slope, multipliers.of_product(one, other, made))
    above = scaled_functions.add_table(
        _as(call, "above", made), scaled_functions.positive_part(given, made)
    )
    return _exact(call, "add", [above, scaled_by_slope.name], made)


def _at_result(call: Call, name: str) -> str:
    """Return an input at the scale of the result; Refusal if a constant has another."""
    context, source = call.context, call.context.result[name]
    if source.value is None:
        return context.copy(name, call.node, call.fix)
    if source.quantization.same_grid(call.fix.quantization):
        return name
    raise Refusal(
        f"DPU only supports {call.node.kind} with a constant of the result's scale, but that of "
        f'"{name}" is {source.quantization.scale[0]:g}; the same would lift it',
        "XCOM_UNSUPPORT_QUANTIZATION",
    )


def _as(call: Call, part: str, made: Quantization, kind: str = "") -> Call:
    """Return the call of an op that makes an intermediate result."""
    name = f"{call.fix.name}_{part}"
    return dataclasses.replace(
        call, activation=None, node=dataclasses.replace(call.node, kind=kind or call.node.kind),
        fix=Node(name, "fix", call.fix.type.with_quantization(made), tensor=name),
    )  # fmt: skip


def _exact(call: Call, kind: str, sources: list[str], made: Quantization) -> str:
    """Return a sum or difference of integers of one scale, saturated."""
    part = dataclasses.replace(call, node=dataclasses.replace(call.node, kind=kind))
    if made != call.fix.quantization:
        part = _as(call, "difference", made, kind)
    part = dataclasses.replace(part, sources=sources)
    node = part.context.result[_of_two(part)]
    requantizes(part, node, Multipliers.ones(3))
    node.attrs["left_shift"] = 0
    return node.name


PAIR_RULES = {
    **dict.fromkeys(("add", "sub", "mul"), eltwise), "max": extreme, "min": extreme, "prelu": prelu,
}  # fmt: skip
"""Rules of the kinds that have two inputs."""
