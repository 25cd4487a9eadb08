# SPDX-License-Identifier: Apache-2.0
"""What quantizing operators compute, as functions of ONNX's own operators.

All of it in float32, which has every integer of up to 24 bits; nothing is added before a floor, so
that nothing but the rounding that is meant rounds. Integers saturate to ``bit_width`` bits, one of
which is the sign if ``signed`` is 1.
"""

from collections.abc import Sequence

import onnx
from onnx import TensorProto, helper

from opendpu.export.forms import Form
from opendpu.ir import Rounding
from opendpu.ops.quantizing import DOWN, HALF_UP, ROUNDING_DOMAIN

CAST_LIKE = 15
"""Operator set that brought CastLike; before, QuantizeLinear gives 8-bit integers their type."""

_INTEGERS = ("scale", "zero_point")
_NNDCT = ("valmin", "valmax", "scale", "zero_point", "method", "axis")
"""Inputs behind the tensor, of most forms and of NNDCT's."""

ATTRIBUTES = ("bit_width", "signed")
"""Of every form but NNDCT's, which has limits as inputs."""

METHODS = {Rounding.DPU_ROUND: 2, Rounding.STD_ROUND: 3}
"""NNDCT's numbers of rounding modes; every other number rounds halves to even."""


def functions_of(form: Form, rounding: Rounding, opset: int) -> list[onnx.FunctionProto]:
    """Return the functions of a form's operators; none of ONNX's own. ``opset`` is the model's."""
    if form.is_native:
        return []
    given = _NNDCT if form.name == "nndct" else _INTEGERS
    if form.both:
        body = _quantized(rounding, bounded=False) + _real("integer", "y")
        return [_function(form.domain, form.both, ("x", *given), body, ATTRIBUTES, opset)]
    nndct = form.name == "nndct"
    last = _stored(opset)
    attributes = () if nndct else ATTRIBUTES
    stored = _quantized(rounding, bounded=nndct) + last
    back = [helper.make_node("Cast", ["x"], ["integer"], to=TensorProto.FLOAT)]
    pair = ("scale", "zero_point", "axis") if nndct else given
    return [
        _function(form.domain, form.quantize, ("x", *given), stored, attributes, opset),
        _function(
            form.domain, form.dequantize, ("x", *pair), back + _real("integer", "y"), (), opset
        ),
    ]


ROUNDING_FUNCTIONS = {HALF_UP: Rounding.DPU_ROUND, DOWN: Rounding.FLOOR}
"""How our own functions round."""


def rounding_function(name: str, opset: int) -> onnx.FunctionProto:
    """Return the function that rounds to the grid of a scale, and saturates nothing.

    ``opset`` is the model's: a function of another could not be inlined.
    """
    body = [
        *_scaled(),
        *_rounded(ROUNDING_FUNCTIONS[name]),
        helper.make_node("Mul", ["rounded", "wide"], ["y"]),
    ]
    return _function(ROUNDING_DOMAIN, name, ("x", "scale"), body, (), opset)


def _function(
    domain: str,
    name: str,
    inputs: Sequence[str],
    nodes: Sequence[onnx.NodeProto],
    attributes: Sequence[str],
    opset: int,
) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_function(domain, name, inputs, ["y"], nodes, opsets, attributes)


def _quantized(rounding: Rounding, *, bounded: bool) -> list[onnx.NodeProto]:
    """Return the nodes from ``x`` to ``integer``; ``bounded`` where inputs limit it."""
    limits = _given_limits() if bounded else _limits()
    return [
        *_scaled(),
        *_rounded(rounding),
        *_zero(),
        helper.make_node("Add", ["rounded", "zero"], ["moved"]),
        *limits,
        helper.make_node("Max", ["moved", "low"], ["raised"]),
        helper.make_node("Min", ["raised", "high"], ["integer"]),
    ]


def _stored(opset: int) -> list[onnx.NodeProto]:
    """Return the nodes from ``integer``, a whole float32, to ``y`` of the zero point's type."""
    if opset >= CAST_LIKE:
        return [helper.make_node("CastLike", ["integer", "zero_point"], ["y"])]
    return [
        _number("unit", 1.0),
        helper.make_node("Sub", ["integer", "zero"], ["steps"]),
        helper.make_node("QuantizeLinear", ["steps", "unit", "zero_point"], ["y"]),
    ]


