# SPDX-License-Identifier: Apache-2.0
"""Limits of products of two feature maps."""

from opendpu.compiler.constraints.registry import constraint, inputs_of
from opendpu.compiler.fixed import point_of
from opendpu.compiler.limits import MAX_SHIFT_CUT
from opendpu.ir import Graph, Node
from opendpu.ops.fixed.product import KIND
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.target import Target


@constraint(
    f"Products of feature maps shift by 0..{MAX_SHIFT_CUT} bits.", KIND, lift="another fix point",
    code="XCOM_UNSUPPORT_QUANTIZATION", scales=True,
)  # fmt: skip
def matmul_shift(node: Node, graph: Graph, target: Target) -> str | None:
    """``shift_cut`` = the fractional bits of both factors less those of the result."""
    if is_scaled(node):
        return None
    cut = sum(point_of(source) for source in inputs_of(node, graph)) - point_of(node)
    return None if 0 <= cut <= MAX_SHIFT_CUT else (
        f'DPU only supports "shift_cut"({cut}) in 0..{MAX_SHIFT_CUT}'
    )  # fmt: skip
