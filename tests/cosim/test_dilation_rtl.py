# SPDX-License-Identifier: Apache-2.0
"""Dilated convolutions on the RTL: results of the reference, cycles of the cycle model."""

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
from test_dilation import dilated  # noqa: E402

pytestmark = pytest.mark.cosim

CASES = {
    "same size": {"kernel": (3, 3), "gap": (6, 6), "pad": (6,) * 4},
    "stride": {"kernel": (3, 2), "gap": (5, 9), "pad": (4, 7, 3, 8), "stride": (2, 3)},
    "groups": {"kernel": (3, 3), "gap": (7, 2), "pad": (2, 1, 7, 6), "group": 2},
    "depthwise": {"kernel": (3, 3), "gap": (4, 5), "pad": (5, 5, 4, 4), "kind": "depthwise-conv2d"},
}


@pytest.mark.parametrize("case", CASES)
def test_dilated(case: str) -> None:
    target = Target.from_name("B64")
    q = Quantized()
    graph = q.done(dilated(q, q.data(17, 19, 10), channels=12, act="relu", **CASES[case]))
    compiled = compile_with_report(graph, target)
    assert not compiled.report.on_cpu
    cycles = {}
    for device in ("rtl", "cycle"):
        with GraphRunner(compiled.graph, device=device, target=target, memory="kv260") as runner:
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
