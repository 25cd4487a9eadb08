# SPDX-License-Identifier: Apache-2.0
"""Inspects a compiled ``.xmodel``: its subgraphs say where every op runs."""

import xir
from opendpu.inspect.inspector import shown
from opendpu.inspect.result import CPU, InspectedNode, Inspection
from opendpu.inspect.trace import CONVERSIONS
from opendpu.ir.xir_bridge import CONSTANTS, origin_of_op
from opendpu.ops import kinds_where
from opendpu_arch.target import Target

COMPILED = "the file was compiled so, and does not say why"
NO_SUCH = "the DPU has no {}"
MOVED = ("upload", "download")
"""Ops that only mark where data goes to the DPU and back."""


def inspect_compiled(graph: xir.Graph, target: Target) -> Inspection:
    """Return where the ops of a compiled graph run; what is for the CPU is not decided again."""
    devices = {
        op.get_name(): str(subgraph.get_attr("device"))
        for subgraph in graph.get_root_subgraph().get_children()
        if subgraph.has_attr("device")
        for op in subgraph.get_ops()
    }
    listed = [op for op in graph.toposort() if op.get_type() not in (*CONSTANTS, *MOVED)]
    listed = [op for op in listed if op.get_type() not in CONVERSIONS]
    return Inspection(
        model=graph.get_name(), target=target, assumed_scales=False, devices=devices,
        nodes=tuple(_node(op, devices.get(op.get_name(), CPU), graph) for op in listed),
    )  # fmt: skip


def _node(op: xir.Op, device: str, graph: xir.Graph) -> InspectedNode:
    origin = origin_of_op(op)
    message = ""
    if device == CPU:
        known = op.get_type() in _OF_DPU
        message = COMPILED if known else NO_SUCH.format(op.get_type())
    return InspectedNode(
        name=op.get_name(), op_type=op.get_type(), kinds=(op.get_type(),), device=device,
        inputs=_around(op, before=True), outputs=_around(op, before=False),
        shape=tuple(op.get_output_tensor().dims), attributes=shown(op.get_attrs()),
        constraint=message, message=message, source=origin.line,
    )  # fmt: skip


_OF_DPU = frozenset(kinds_where(lambda operator: operator.on_dpu or operator.engine is not None))


def _around(op: xir.Op, *, before: bool) -> tuple[str, ...]:
    """Return the ops before or behind that are listed."""
    found: dict[str, None] = {}
    waiting = [op]
    while waiting:
        one = waiting.pop(0)
        near = one.get_input_ops_list() if before else one.get_fanout_ops()
        for other in near:
            if other.get_type() in (*MOVED, *CONVERSIONS):
                waiting.append(other)
            elif other.get_type() not in CONSTANTS:
                found[other.get_name()] = None
    return tuple(found)
