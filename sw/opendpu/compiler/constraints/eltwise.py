# SPDX-License-Identifier: Apache-2.0
"""Limits of sums and products."""

from opendpu.compiler.constraints.registry import constraint, inputs_of
from opendpu.compiler.fixed import point_of
from opendpu.compiler.limits import MAX_SHIFT_READ, MAX_SHIFT_WRITE
from opendpu.ir import Graph, Node
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.target import Target

MAX_INPUTS = {"ADD": 4, "SUB": 2, "MUL": 2}
QUANTIZATION = "XCOM_UNSUPPORT_QUANTIZATION"


@constraint(
    f"Sums have at most {MAX_INPUTS['ADD']} inputs, products {MAX_INPUTS['MUL']}.", "eltwise-fix",
    lift="several ops with a fix op between", code="XCOM_TOO_MANY_INPUTS",
)  # fmt: skip
def elew_inputs(node: Node, graph: Graph, target: Target) -> str | None:
    """``num`` has two bits; more terms in several instructions would be rounded in between."""
    count, most = len(node.inputs["input"]), MAX_INPUTS[node.attrs["type"]]
    return f'DPU only supports "input_num"({count}) up to {most}' if count > most else None


@constraint(
    f"Fix points of an addition are at most {MAX_SHIFT_READ} apart.", "eltwise-fix",
    lift="other fix points", code=QUANTIZATION, scales=True,
)  # fmt: skip
def elew_shifts(node: Node, graph: Graph, target: Target) -> str | None:
    """``shift_read`` has four bits."""
    if is_scaled(node):
        return None
    if node.attrs["type"] != "ADD":
        return None
    points = [point_of(s) for s in inputs_of(node, graph)]
    lowest = min(points)
    if max(points) - lowest > MAX_SHIFT_READ or abs(lowest - point_of(node)) > MAX_SHIFT_READ:
        return (
            f"DPU only supports fix points at most {MAX_SHIFT_READ} apart, "
            f"but they are {points} and {point_of(node)}"
        )
    return None


@constraint(
    f"Products shift by at most {MAX_SHIFT_WRITE} bits: input fix points together, less that of "
    "the result.", "eltwise-fix", lift="other fix points", code=QUANTIZATION, scales=True,
)  # fmt: skip
def product_shift(node: Node, graph: Graph, target: Target) -> str | None:
    """``shift_write`` has a direction and four bits."""
    if is_scaled(node):
        return None
    if node.attrs["type"] != "MUL":
        return None
    shift = sum(point_of(s) for s in inputs_of(node, graph)) - point_of(node)
    if abs(shift) > MAX_SHIFT_WRITE:
        return f'DPU only supports "shift_write"({shift}) in -{MAX_SHIFT_WRITE}..{MAX_SHIFT_WRITE}'
    return None
