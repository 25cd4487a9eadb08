# SPDX-License-Identifier: Apache-2.0
"""The passes of the compiler: what runs is this list, in this order."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import xir
from opendpu.compiler.assemble import assemble
from opendpu.compiler.backend import BACKEND_PASSES, BackendPass
from opendpu.compiler.fold import fold
from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.network import Network
from opendpu.compiler.partition import Partitioned, PartitionedPart, partition_by_cost
from opendpu.compiler.plugins import Claim, bring_back
from opendpu.compiler.program import Program
from opendpu.ir import FixedGraph, QuantizedGraph
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True)
class Compilation:
    """What holds for all passes of one compilation."""

    target: Target
    claims: tuple[Claim, ...] = ()
    """What plug-ins have taken."""
    stripped: bool = True
    """Constants of DPU parts are in their segment alone, as AMD's compiler does."""
    least_ops: int = 0
    """Parts with so many operators or fewer stay on the CPU."""


@dataclasses.dataclass(frozen=True)
class Programs:
    """A partitioned graph and the programs of its DPU parts, by number of the part."""

    partitioned: Partitioned
    programs: Mapping[int, Program]


@dataclasses.dataclass(frozen=True)
class Pass:
    """A named step of a compilation, from one value to the next."""

    name: str
    text: str
    takes: str
    """Kind of value."""
    makes: str
    run: Callable[[Any, Compilation], Any]


def _fold(graph: QuantizedGraph, job: Compilation) -> QuantizedGraph:
    return fold(graph)


def _legalize(graph: QuantizedGraph, job: Compilation) -> FixedGraph:
    made = legalize(
        graph,
        tables=Extension.TABLE in job.target.extensions,
        scaled=Extension.SCALED in job.target.extensions,
    )
    bring_back(made)
    return made


def _partition(graph: FixedGraph, job: Compilation) -> Partitioned:
    refused = {node.name: node.reason for node in graph if node.reason}
    taken = {node.name: node.claim for node in graph if node.claim is not None}
    return Partitioned(
        graph, partition_by_cost(graph, job.target, refused, taken, job.claims, job.least_ops)
    )


def _lower(value: PartitionedPart, job: Compilation) -> Network:
    return lower(value.graph, value.part.nodes, value.outputs, job.target, cycles_alone)


def _assemble(value: Programs, job: Compilation) -> xir.Graph:
    return assemble(
        value.partitioned.graph, value.partitioned.partition, value.programs, job.target,
        stripped=job.stripped,
    )  # fmt: skip


GRAPH_PASSES = (
    Pass(
        "fold", "what has no effect disappears, scales are propagated across ops that move data",
        "quantized graph", "quantized graph", _fold,
    ),
    Pass(
        "legalize", "an op, its activation and its fix become one op of the DPU",
        "quantized graph", "fixed-point graph", _legalize,
    ),
    Pass(
        "partition", "ops get a device, by limits and by cost, with reasons for the CPU",
        "fixed-point graph", "partition", _partition,
    ),
)  # fmt: skip
"""The passes of the whole graph."""
LOWER = Pass(
    "lower", "the ops of a DPU part become layers with instruction fields, or aliases",
    "partition", "network", _lower,
)  # fmt: skip
"""The first pass of every DPU part; the others are those of :mod:`opendpu.compiler.backend`."""
ASSEMBLE = Pass(
    "assemble", "programs and CPU ops become a compiled graph", "programs", "compiled graph",
    _assemble,
)  # fmt: skip
"""The last pass."""
EACH = (LOWER.name, *(one.name for one in BACKEND_PASSES))
"""Passes that run once for every DPU part."""
PASSES: tuple[Pass | BackendPass, ...] = (*GRAPH_PASSES, LOWER, *BACKEND_PASSES, ASSEMBLE)
"""Every pass, in order."""


def chosen(names: Iterable[str]) -> frozenset[str]:
    """Return the passes with these names; ``all`` stands for every one.

    Raises
    ------
    UnsupportedError
        There is no such pass.
    """
    known = [one.name for one in PASSES]
    wanted = [name.strip() for name in names]
    for name in wanted:
        if name not in known and name != "all":
            raise UnsupportedError(
                f"no pass is called {name!r}; known: all, {', '.join(known)}", code="XCOM_PASS_MISS"
            )
    return frozenset(known if "all" in wanted else wanted)
