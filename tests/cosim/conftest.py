# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs on the RTL: results of the reference, cycles of the cycle model."""

from collections.abc import Callable

import numpy as np
import pytest
from oracle import evaluate_quantized

from opendpu.compiler.pipeline import compile_with_report
from opendpu.ir import Graph, to_xir
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target

Reference = Callable[[Graph, dict[str, np.ndarray]], dict[str, np.ndarray]]


def _by_oracle(graph: Graph, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return evaluate_quantized(to_xir(graph), given)


def _check(
    graph: Graph, *, memory: str, name: str = "B64", reference: Reference = _by_oracle
) -> None:
    target = Target.from_name(name)
    compiled = compile_with_report(graph, target)
    assert not compiled.report.on_cpu
    cycles = {}
    for device in ("rtl", "cycle"):
        with GraphRunner(compiled.graph, device=device, target=target, memory=memory) as runner:
            noise = np.random.default_rng(5)
            given = {
                t.name: noise.integers(-128, 128, t.dims, np.int8)
                for t in runner.get_input_tensors()
            }
            found = runner.run(given)
            assert runner.last_statistics is not None
            cycles[device] = runner.last_statistics.cycles
        for name, values in reference(graph, given).items():
            assert np.array_equal(values, found[name]), (device, name)
    assert cycles["rtl"] == cycles["cycle"]


@pytest.fixture
def as_reference():
    """Check that nothing of a graph is on the CPU, its results on a target, and its cycles."""
    return _check
