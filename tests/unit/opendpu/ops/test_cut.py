# SPDX-License-Identifier: Apache-2.0
"""Sums of quantized tensors far apart: simulated as the DPU adds them."""

import itertools

import numpy as np
import pytest

from opendpu.ir import FloatGraph, Quantization, QuantizedGraph
from opendpu.ops.cut import cut, cut_terms
from opendpu.ops.session import Session
from opendpu.quantize.corrections.simulate import Simulation
from opendpu.quantize.placement.insert import fix_name, insert, with_plain_constants
from opendpu_arch import numerics

SHAPE = (1, 4, 4, 8)


def summed(points, out, *, constant=(), relu=False, rounded=True):
    """Return the sum of terms, the ones in ``constant`` one number a channel."""
    graph, rng = FloatGraph("sum"), np.random.default_rng(len(points))
    for number, point in enumerate(points):
        if number in constant:
            graph.add_const(f"t{number}", np.ldexp(rng.integers(-99, 99, SHAPE[-1]), -point))
        else:
            graph.add(f"t{number}", "data", SHAPE)
    names = [f"t{number}" for number in range(len(points))]
    last = graph.add("y", "add", SHAPE, {"input": names}).name
    if relu:
        last = graph.add("r", "relu", SHAPE, {"input": [last]}).name
    graph.outputs = [last]
    given = {name: Quantization.power_of_two(p) for name, p in zip(names, points, strict=True)}
    return insert(graph, given | ({last: Quantization.power_of_two(out)} if rounded else {}))


def integers(graph: QuantizedGraph, samples: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(9)
    return {
        n.name: rng.integers(-128, 128, (samples, *SHAPE[1:])) for n in graph if n.kind == "data"
    }


def reals(graph: QuantizedGraph, samples: int) -> dict[str, np.ndarray]:
    found = integers(graph, samples).items()
    return {n: np.ldexp(v, -graph[fix_name(n)].fix_point).astype(np.float32) for n, v in found}


def of_the_dpu(graph: QuantizedGraph, samples: int, *, relu: bool) -> np.ndarray:
    """Return what ELEW gives, from the definition of its numerics."""
    bytes_of, fixes = integers(graph, samples), [graph[n] for n in graph["y"].inputs["input"]]
    terms = []
    for fix in fixes:
        source = graph[fix.inputs["input"][0]]
        if source.value is None:
            terms.append(bytes_of[source.name])
        else:
            terms.append(np.ldexp(source.value, fix.fix_point).astype(np.int64))
    points, out = [fix.fix_point for fix in fixes], graph[graph.outputs[0]].fix_point
    right = min(points) - out
    found = numerics.eltwise_add(
        terms, shift_read=[p - min(points) for p in points],
        shift_write=-right if right <= 0 else right + 16, relu=relu,
    )  # fmt: skip
    return np.ldexp(found.astype(np.float64), -out)


POINTS = [([1, 6], 3), ([4, 0, 7], 2), ([2, 2, 5], 4), ([3, 9, 9, 1], 3), ([6, 3], 5), ([2, 4], 4)]


@pytest.mark.parametrize(
    ("points", "out", "relu", "constant"),
    [(*p, relu, c) for p, relu, c in itertools.product(POINTS, (False, True), ((), (0,), (1,)))],
)
def test_a_quantized_sum_is_that_of_the_engine(points, out, relu, constant):
    graph = summed(points, out, relu=relu, constant=constant)
    wanted = of_the_dpu(graph, 3, relu=relu)
    for made in (graph, with_plain_constants(graph)):
        for first in (False, True):
            session = Session(made, batched=True, channels_first=first)
            (found,) = session.run(reals(graph, 3)).values()
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("constant", [(), (0,), (1,)])
def test_trials_of_fix_points_add_as_the_engine(constant, batched):
    """Also where only a fix point changes that another term is cut to."""
    states = []
    given = reals(summed([1, 6], 3), 2)
    simulation = None
    for points in ([3, 6], [2, 6], [3, 6], [1, 6]):
        graph = summed(points, 3, constant=constant)
        feeds = {n: given[n] if batched else given[n][:, None] for n in reals(graph, 2)}
        if simulation is None:
            needed = {n.name for n in graph if n.kind != "fix"}
            wanted = {"y": np.zeros((2, *SHAPE[1:]) if batched else (2, *SHAPE), np.float32)}
            simulation = Simulation(feeds, wanted, {}, needed, 2, batched=batched)
        state = simulation.run(graph, states[-1] if states else None)
        found = state.results["y_fix"].reshape(2, *SHAPE[1:])
        (exact,) = Session(graph, batched=True).run({n: given[n] for n in feeds}).values()
        np.testing.assert_array_equal(found, exact)
        states.append(state)


def test_only_sums_that_the_dpu_computes_are_cut():
    graph = summed([1, 6], 3)
    assert cut_terms(graph, graph["y"], graph.consumer_map) == {"t1_fix": 3}
    for other in (summed([1, 3], 3), summed([1, 6], 3, rounded=False)):
        assert not cut_terms(other, other["y"], other.consumer_map)
    (found,) = Session(summed([1, 6], 3, rounded=False), batched=True).run(reals(graph, 2)).values()
    np.testing.assert_array_equal(found, sum(reals(graph, 2).values()))
    np.testing.assert_array_equal(cut(np.array([0.3, -0.3]), 2), [0.25, -0.5])
