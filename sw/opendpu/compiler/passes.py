# SPDX-License-Identifier: Apache-2.0
"""The passes of the compiler by name: what each takes and makes."""

import dataclasses
from collections.abc import Iterable

from opendpu.compiler.backend import BACKEND_PASSES
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
    *(Pass(one.name, one.text, one.takes, one.makes, each=True) for one in BACKEND_PASSES),
    Pass("assemble", "programs and CPU ops become a compiled graph", "program", "compiled graph"),
)  # fmt: skip
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
