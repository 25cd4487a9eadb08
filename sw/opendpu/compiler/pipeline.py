# SPDX-License-Identifier: Apache-2.0
"""The passes of the compiler in order; :data:`opendpu.compiler.passes.PASSES` describes them.

``fold`` (what has no effect), ``legalize`` (float ops and ``fix`` to ``-fix`` ops), ``partition``
(DPU or CPU, with reasons), and for every DPU part ``lower`` (layers), then in
:mod:`opendpu.compiler.backend` ``fuse`` (layers that run as one), ``tile`` (loops), ``allocate``
(places), ``emit`` (instructions), ``schedule`` (tokens and order); last ``assemble`` (the compiled
graph). What each makes is checked by :mod:`opendpu.compiler.verify` before the next one gets it.
"""

import dataclasses

import xir
from opendpu.compiler.assemble import assemble
from opendpu.compiler.backend import build
from opendpu.compiler.boundary import Passed, unwatched
from opendpu.compiler.demand import with_input_shapes, with_outputs
from opendpu.compiler.fold import fold
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.options import Options
from opendpu.compiler.partition import partition
from opendpu.compiler.passes import Partitioned
from opendpu.compiler.planner.revise import BankCapacityError
from opendpu.compiler.plugins import Claim, bring_back, run_plugins, set_aside
from opendpu.compiler.program import Program
from opendpu.compiler.report import Report, report_of
from opendpu.compiler.verify import Verifier
from opendpu.ir import Graph, QuantizedGraph, from_xir, to_xir
from opendpu_arch.target import Target

MORE_ROOM = "a smaller kernel, fewer channels, or a target with more or deeper banks"
"""What lets a layer fit that does not."""


@dataclasses.dataclass(frozen=True, kw_only=True)
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
    passed = _both(Verifier(target), passed) if verified else passed
    options = options or Options()
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
    folded = fold(quantized)
    passed("fold", folded)
    graph = legalize(folded)
    taken = bring_back(graph)
    passed("legalize", graph)
    refused: dict[str, str] = {}
    while True:
        parts = partition(graph, target, refused, taken, claims)
        passed("partition", Partitioned(graph, parts))
        programs: dict[int, Program] = {}
        for number, part in enumerate(parts.parts):
            if part.device == "DPU":
                network = lower(graph, part.nodes, _outputs(graph, part.nodes), target)
                passed("lower", network)
                try:
                    programs[number] = build(network, target, passed)
                except BankCapacityError as error:
                    refused[error.layer.op] = (
                        f"{error}; {MORE_ROOM} would lift it (XCOM_TILING_SIZE_ERROR)"
                    )
                    break
        else:
            break
    made = assemble(graph, parts, programs, target, stripped=not options.reserve_const_data)
    passed("assemble", made)
    return Compiled(graph=made, report=report_of(made, parts, programs, target))


def _both(first: Passed, second: Passed) -> Passed:
    def passed(name: str, value: object) -> None:
        first(name, value)
        second(name, value)

    return passed


def _outputs(graph: Graph, names: tuple[str, ...]) -> set[str]:
    """Return the nodes of a part whose results are needed outside it."""
    inside = set(names)
    users = graph.consumer_map()
    return {
        n for n in names if n in graph.outputs or any(user.name not in inside for user in users[n])
    }
