# SPDX-License-Identifier: Apache-2.0
"""Runs the passes: those of the whole graph, of every DPU part, and the last one.

What each makes is checked by :mod:`opendpu.compiler.verify` before the next one gets it, and timed.
"""

import contextlib
import dataclasses
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import xir
from opendpu.compiler.backend import build, check_capacity
from opendpu.compiler.boundary import Passed, unwatched
from opendpu.compiler.demand import with_input_shapes, with_outputs
from opendpu.compiler.network import Network
from opendpu.compiler.options import Options
from opendpu.compiler.partition import Part, Partitioned, PartitionedPart
from opendpu.compiler.passes import (
    ASSEMBLE,
    GRAPH_PASSES,
    LOWER,
    Compilation,
    Pass,
    Programs,
)
from opendpu.compiler.planner.revise import BankCapacityError
from opendpu.compiler.plugins import Claim, run_plugins, set_aside
from opendpu.compiler.program import Program
from opendpu.compiler.report import Report, report_of
from opendpu.compiler.verify import Verifier
from opendpu.ir import QuantizedGraph, from_xir, to_xir
from opendpu_arch.target import Target

MORE_ROOM = "a smaller kernel, fewer channels, or a target with more or deeper banks"
"""What lets a layer fit that does not."""


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled graph and what was decided on the way."""

    graph: xir.Graph
    report: Report


def compile(quantized: QuantizedGraph | xir.Graph, target: Target) -> xir.Graph:
    """Return the compiled form of a quantized graph; see :func:`compile_with_report`."""
    return compile_with_report(quantized, target).graph


def compile_with_report(
    quantized: QuantizedGraph | xir.Graph,
    target: Target,
    *,
    options: Options | None = None,
    verified: bool = True,
    passed: Passed = unwatched,
) -> Compiled:
    """Compile a quantized graph (float tensors with ``fix`` ops) for a target.

    Ops that the DPU cannot do stay in the graph for the CPU, and the report says why. ``passed``
    gets the name and the result of each pass; what runs once for every DPU part is called for each.

    Raises
    ------
    UnsupportedError
        A ``fix`` op is not of 8 signed bits, or an option does not fit the graph.
    GraphError
        The graph is broken.
    PluginError
        A plug-in fails, or takes ops that it cannot have.
    PassError
        A pass broke a rule, and ``verified`` is set.
    """
    options = options or Options()
    quantized, claims = _prepared(quantized, options)
    job = Compilation(
        target, claims, stripped=not options.reserve_const_data, least_ops=options.least_ops
    )
    run = _Run(job, _both(Verifier(target), passed) if verified else passed)
    with collector_paused():
        partitioned = _settled(run, quantized, run.make_program)
        programs = {n: run.programs[part.nodes] for n, part in _dpu_parts(partitioned)}
        made: xir.Graph = run.one(ASSEMBLE, Programs(partitioned, programs))
        report = report_of(made, partitioned, programs, target)
    return Compiled(made, dataclasses.replace(report, pass_seconds=run.seconds))


def partition_settled(
    quantized: QuantizedGraph | xir.Graph, target: Target, *, options: Options | None = None
) -> Partitioned:
    """Return which op a compilation puts where, and why: its own passes, without making programs.

    Raises
    ------
    UnsupportedError
        A ``fix`` op is not of 8 signed bits, or an option does not fit the graph.
    """
    options = options or Options()
    quantized, claims = _prepared(quantized, options)
    run = _Run(Compilation(target, claims, least_ops=options.least_ops), Verifier(target))
    with collector_paused():
        return _settled(run, quantized, lambda part, network: check_capacity(network, target))


def _settled(
    run: "_Run", quantized: QuantizedGraph, make: Callable[[Part, Network], None]
) -> Partitioned:
    """Return the partition after which ``make``, called for every DPU part, refuses no layer."""
    value: Any = quantized
    *before, partition = GRAPH_PASSES
    for one in before:
        value = run.one(one, value)
    graph = value
    while True:
        partitioned: Partitioned = run.one(partition, graph)
        refused = run.parts(partitioned, make)
        if not refused:
            return partitioned
        for name, reason in refused.items():  # every round leaves the DPU fewer ops
            graph[name].reason = reason


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python from looking for unreachable cycles, of which compiling makes hardly any.

    It would go through millions of instructions and accesses again and again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _prepared(
    quantized: QuantizedGraph | xir.Graph, options: Options
) -> tuple[QuantizedGraph, tuple[Claim, ...]]:
    """Return the graph that the options ask for, and what plug-ins have taken of it."""
    claims: tuple[Claim, ...] = ()
    if options.plugins or options.input_shape:
        written = to_xir(quantized) if isinstance(quantized, QuantizedGraph) else quantized
        written = with_input_shapes(written, options.input_shape)
        quantized, claims = run_plugins(written, options.plugins)
    if isinstance(quantized, xir.Graph):
        quantized = from_xir(quantized).moved(QuantizedGraph)
    if options.output_ops:
        quantized = with_outputs(quantized, options.output_ops)
    set_aside(quantized, claims)
    return quantized, claims


def _dpu_parts(value: Partitioned) -> list[tuple[int, Part]]:
    return [(n, part) for n, part in enumerate(value.partition.parts) if part.device == "DPU"]


class _Run:
    """Runs passes, tells the watcher what each made, and adds up their times."""

    def __init__(self, job: Compilation, passed: Passed) -> None:
        self.job = job
        self.passed = passed
        self.seconds: dict[str, float] = {}
        self.programs: dict[tuple[str, ...], Program] = {}
        """By the ops of their part."""
        self.done: set[tuple[str, ...]] = set()
        """Parts that fit, by their ops; a new partition may leave them alone."""

    def one(self, one: Pass, value: Any) -> Any:
        """Return what a pass makes of a value."""
        start = time.perf_counter()
        made = one.run(value, self.job)
        self._took(one.name, time.perf_counter() - start)
        self.passed(one.name, made)
        return made

    def make_program(self, part: Part, network: Network) -> None:
        """Make and keep the program of a DPU part."""
        self.programs[part.nodes] = build(network, self.job.target, self.passed, self._took)

    def parts(
        self, partitioned: Partitioned, make: Callable[[Part, Network], None]
    ) -> Mapping[str, str]:
        """Call ``make`` for all DPU parts; return the ops that do not fit, with reasons."""
        refused = {}
        for _, part in _dpu_parts(partitioned):
            if part.nodes in self.done:
                continue
            network = self.one(LOWER, PartitionedPart(partitioned.graph, part))
            try:
                make(part, network)
                self.done.add(part.nodes)
            except BankCapacityError as error:
                refused[error.layer.op] = (
                    f"{error}; {MORE_ROOM} would lift it (XCOM_TILING_SIZE_ERROR)"
                )
        return refused

    def _took(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def _both(first: Passed, second: Passed) -> Passed:
    def passed(name: str, value: object) -> None:
        first(name, value)
        second(name, value)

    return passed
