# SPDX-License-Identifier: Apache-2.0
"""Which operators of a model run where, as AMD's provider writes it beside what it compiled.

Programs read ``deviceStat`` to see that the accelerator computes anything at all: ``name`` is
``all``, ``CPU`` or ``NPU``, which is the DPU here; ``nodeNum`` counts operators, without those that
quantize, and ``supportedOpType`` has their types.
"""

import json
import pathlib
from collections.abc import Collection, Iterable
from typing import Any

from opendpu.ir import Graph, Node
from opendpu.ops import CONSTANTS, SOURCES
from opendpu_arch import outputs

ACCELERATOR, HOST = "NPU", "CPU"


def assignment(graph: Graph, on_cpu: Collection[str], parts: int) -> dict[str, Any]:
    """Return the report.

    Parameters
    ----------
    graph
        What was compiled.
    on_cpu
        Its ops that the CPU computes.
    parts
        How many parts the DPU computes.
    """
    kinds = {*CONSTANTS, *SOURCES, "fix"}
    nodes: dict[str, list[Node]] = {}
    for node in graph:
        if node.kind not in kinds:
            nodes.setdefault(node.origin.name or node.name, []).append(node)
    found = [
        {
            "name": name,
            "opType": _type(ops),
            "device": HOST if any(op.name in on_cpu for op in ops) else ACCELERATOR,
            "input": list(dict.fromkeys(source for op in ops for source in op.sources())),
            "output": ops[-1].name,
        }
        for name, ops in nodes.items()
    ]
    names = ["all", *dict.fromkeys(str(one["device"]) for one in found)]
    return {
        "deviceStat": [
            _count(name, [one for one in found if name in ("all", one["device"])]) for name in names
        ],
        "subgraphStat": [
            {"device": ACCELERATOR, "count": parts},
            {"device": f"Actually running on {ACCELERATOR}", "count": parts},
        ],
        "nodeStat": found,
    }  # fmt: skip


def write(report: dict[str, Any], folder: pathlib.Path, name: str) -> None:
    """Write a report into a folder, or where a path says.

    Raises
    ------
    OutputError
        It cannot be written.
    """
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    outputs.write(path, json.dumps(report, indent=1))


def _type(ops: Iterable[Node]) -> str:
    """Return the type of an operator of ONNX, its domain in front, which is mostly empty."""
    return f"::{next((op.origin.op_type for op in ops if op.origin.op_type), 'unknown')}"


def _count(name: str, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name, "nodeNum": len(nodes),
        "supportedOpType": sorted({str(node["opType"]) for node in nodes}),
    }  # fmt: skip
