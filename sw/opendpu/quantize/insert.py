# SPDX-License-Identifier: Apache-2.0
"""From a float graph and its positions to the quantized graph, as AMD's quantizers write it."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph, Quantization, QuantizedGraph

Rounded = dict[tuple[str, int], npt.NDArray[np.float32]]
"""Constants on their grid, by name and position."""


def insert(
    graph: Graph, positions: Mapping[str, int], rounded: Rounded | None = None
) -> QuantizedGraph:
    """Return a graph with a ``fix`` behind every node that has a position.

    The op is called ``<node>_fix`` and has 8 signed bits and ``DPU_ROUND``; constants in front
    of one hold values that are already on its grid. ``rounded`` keeps those of earlier calls.
    """
    known: Rounded = {} if rounded is None else rounded
    result = QuantizedGraph(graph.name)
    result.attrs = dict(graph.attrs)
    behind: dict[str, str] = {}
    for node in graph:
        inputs = {arg: [behind[n] for n in names] for arg, names in node.inputs.items()}
        value = node.value
        position = positions.get(node.name)
        if value is not None and position is not None:
            if (node.name, position) not in known:
                scale = np.float32(2.0**position)
                integers = np.floor(value * scale + np.float32(0.5))
                known[node.name, position] = np.clip(integers, -128, 127) / scale
            value = known[node.name, position]
        result.add(node.name, node.kind, node.type, inputs, node.attrs, value, origin=node.origin)
        behind[node.name] = node.name
        if position is not None:
            behind[node.name] = result.add_fix(
                f"{node.name}_fix", node.name, Quantization.power_of_two(position)
            ).name
    result.outputs = [behind[name] for name in graph.outputs]
    return result
