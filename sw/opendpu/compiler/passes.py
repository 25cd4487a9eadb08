# SPDX-License-Identifier: Apache-2.0
"""The passes of the compiler by name: what each takes and makes."""

import dataclasses
from collections.abc import Iterable

from opendpu.compiler.plan import Partition
from opendpu.ir import Graph
from opendpu_arch.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class Partitioned:
    """A fixed-point graph, and what was decided about where its ops run."""

    graph: Graph
    partition: Partition


@dataclasses.dataclass(frozen=True)
class Pass:
    """A named step of a compilation."""

    name: str
    text: str
    takes: str
    """Kind of value."""
    makes: str
    each: bool = False
    """It runs once for every DPU part."""


PASSES = (
    Pass(
        "fold", "what has no effect disappears, int8 spreads over ops that move data",
        "quantized graph", "quantized graph",
    ),
    Pass(
        "legalize", "an op, its activation and its fix become one op of the DPU",
        "quantized graph", "fixed-point graph",
    ),
    Pass(
        "partition", "ops get a device: as few DPU parts as can be, and reasons for the CPU",
        "fixed-point graph", "partition",
    ),
    Pass(
        "lower", "the ops of a DPU part become layers with instruction fields, or aliases",
        "partition", "network", each=True,
    ),
    Pass(
        "fuse", "layers that can run without a detour over DDR become one", "network", "network",
        each=True,
    ),
    Pass("tile", "layers get loops that fit the banks", "network", "plan", each=True),
    Pass(
        "allocate", "feature maps and constants get places in the banks and in DDR", "network",
        "plan", each=True,
    ),
    Pass("emit", "layers become instructions, in sequential order", "plan", "steps", each=True),
    Pass("schedule", "instructions get tokens and an order", "steps", "program", each=True),
    Pass("assemble", "programs and CPU ops become a compiled graph", "program", "compiled graph"),
)  # fmt: skip
"""Every pass, in order; ``tile`` and ``allocate`` decide together, over and over until all fits."""


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