def _scaled() -> list[onnx.NodeProto]:
    return [
        helper.make_node("Cast", ["x"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["scale"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["real", "wide"], ["scaled"]),
    ]


def _rounded(rounding: Rounding) -> list[onnx.NodeProto]:
    """Return the nodes from ``scaled`` to ``rounded``."""
    match rounding:
        case Rounding.DPU_ROUND:
            return _halves("scaled", "Floor", "Ceil", "rounded")
        case Rounding.HALF_DOWN:
            return _halves("scaled", "Ceil", "Floor", "rounded")
        case Rounding.FLOOR | Rounding.CEIL:
            return [helper.make_node(rounding.capitalize(), ["scaled"], ["rounded"])]
        case Rounding.STD_ROUND:
            return _signed(_halves("size", "Floor", "Ceil", "whole"))
        case Rounding.TOWARD_ZERO:
            return _signed([helper.make_node("Floor", ["size"], ["whole"])])
        case Rounding.AWAY_FROM_ZERO:
            return _signed([helper.make_node("Ceil", ["size"], ["whole"])])
    return [helper.make_node("Round", ["scaled"], ["rounded"])]


def _signed(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return nodes that work on the magnitude, from ``size`` to ``whole``, with the sign back."""
    return [
        helper.make_node("Abs", ["scaled"], ["size"]),
        *nodes,
        helper.make_node("Sign", ["scaled"], ["sign"]),
        helper.make_node("Mul", ["whole", "sign"], ["rounded"]),
    ]


def _halves(source: str, first: str, second: str, result: str) -> list[onnx.NodeProto]:
    """Return the nodes that round twice the number one way, and half of that the other way."""
    return [
        _number("double", 2.0),
        _number("half", 0.5),
        helper.make_node("Mul", [source, "double"], ["doubled"]),
        helper.make_node(first, ["doubled"], ["once"]),
        helper.make_node("Mul", ["once", "half"], ["halved"]),
        helper.make_node(second, ["halved"], [result]),
    ]


def _zero() -> list[onnx.NodeProto]:
    return [helper.make_node("Cast", ["zero_point"], ["zero"], to=TensorProto.FLOAT)]


def _limits() -> list[onnx.NodeProto]:
    """Return the nodes of ``low`` and ``high``, the limits of as many bits as attributes say."""
    nodes = [_number("one", 1.0), _number("two", 2.0)]
    for attribute in ATTRIBUTES:
        constant = helper.make_node("Constant", [], [f"{attribute}_given"])
        constant.attribute.add(
            name="value_int", ref_attr_name=attribute, type=onnx.AttributeProto.INT
        )
        cast = helper.make_node("Cast", constant.output, [attribute], to=TensorProto.FLOAT)
        nodes += [constant, cast]
    return [
        *nodes,
        helper.make_node("Sub", ["bit_width", "one"], ["below"]),
        helper.make_node("Pow", ["two", "below"], ["half_range"]),
        helper.make_node("Mul", ["half_range", "signed"], ["least"]),
        helper.make_node("Neg", ["least"], ["low"]),
        helper.make_node("Sub", ["bit_width", "signed"], ["magnitude"]),
        helper.make_node("Pow", ["two", "magnitude"], ["range"]),
        helper.make_node("Sub", ["range", "one"], ["high"]),
    ]


def _given_limits() -> list[onnx.NodeProto]:
    return [
        helper.make_node("Cast", ["valmin"], ["low"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["valmax"], ["high"], to=TensorProto.FLOAT),
    ]


def _real(source: str, result: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Cast", ["scale"], ["factor"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["zero_point"], ["origin"], to=TensorProto.FLOAT),
        helper.make_node("Sub", [source, "origin"], ["difference"]),
        helper.make_node("Mul", ["difference", "factor"], ["result"]),
        helper.make_node("Cast", ["result"], [result], to=TensorProto.FLOAT),
    ]


def _number(name: str, value: float) -> onnx.NodeProto:
    tensor = helper.make_tensor(name, TensorProto.FLOAT, [], [value])
    return helper.make_node("Constant", [], [name], value=tensor)
