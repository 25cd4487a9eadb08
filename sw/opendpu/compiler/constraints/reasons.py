# SPDX-License-Identifier: Apache-2.0
"""Why a node runs on the CPU: the first constraint it breaks, or what legalization found."""

from opendpu.compiler.constraints.registry import CONSTRAINTS
from opendpu.compiler.fixed import COMPUTE, MOVE, is_fixed
from opendpu.compiler.legalize import RULES
from opendpu.ir import Graph, Node
from opendpu_arch.target import Target

NOWHERE = {
    **dict.fromkeys(
        ("conv3d", "depthwise-conv3d", "transposed-conv3d", "transposed-depthwise-conv3d"),
        "the DPU has no depth axis; two-dimensional convolutions would lift it",
    ),
    **dict.fromkeys(
        ("correlation1d_elemwise", "correlation2d_elemwise", "cost_volume"),
        "XIR says nothing of the order of displacements and of what is beside the map, so that no "
        "result could be right; pad, strided_slice and mul or concat, one for each displacement, "
        "would lift it",
    ),
    **dict.fromkeys(
        ("sub", "div", "min", "max"),
        "the misc engine adds and multiplies; add or mul with a constant would lift it",
    ),
    "matmul": "the weights of the engines are constants; a constant right side would lift it",
}
"""More about kinds that the DPU does not have."""
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
        more = f": {NOWHERE[node.kind]}" if node.kind in NOWHERE else ""
        return f"the DPU has no {node.kind}{more} ({NO_SUCH})"
    for constraint in CONSTRAINTS:
        if node.kind in constraint.kinds:
            found = constraint.broken(node, graph, target)
            if found:
                return found
    return None
