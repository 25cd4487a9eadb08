# SPDX-License-Identifier: Apache-2.0
"""What a partition is: parts of a graph by device, and why ops are on the CPU."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from opendpu.ir import FixedGraph


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """Ops that run on one device, in order; constants go with their users.

    What a plug-in has taken has a ``name`` and attributes of its own.
    """

    device: str
    nodes: tuple[str, ...]
    name: str = ""
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Partition:
    """The parts in an order in which they can run, and reasons by op that is on the CPU."""

    parts: tuple[Part, ...]
    reasons: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Partitioned:
    """A fixed-point graph, and what was decided about where its ops run."""

    graph: FixedGraph
    partition: Partition


@dataclasses.dataclass(frozen=True)
class PartitionedPart:
    """One part of a partitioned graph."""

    graph: FixedGraph
    part: Part

    @property
    def outputs(self) -> set[str]:
        """The nodes whose results are needed outside the part."""
        inside = set(self.part.nodes)
        users = self.graph.consumer_map()
        return {
            name
            for name in self.part.nodes
            if name in self.graph.outputs or any(u.name not in inside for u in users[name])
        }
