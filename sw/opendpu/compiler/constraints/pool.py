# SPDX-License-Identifier: Apache-2.0
"""Limits of pooling."""

from opendpu.compiler.constraints.registry import constraint, inputs_of, pair
from opendpu.compiler.fixed import point_of
from opendpu.compiler.limits import MAX_ALU_KERNEL
from opendpu.ir import Graph, Node
from opendpu.ops.average import average_factor
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.target import Target

MAX_LEFT, MAX_RIGHT = 7, 55
"""Bits that ``shift_cut`` can shift."""


@constraint(
    f"Kernels and strides of pooling are 1..{MAX_ALU_KERNEL}.", "pool-fix",
    lift="a smaller window", code="XCOM_ACGEN_POOL_KERNEL_OUTRANGE",
)  # fmt: skip
def pool_window(node: Node, graph: Graph, target: Target) -> str | None:
    """Kernel and stride fields of ALUINIT have eight bits."""
    for name, size in (*pair(node, "kernel"), *pair(node, "stride")):
        if not 1 <= size <= MAX_ALU_KERNEL:
            return f'DPU only supports "{name}"({size}) in 1..{MAX_ALU_KERNEL}'
    return None


@constraint(
    "ceil(kernel_h / PP) * kernel_w of average pooling is at most the bank depth.", "pool-fix",
    lift="a smaller window", code="XCOM_ACGEN_POOL_KERNEL_OUTRANGE",
)  # fmt: skip
def pool_fits(node: Node, graph: Graph, target: Target) -> str | None:
    """A window is in the banks of one group; maxima are taken along columns and rows in turn."""
    (_, width), (_, height) = pair(node, "kernel")
    words = -(-height // target.pixel_parallel) * width
    if words <= target.bank_depth or node.attrs["type"] == "MAX":
        return None
    return (
        f"DPU only supports windows that fit {target.pixel_parallel} banks of "
        f'"bank_depth"({target.bank_depth}) words, but {height}x{width} pixels need {words}'
    )


@constraint(
    f"Pooling shifts its result left by at most {MAX_LEFT} or right by at most {MAX_RIGHT} bits, "
    "those of an average's factor counted.", "pool-fix", lift="another fix point",
    code="XCOM_UNSUPPORT_QUANTIZATION", scales=True,
)  # fmt: skip
def pool_shifts(node: Node, graph: Graph, target: Target) -> str | None:
    """``shift_cut`` from 8 on shifts right, below left."""
    if is_scaled(node):
        return None
    right = point_of(inputs_of(node, graph)[0]) - point_of(node)
    if node.attrs["type"] == "AVG":
        (_, width), (_, height) = pair(node, "kernel")
        right += average_factor(kernel_h=height, kernel_w=width)[1]
    if -MAX_LEFT <= right <= MAX_RIGHT:
        return None
    return f"DPU only supports shifts by -{MAX_LEFT}..{MAX_RIGHT} bits, but here it is {right}"
