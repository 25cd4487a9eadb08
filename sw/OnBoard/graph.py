# SPDX-License-Identifier: Apache-2.0
"""Compiled networks, and the PyTorch around them, as graphs of TensorBoard."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef

import xir

DPU, CPU, FRAMEWORK = "/device:DPU:0", "/device:CPU:0", "/device:PyTorch:0"
"""What TensorBoard colours operators by."""


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled network that has run.

    Parameters
    ----------
    graph
        The network.
    report
        What the compiler decided, as JSON-ready values.
    statistics
        What each part took in the last jobs, by name: the newest last.
    seconds
        Samples and time of the last calls.
    source
        The node of the framework that calls it; empty for none.
    """

    graph: xir.Graph
    report: Mapping[str, Any]
    statistics: Sequence[Mapping[str, Mapping[str, Any]]]
    seconds: Sequence[tuple[int, float]]
    source: str = ""


def add_network(graph: GraphDef, compiled: xir.Graph, scope: str, reasons: Mapping[str, str],
                source: str = "") -> dict[str, list[str]]:  # fmt: skip
    """Add the ops of a compiled network; return the names of nodes by subgraph.

    Parameters
    ----------
    graph
        Is changed.
    compiled
        The network.
    scope
        In front of all names.
    reasons
        Why ops are on the CPU, by op.
    source
        The node behind which its inputs are; empty for none.
    """
    names: dict[str, str] = {}
    parts: dict[str, list[str]] = {}
    for number, part in enumerate(compiled.get_root_subgraph().toposort_child_subgraph()):
        device = str(part.get_attr("device")).upper() if part.has_attr("device") else "CPU"
        inner = "inputs" if device == "USER" else f"{device}_{number}"
        own = parts.setdefault(part.get_name(), [])
        for op in part.toposort():
            name = names[op.get_name()] = f"{scope}/{inner}/{cleaned(op.get_name())}"
            own.append(name)
            attr = {"shape": _text(str(op.get_output_tensor().dims))}
            if op.get_name() in reasons:
                attr["why_not_dpu"] = _text(reasons[op.get_name()])
            before = [names[o.get_name()] for o in op.get_input_ops_list() if o.get_name() in names]
            if device == "USER" and source:
                before = [source]
            graph.node.append(
                NodeDef(
                    name=name, op=op.get_type(), input=before, attr=attr,
                    device=DPU if device == "DPU" else CPU,
                )
            )  # fmt: skip
    return parts


def add_script(graph: GraphDef, module: Any) -> list[str]:
    """Add what a TorchScript module does in PyTorch; return the nodes that call networks."""
    made: dict[str, str] = {}
    calls = []
    for number, node in enumerate(module.inlined_graph.nodes()):
        kind = node.kind()
        if kind in ("prim::GetAttr", "prim::Constant"):
            continue
        name = f"PyTorch/{cleaned(kind.replace('::', '.'))}_{number}"
        before = [made[v.debugName()] for v in node.inputs() if v.debugName() in made]
        graph.node.append(NodeDef(name=name, op=kind, input=before, device=FRAMEWORK))
        for value in node.outputs():
            made[value.debugName()] = name
        if kind == "vai::quantized_network":
            calls.append(name)
    return calls


def run_metadata(
    parts: Mapping[str, list[str]], seconds: Mapping[str, float], devices: Mapping[str, str]
) -> RunMetadata:
    """Return the time of each subgraph, given to its last op; the others take none."""
    found = RunMetadata()
    by_device: dict[str, Any] = {}
    start = 0
    for part, names in parts.items():
        if part not in seconds or not names:
            continue
        device = devices[part]
        stats = by_device.get(device)
        if stats is None:
            stats = by_device[device] = found.step_stats.dev_stats.add(device=device)
        micros = round(seconds[part] * 1e6)
        stats.node_stats.add(
            node_name=names[-1], all_start_micros=start, op_start_rel_micros=0,
            op_end_rel_micros=micros, all_end_rel_micros=micros,
        )  # fmt: skip
        start += micros
    return found


def cleaned(name: str) -> str:
    """Return a name that TensorBoard takes: a slash is a scope there."""
    return re.sub(r"[^\w.\-]", "_", name)


def _text(value: str) -> AttrValue:
    return AttrValue(s=value.encode())
