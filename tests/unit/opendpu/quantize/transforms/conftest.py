# SPDX-License-Identifier: Apache-2.0
"""A rewritten network on the DPU."""

from collections.abc import Mapping

import numpy as np
import pytest

from opendpu.api import compile_graph
from opendpu.ir import FloatGraph, to_xir
from opendpu.ops.session import Session
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner


def _check(
    graph: FloatGraph, given: Mapping[str, np.ndarray], *, target: str, least: float
) -> None:
    compiled = compile_graph(to_xir(quantize(graph.copy(), given)), target=target)
    assert [part.device for part in compiled.report.subgraphs] == ["USER", "DPU"]
    found = {}
    for device in ("ref", "iss"):
        with GraphRunner(compiled.graph, device=device) as runner:
            (item,) = runner.get_input_tensors()
            (made,) = runner.get_output_tensors()
            found[device] = runner.run({item.name: given["x"][:1]})[made.name]
            point = made.get_attr("fix_point")
    np.testing.assert_array_equal(found["ref"], found["iss"])
    want = Session(graph).run({"x": given["x"][:1]})["y"]
    error = want - found["iss"] * 2.0**-point
    assert 10 * np.log10(np.sum(want**2) / np.sum(error**2)) > least


@pytest.fixture
def on_the_dpu():
    """Check that a graph from ``x`` to ``y`` is one part, with the integers of the reference.

    Its output has an SQNR of more than ``least`` dB.
    """
    return _check
