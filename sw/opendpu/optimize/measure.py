# SPDX-License-Identifier: Apache-2.0
"""Cycles of a float graph on a target: quantized by assumption, compiled, told by the cycle model.

Values of weights and scales do not change how long a program takes, so nothing has to be
calibrated.
"""

import dataclasses
from collections.abc import Mapping

from opendpu.compiler.pipeline import compile_with_report
from opendpu.inspect.assume import with_scales
from opendpu.ir import FloatGraph
from opendpu.profile import profile
from opendpu.runtime.devices import DEFAULT_MEMORY
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target

DEVICE = "cycle"
"""The device that tells cycles; ``rtl`` confirms them."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a network takes on the DPU.

    ``by_layer`` are the cycles charged to each layer of the program, whose names are those of the
    modules; ``macs`` the multiply-accumulates of its array.
    """

    cycles: int
    by_layer: Mapping[str, float]
    macs: int
    utilization: float


def measure(
    graph: FloatGraph, target: Target, *, device: str = DEVICE, memory: str = DEFAULT_MEMORY
) -> Measured:
    """Compile a float graph for a target and let a device count its cycles.

    Raises
    ------
    UnsupportedError
        Nothing of it runs on the DPU.
    ToolError
        A program that the device needs is missing.
    """
    compiled = compile_with_report(with_scales(graph, activation_substitution="none"), target)
    if not dpu_subgraphs(compiled.graph):
        raise UnsupportedError(
            f"nothing of {graph.name} runs on {target.name}, so it has no cycles; opendpu inspect "
            "says why"
        )
    found = profile(compiled.graph, device=device, memory=memory, target=target)
    rows: dict[str, float] = {}
    for row in found.rows():
        rows[row.layer] = rows.get(row.layer, 0.0) + float(row.cycles)
    total = found.total()
    return Measured(
        int(total.cycles), rows, total.work.array_macs, total.utilization(target.macs_per_cycle)
    )
