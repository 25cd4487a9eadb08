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
from opendpu.compiler.plugins import bring_back, run_plugins, set_aside
from opendpu.compiler.program import Program
from opendpu.compiler.report import Report, report_of
from opendpu.compiler.verify import Verifier
from opendpu.ir import Draft
from opendpu_arch.target import Target

MORE_ROOM = "a smaller kernel, fewer channels, or a target with more or deeper banks"
"""What lets a layer fit that does not."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiled:
    """A compiled graph and what was decided on the way."""

    graph: xir.Graph
    report: Report


def compile(quantized: xir.Graph, target: Target) -> xir.Graph:
    """Return the compiled form of a quantized graph; see :func:`compile_with_report`."""
    return compile_with_report(quantized, target).graph


def compile_with_report(
    quantized: xir.Graph,
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
    quantized, claims = run_plugins(
        with_input_shapes(quantized, options.input_shape), options.plugins
    )
    draft = Draft.from_xir(quantized)
    if options.output_ops:
        draft = with_outputs(draft, options.output_ops)
    set_aside(draft, claims)
    folded = fold(draft)
    passed("fold", folded)
    draft = legalize(folded)
    taken = bring_back(draft)
    passed("legalize", draft)
    refused: dict[str, str] = {}
    while True:
        parts = partition(draft, target, refused, taken, claims)
        passed("partition", Partitioned(draft, parts))
        programs: dict[int, Program] = {}
        for number, part in enumerate(parts.parts):
            if part.device == "DPU":
                network = lower(draft, part.nodes, _outputs(draft, part.nodes), target)
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
    graph = assemble(draft, parts, programs, target, stripped=not options.reserve_const_data)
    passed("assemble", graph)
    return Compiled(graph=graph, report=report_of(graph, parts, programs, target))


def _both(first: Passed, second: Passed) -> Passed:
    def passed(name: str, value: object) -> None:
        first(name, value)
        second(name, value)

    return passed


def _outputs(draft: Draft, names: tuple[str, ...]) -> set[str]:
    """Return the nodes of a part whose results are needed outside it."""
    inside = set(names)
    users = draft.consumer_map()
    return {
        n for n in names if n in draft.outputs or any(user.name not in inside for user in users[n])
    }
