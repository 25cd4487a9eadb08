# SPDX-License-Identifier: Apache-2.0
"""At each limit of the DPU an op runs there; just beyond, on the CPU, for exactly that reason."""

import numpy as np
import pytest
from limits import CASES, Case, Drawing
from oracle import evaluate_float
from random_graphs.check import check

from opendpu.compiler.constraints import CONSTRAINTS
from opendpu.compiler.pipeline import compile_with_report
from opendpu.ir import Graph, to_xir

NAMES = [f"{case.name}-{case.draw.__name__}" for case in CASES]


def drawn(case: Case, beyond: bool) -> Graph:
    q = Drawing(beyond)
    return q.done(case.draw(q))


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_at_the_limit(case: Case) -> None:
    reference = evaluate_exactly if case.exact else None
    assert not check(drawn(case, False), case.target, 1, reference=reference).report.on_cpu


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_just_beyond(case: Case) -> None:
    graph = drawn(case, True)
    reference = evaluate_exactly if case.exact else None
    if case.runs:
        reasons = check(graph, case.target, 1, reference=reference).report.on_cpu
    else:
        reasons = compile_with_report(to_xir(graph), case.target).report.on_cpu
    idle = "no op of the DPU is next to it; one that computes would lift it"
    assert case.explains(reasons["op"]), reasons["op"]
    assert {n for n, why in reasons.items() if why != idle} <= {"op", *case.beside}
    for why in reasons.values():
        assert "would lift it" in why or "lifts it" in why or why.startswith("the DPU has no "), why


def evaluate_exactly(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the results of float ops, rounded to int8 by the ``fix`` behind them."""
    heads = {n.inputs["input"][0]: n for n in graph if n.kind == "fix"}
    floats = {n: v * 2.0 ** -heads[n].fix_point for n, v in inputs.items()}
    return {
        name: (value * 2.0 ** graph[name].fix_point).astype(np.int8)
        for name, value in evaluate_float(graph, floats).items()
    }


def test_every_constraint_has_a_case() -> None:
    """Those of the extension ``scaled`` are in ``test_limits_scaled``."""
    named = {c.name for c in CONSTRAINTS if not c.check.__module__.endswith(".scaled")}
    assert named <= {case.name for case in CASES}
