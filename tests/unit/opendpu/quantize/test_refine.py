# SPDX-License-Identifier: Apache-2.0
"""Refinement takes what all samples gain by, not what a few of them like."""

import numpy as np
import pytest

from opendpu.ir import FloatGraph
from opendpu.quantize.corrections.simulate import Simulation, State
from opendpu.quantize.placement.insert import fix_name


def state_of(errors: tuple[float, float]) -> State:
    made = State(FloatGraph("none"))  # type: ignore[arg-type]
    made.errors = np.array(errors)
    return made


@pytest.mark.parametrize(
    ("errors", "better"),
    [
        ((0.4, 0.4), True),
        ((0.0, 0.6), False),  # far less in all, but more in one half
        ((0.499, 0.499), False),  # less than a hundredth
        ((0.5, 0.3), False),  # one half gains nothing
    ],
)
def test_a_change_has_to_gain_in_both_halves(errors: tuple[float, float], better: bool) -> None:
    assert state_of(errors).is_better(state_of((0.5, 0.5)), 0.99) is better


def test_one_sample_is_judged_alone() -> None:
    assert state_of((0.4, 0.0)).is_better(state_of((0.5, 0.0)), 0.99)


def test_errors_are_those_of_even_and_odd_samples() -> None:
    graph = FloatGraph("passed on")
    graph.add("x", "data", (1, 2))
    graph.add(fix_name("x"), "data", (1, 2))
    wanted = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0]], np.float32)
    made = np.array([[3.0, 4.0], [1.0, 2.0], [0.0, 1.0]], np.float32)
    simulation = Simulation({fix_name("x"): made}, {"x": wanted}, {}, {fix_name("x")})
    found = simulation.run(graph, None)  # type: ignore[arg-type]
    assert found.errors == pytest.approx([1 / 25, 5 / 25])
