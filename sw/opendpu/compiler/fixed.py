# SPDX-License-Identifier: Apache-2.0
"""Graphs of fixed-point ops: what legalize makes and the later passes read."""

from opendpu.ir import Node

POINTWISE = ("leaky-relu-fix", "prelu-fix", "hard-sigmoid-fix")
"""Kinds that the misc engine computes pixel by pixel."""
TRANSPOSED = ("transposed-conv2d-fix", "transposed-depthwise-conv2d-fix")
"""Kinds that lowering makes several convolutions of."""
LAYERS = ("conv2d-fix", "depthwise-conv2d-fix", *TRANSPOSED)
"""Kinds with weights and bias."""
DEPTHWISE = ("depthwise-conv2d-fix", "transposed-depthwise-conv2d-fix")
"""Those of them that the misc engine computes."""
COMPUTE = (*LAYERS, "pool-fix", "eltwise-fix", *POINTWISE)
"""Kinds that an engine computes."""
MOVE = (
    "reshape-fix", "concat-fix", "strided_slice-fix", "transpose", "pad-fix", "tile-fix",
    "reorg-fix", "upsample-fix", "reduction_max-fix", "argmax-fix",
)  # fmt: skip
"""Kinds that mostly move bytes; some cost nothing where these may stay in place."""
READS_FIXED = ("fix2float", "argmax-fix")
"""Kinds that read int8 and make something else."""
USER = ("data", "data-fix")
"""Kinds of the inputs of a graph."""
CONSTANT = ("const", "const-fix")
"""Kinds of constants."""


def is_fixed(node: Node) -> bool:
    """Tell whether a node's result is integers that stand for real numbers."""
    return node.type.is_fixed


def point_of(node: Node) -> int:
    """Return the fractional bits of a node's result."""
    return node.fix_point


def tensor_of(node: Node) -> str:
    """Return the name of a node's tensor."""
    return node.tensor_name
