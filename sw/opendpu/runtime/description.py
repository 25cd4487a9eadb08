# SPDX-License-Identifier: Apache-2.0
"""What a model holds: subgraphs, their tensors, registers and DPU, as JSON-ready values."""

from collections.abc import Sequence
from typing import Any

from opendpu.ir.xir_bridge import quantization_of
from opendpu.runtime.program import CONTEXTS, SIZES, by_register, dpu_subgraphs
from opendpu_arch.errors import TargetError
from opendpu_arch.target import Target
from xir import Graph, Op, Subgraph, Tensor

_CONTEXTS = {
    "CONST": "CONST",
    "WORKSPACE": "WORKSPACE",
    "DATA": "DATA_LOCAL",
    "DATA_LOCAL": "DATA_LOCAL",
    "INTERFACE": "DATA_LOCAL",
    "DATA_LOCAL_INPUT": "DATA_LOCAL_INPUT",
    "DATA_LOCAL_OUTPUT": "DATA_LOCAL_OUTPUT",
}
"""What VART calls the context types of a file."""


def device_of(subgraph: Subgraph) -> str:
    """Return the device of a subgraph in capitals; empty where it has none."""
    return str(subgraph.get_attr("device")).upper() if subgraph.has_attr("device") else ""


def children_of(graph: Graph) -> list[Subgraph]:
    """Return the subgraphs of a graph in the order they run; none before it is compiled."""
    root = graph.get_root_subgraph()
    return [] if root.is_leaf else root.toposort_child_subgraph()


def describe_subgraph(subgraph: Subgraph, index: int) -> dict[str, Any]:
    """Return a subgraph as ``xdputil xmodel -l`` lists it."""
    device = device_of(subgraph)
    found: dict[str, Any] = {"index": index, "name": subgraph.get_name(), "device": device}
    if device != "DPU":
        return found
    attrs = subgraph.get_attrs()
    fingerprint = int(attrs.get("dpu_fingerprint", 0))
    return found | {
        "fingerprint": f"{fingerprint:#x}",
        "DPU Arch": dpu_arch(fingerprint, str(attrs.get("dpu_name", ""))),
        "workload": int(attrs.get("workload", 0)),
        "input_tensor": _described(subgraph.get_sorted_input_tensors()),
        "output_tensor": _described(subgraph.get_sorted_output_tensors()),
        "reg info": _registers(subgraph),
        "instruction reg": len(attrs.get("mc_code", b"")),
    }


def describe(graph: Graph) -> dict[str, Any]:
    """Return what a model holds, whether it is compiled or not.

    Keys are ``name``, ``stage`` (``compiled``, ``quantized`` or ``float``), ``ops`` (how many there
    are by type), ``inputs``, ``outputs``, and ``subgraphs``, each as :func:`describe_subgraph` has
    it. Inputs and outputs that the model quantizes have ``quantized`` besides: ``bit_width``,
    ``if_signed``, ``scale`` and ``zero_point``.
    """
    ops = graph.toposort()
    counts: dict[str, int] = {}
    for op in ops:
        counts[op.get_type()] = counts.get(op.get_type(), 0) + 1
    children = children_of(graph)
    return {
        "name": graph.get_name(),
        "stage": _stage(graph, counts),
        "ops": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        "inputs": _of_ops([op for op in ops if _is_input(op)]),
        "outputs": _of_ops(_results(graph, ops)),
        "subgraphs": [describe_subgraph(child, index) for index, child in enumerate(children)],
    }


def dpu_arch(fingerprint: int, name: str = "") -> str:
    """Return the name of a DPU: what its file says, else what its fingerprint means."""
    if name or not fingerprint:
        return name
    try:
        return Target.from_fingerprint(fingerprint).name
    except TargetError:
        return ""


def _stage(graph: Graph, counts: dict[str, int]) -> str:
    if dpu_subgraphs(graph):
        return "compiled"
    return "quantized" if any(kind in counts for kind in ("fix", "float2fix")) else "float"


def _is_input(op: Op) -> bool:
    return op.get_type() in ("data", "data-fix")


def _results(graph: Graph, ops: Sequence[Op]) -> list[Op]:
    """Return the ops whose results leave the graph."""
    if graph.has_attr("return_ops"):
        named = set(graph.get_attr("return_ops"))
        return [op for op in ops if op.get_name() in named]
    return [op for op in ops if not op.get_fanout_num() and not _is_input(op)]


def _of_ops(ops: Sequence[Op]) -> list[dict[str, Any]]:
    """Return the tensors of inputs or outputs, and what those are quantized to that are."""
    found = _described([op.get_output_tensor() for op in ops])
    for op, tensor in zip(ops, found, strict=True):
        quantized = _quantized(op)
        if quantized is not None:
            tensor["quantized"] = quantized
    return found


def _quantized(op: Op) -> dict[str, Any] | None:
    """Return how an output is quantized, or an input by all that read it; none if in no one way."""
    readers = op.get_fanout_ops() if _is_input(op) else [op]
    if not readers or any(reader.get_type() != "fix" for reader in readers):
        return None
    ways = [quantization_of(reader) for reader in readers]
    found = ways[0]
    if found is None or any(way != found for way in ways):
        return None
    return {
        "bit_width": found.bits, "if_signed": found.signed,
        "scale": found.scale[0], "zero_point": found.zero_point[0],
    }  # fmt: skip


def _described(tensors: Sequence[Tensor]) -> list[dict[str, Any]]:
    return [
        {
            "index": index,
            "name": tensor.name,
            "shape": list(tensor.dims),
            "type": tensor.dtype,
            "fixpos": tensor.get_attr("fix_point") if tensor.has_attr("fix_point") else None,
        }
        for index, tensor in enumerate(tensors)
    ]


def _registers(subgraph: Subgraph) -> list[dict[str, Any]]:
    if not subgraph.has_attr(CONTEXTS):
        return []
    sizes = by_register(subgraph, SIZES, int) if subgraph.has_attr(SIZES) else {}
    return [
        {"name": name, "context type": _CONTEXTS.get(context, context), "size": sizes.get(name, 0)}
        for name, context in sorted(by_register(subgraph, CONTEXTS, str).items())
    ]
