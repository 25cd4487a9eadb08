# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs without the rounding that the DPU has nothing of."""

from opendpu.compiler.options import Options
from opendpu.compiler.partition import Partitioned
from opendpu.compiler.pipeline import partition_settled
from opendpu.ir import QuantizedGraph
from opendpu_arch.target import Target


def without_redundant_fixes(
    graph: QuantizedGraph, target: Target, options: Options | None = None
) -> QuantizedGraph:
    """Return a graph in which tensors that only the CPU makes and reads are not rounded.

    The guide calls that removing redundant fix neurons. What the DPU computes stays as it is, but
    for the values that the CPU gives it.
    """
    value = partition_settled(graph, target, options=options)
    names = [name for name in _redundant(value) if name in graph.nodes]
    if not names:
        return graph
    made = graph.copy()
    for name in names:
        (source,) = made[name].inputs["input"]
        made.replace(name, source)
        order = made.attrs.get("onnx_order", {})
        if name in order:
            order[source] = order[name]
        del made.nodes[name]
    return made


def _redundant(value: Partitioned) -> list[str]:
    """Return the ``fix`` ops that nobody on the DPU makes or reads.

    Some are the compiler's own, where it has carried a scale across a reshape.
    """
    users = value.graph.consumer_map()
    return [
        node.tensor_name
        for node in value.graph
        if node.kind == "float2fix" and all(user.kind == "fix2float" for user in users[node.name])
    ]
