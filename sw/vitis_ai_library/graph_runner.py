# SPDX-License-Identifier: Apache-2.0
"""Runners of whole graphs with the interface of ``vart.RunnerExt``."""

from typing import Any

import opendpu.runtime
import vart
from xir import Graph
from xir.arguments import expect


class GraphRunner:
    """Makes runners of whole graphs; AMD's class has this one function, too."""

    @staticmethod
    def create_graph_runner(graph: Graph, **options: Any) -> vart.RunnerExt:
        """Return a runner for a graph: DPU subgraphs on a device, the others on the CPU.

        Outputs are sorted by name. Inputs are in AMD's order: the model's last one is first.

        ``options`` are ours, and those of :class:`opendpu.runtime.GraphRunner`: ``device``,
        ``memory``, ``target`` and so on.

        Raises
        ------
        UnsupportedError
            A CPU op has no implementation; the message says how to register one.
        TypeError
            It is no graph.
        """
        expect(graph, Graph, "what a graph runner is created for")
        return vart.RunnerExt(opendpu.runtime.GraphRunner(graph, as_vitis_ai=True, **options))
