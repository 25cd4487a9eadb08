# SPDX-License-Identifier: Apache-2.0
"""Shape inference: from an op's inputs and attributes to its result's dimensions and type."""

from opendpu_arch.errors import GraphError
from xir.datatype import DataKind, DataType
from xir.shapes import layout, reduce, spatial
from xir.shapes.rule import Node, Rule, same_as_input

_RULES: dict[str, Rule] = {**spatial.RULES, **layout.RULES, **reduce.RULES}


def infer(op: Node) -> tuple[list[int], DataType]:
    """Return dimensions and element type of the result of ``op``.

    Raises
    ------
    GraphError
        Inputs and attributes do not fit together.
    """
    rule = _RULES.get(op.get_type())
    if rule is not None:
        dims = rule(op)
    elif op.get_definition().attr("shape") is not None:
        dims = _given(op)
    else:
        dims = same_as_input(op)
    if any(dim <= 0 for dim in dims):
        raise GraphError(f"result would have dimensions {dims}, but each must be positive")
    return dims, _data_type(op)


def _given(op: Node) -> list[int]:
    """Rule of ops whose definition has an attribute ``shape``: constants, inputs, custom ops."""
    dims: list[int] = op.get_attr("shape")
    if not dims:
        raise GraphError("shape is [], but must have at least one dimension; a scalar is [1]")
    return dims


def _data_type(op: Node) -> DataType:
    if op.get_definition().attr("data_type") is not None:
        return DataType(op.get_attr("data_type"))
    match op.get_type():
        case "float2fix":
            kind = DataKind.XINT if op.get_attr("if_signed") else DataKind.XUINT
            return DataType(kind, op.get_attr("bit_width"))
        case "fix2float":
            return DataType(DataKind.FLOAT, 32)
        case "argmax" | "argmax-fix" | "shape":
            return DataType(DataKind.INT, 32)
    return op.get_input_tensors()[0].data_type
