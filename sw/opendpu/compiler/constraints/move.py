# SPDX-License-Identifier: Apache-2.0
"""Limits of ops that only move data."""

from opendpu.compiler.constraints.registry import constraint
from opendpu.ir import Draft, Node
from opendpu_arch.target import Target


@constraint(
    "Concatenation is along channels or rows.", "concat-fix", lift="a transpose",
    code="XCOM_TENSOR_DIMENSION_UNMATCH",
)  # fmt: skip
def concat_axis(node: Node, draft: Draft, target: Target) -> str | None:
    """Inputs are bytes of the result, at an offset, with a distance between pixels."""
    axis, rank = int(node.attrs["axis"]), len(node.shape)
    if rank == 4 and axis in (1, 3):
        return None
    return f'DPU only supports "axis"({axis}) 1 or 3 of 4 dimensions, but there are {rank}'
