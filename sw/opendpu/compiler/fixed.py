# SPDX-License-Identifier: Apache-2.0
"""Graphs of fixed-point ops: what legalize makes and the later passes read."""

from opendpu.ir import Node
from opendpu.ops import CONSTANTS, OPERATORS, SOURCES, kinds_where, operator_of
from opendpu_arch.isa import Engine

COMPUTE = kinds_where(lambda operator: operator.engine is not None)
"""Kinds that an engine computes."""
LAYERS = kinds_where(lambda operator: operator.multiplies and operator.parameters)
"""Kinds with weights and bias."""
DEPTHWISE = tuple(kind for kind in LAYERS if operator_of(kind).engine is Engine.MISC)
"""Those of them that the misc engine computes."""
TRANSPOSED = tuple(kind for kind in LAYERS if kind.startswith("transposed-"))
"""Kinds that lowering makes several convolutions of."""
MOVE = tuple(
    dict.fromkeys(
        operator.fixed
        for operator in OPERATORS.values()
        if operator.fixed and operator.fixed not in COMPUTE
    )
)
"""Kinds that mostly move bytes; some cost nothing where these may stay in place."""
READS_FIXED = ("fix2float", "argmax-fix")
"""Kinds that read int8 and make something else."""
USER = SOURCES
"""Kinds of the inputs of a graph."""
CONSTANT = CONSTANTS
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
