# SPDX-License-Identifier: Apache-2.0
"""Shape inference: from an op's inputs and attributes to its result's dimensions and type."""

from typing import TYPE_CHECKING

from opendpu_arch.errors import GraphError
from xir.datatype import DataKind, DataType
from xir.shapes import layout, reduce, spatial
from xir.shapes.rule import Rule, same_as_input

if TYPE_CHECKING:
    from xir.op import Op

_RULES: dict[str, Rule] = {**spatial.RULES, **layout.RULES, **reduce.RULES}


def infer(op: "Op") -> tuple[list[int], DataType]:
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
        dims = op.get_attr("shape")
    else:
        dims = same_as_input(op)
    if any(dim <= 0 for dim in dims):
        raise GraphError(f"result would have dimensions {dims}, but each must be positive")
    return dims, _data_type(op)


def _data_type(op: "Op") -> DataType:
    if op.get_definition().attr("data_type") is not None:
        return DataType.parse(op.get_attr("data_type"))
    match op.get_type():
        case "float2fix":
            kind = DataKind.XINT if op.get_attr("if_signed") else DataKind.XUINT
            return DataType(kind, op.get_attr("bit_width"))
        case "fix2float":
            return DataType(DataKind.FLOAT, 32)
        case "argmax" | "argmax-fix" | "shape":
            return DataType(DataKind.INT, 32)
    return op.get_input_tensors()[0].data_type
