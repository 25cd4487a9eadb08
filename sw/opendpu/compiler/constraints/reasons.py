# SPDX-License-Identifier: Apache-2.0
"""Why a node runs on the CPU: the first constraint it breaks, or what legalization found."""

from opendpu.compiler.constraints.registry import CONSTRAINTS, Constraint
from opendpu.compiler.fixed import COMPUTE, MOVE, is_fixed
from opendpu.compiler.legalize import RULES
from opendpu.ir import Graph, Node
from opendpu.ops import operator_of
from opendpu.ops.foreign import KIND, label_of
from opendpu_arch.target import Target

NO_SUCH = "XCOM_OPERATOR_UNUPPORT"


def reason(node: Node, graph: Graph, target: Target) -> str | None:
    """Return why a node cannot run on the DPU, or nothing."""
    if node.reason:
        return node.reason
    if not is_fixed(node) and node.kind in RULES:
        return (
            f"DPU only supports {node.kind} whose inputs and result are quantized; fix ops around "
            "it, with no other op between, would lift it (XCOM_UNSUPPORT_QUANTIZATION)"
        )
    if node.kind not in (*COMPUTE, *MOVE):
        what = label_of(node) if node.kind == KIND else node.kind
        lift = operator_of(node).lift
        return f"the DPU has no {what}{f': {lift}' if lift else ''} ({NO_SUCH})"
    constraint = first_broken(node, graph, target)
    return None if constraint is None else constraint.broken(node, graph, target)


def first_broken(node: Node, graph: Graph, target: Target) -> Constraint | None:
    """Return the first constraint that an op of the DPU breaks, or nothing."""
    for constraint in CONSTRAINTS:
        if node.kind in constraint.kinds and constraint.check(node, graph, target) is not None:
            return constraint
    return None
