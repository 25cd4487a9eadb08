# SPDX-License-Identifier: Apache-2.0
"""Attention on the RTL, which knows nothing of it: the reference's results, the model's cycles."""

import pathlib
import sys

import numpy as np
import pytest
from oracle import evaluate_quantized

from opendpu.compiler.pipeline import compile_with_report
from opendpu.ir import to_xir
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "unit" / "opendpu" / "compiler"))

from graph_draws import Quantized  # noqa: E402
from test_products import attention  # noqa: E402

pytestmark = pytest.mark.cosim


@pytest.mark.parametrize("memory", ["kv260", "stall:7"])
def test_attention(memory: str) -> None:
    target = Target.from_name("B64")
    q = Quantized()
    graph = q.done(*attention(q, tokens=17, heads=3, size=8))
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
        for name, values in evaluate_quantized(to_xir(graph), given).items():
            assert np.array_equal(values, found[name]), (device, name)
    assert cycles["rtl"] == cycles["cycle"]
