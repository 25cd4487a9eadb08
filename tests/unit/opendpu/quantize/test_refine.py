# SPDX-License-Identifier: Apache-2.0
"""Refinement takes what samples of the whole set gain by, not what a few of them like."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.ir import FloatGraph
from opendpu.quantize import corrected, quantize, quantize_with_report
from opendpu.quantize.corrections.simulate import Simulation, State
from opendpu.quantize.corrections.trials import level_ends, screened, spread, usable_samples
from opendpu.quantize.executor import evaluate
from opendpu.quantize.placement.insert import fix_name
from opendpu.quantize.samples import Samples, calibration_samples
from opendpu.quantize.spool import spooled

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples


def state_of(errors: tuple[float, ...]) -> State:
    made = State(FloatGraph("none"))  # type: ignore[arg-type]
    made.errors = np.array(errors)
    return made


@pytest.mark.parametrize(
    ("errors", "better"),
    [
        ((0.4, 0.4, 0.4, 0.4), True),
        ((0.3, 0.4, 0.45, 0.5), True),
        ((0.0, 0.6, 0.6, 0.6), False),  # less in all, but by one sample
        ((0.499, 0.499, 0.499, 0.499), False),  # less than a hundredth
        ((0.6, 0.5, 0.5, 0.5), False),
    ],
)
def test_a_change_has_to_gain_more_than_chance(errors: tuple[float, ...], better: bool) -> None:
    assert state_of(errors).is_better(state_of((0.5, 0.5, 0.5, 0.5)), 0.99) is better


def test_one_sample_is_judged_alone() -> None:
    assert state_of((0.4,)).is_better(state_of((0.5,)), 0.99)
    assert not state_of((0.5,)).is_better(state_of((0.5,)), 0.99)


def test_errors_are_those_of_each_sample() -> None:
    graph = FloatGraph("passed on")
    graph.add("x", "data", (1, 2))
    graph.add(fix_name("x"), "data", (1, 2))
    wanted = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0]], np.float32)
    made = np.array([[3.0, 4.0], [1.0, 2.0], [0.0, 1.0]], np.float32)
    given = ({fix_name("x"): made}, {"x": wanted}, {}, {fix_name("x")}, 3)
    found = Simulation(*given).run(graph, None)  # type: ignore[arg-type]
    assert found.errors == pytest.approx([0, 5 / 25, 1 / 25])
    found = Simulation(*given, differences={"x"}).run(graph, None)  # type: ignore[arg-type]
    assert found.errors == pytest.approx([0, 0.5 / 0.5, 0.5 / 0.5])  # differences of channels only


def test_softmax_reads_only_differences_between_channels() -> None:
    def net(*tail: tuple[str, str, tuple[int, ...], dict[str, object]], last: str) -> FloatGraph:
        made = Net()
        made.conv("a", "x", 4)
        for name, kind, shape, attrs in tail:
            source = {"s": "r" if len(tail) > 1 else "a"}.get(name, "a")
            made.put(name, kind, [source], attrs, shape)
        return made.done(last)

    shape = (1, 8, 8, 4)
    softmax = ("s", "softmax", shape, {"axis": 3})
    assert level_ends(net(softmax, last="s"), ["a"]) == ["a"]
    assert level_ends(net(("s", "softmax", shape, {"axis": 1}), last="s"), ["a"]) == []
    flat = ("r", "reshape", (1, 64, 4), {"shape": [1, 64, 4]})
    assert level_ends(net(flat, ("s", "softmax", (1, 64, 4), {"axis": 2}), last="s"), ["a"]) == [
        "a"
    ]
    long = ("r", "reshape", (1, 256), {"shape": [1, 256]})
    assert level_ends(net(long, ("s", "softmax", (1, 256), {"axis": 1}), last="s"), ["a"]) == []
    read = net(softmax, last="s")
    read.outputs.append("a")
    assert level_ends(read, ["a"]) == []


def test_samples_are_spread_over_the_whole_set() -> None:
    assert spread(list(range(100)), 4) == [12, 37, 62, 87]
    assert spread(list(range(5)), 5) == [0, 1, 2, 3, 4]
    graph = Net().done("x")
    few, many = (calibration_samples(graph, samples(count)) for count in (15, 20))
    assert usable_samples(few) == list(range(15))
    assert usable_samples(many) == [n for n in range(20) if n % 4 != 3]
    assert usable_samples(calibration_samples(graph, samples(48)))[-1] == 38  # 8 are the report's
    assert [screened(count) for count in (1, 7, 8, 12, 16, 128)] == [0, 0, 2, 3, 4, 4]


def test_chosen_samples_are_those_of_memory_and_of_files() -> None:
    graph, data = Net().done("x"), samples(9)
    batches = ({"x": data["x"][start : start + 2]} for start in range(0, 9, 2))
    for given in (data, spooled(batches)):
        found = calibration_samples(graph, given).chosen([1, 4, 8])
        assert found.count == 3
        assert (found.stacked(0, 3)["x"] == data["x"][[1, 4, 8]].astype(np.float32)).all()


def test_refinement_looks_at_no_more_samples_where_there_are_more(monkeypatch) -> None:
    """Memory does not grow with their number, and the last ones count as much as the first."""
    taken: list[list[int]] = []
    whole = Samples.chosen

    def chosen(self: Samples, numbers: list[int]) -> Samples:
        taken.append(list(numbers))
        return whole(self, numbers)

    monkeypatch.setattr(Samples, "chosen", chosen)
    net = Net()
    net.conv("a", "x", 4)
    quantize(net.done("a"), samples(400))
    assert len(taken[0]) == 128
    assert taken[0][0] < 4
    assert taken[0][-1] > 385


def test_refined_scales_stay_only_if_held_out_samples_come_nearer(monkeypatch) -> None:
    """What refinement gains may be less than what it takes from corrections behind it."""
    net, data = Net(), samples(16)
    net.conv("a", "x", 4)
    net.put("r", "relu", ["a"])
    net.conv("b", "r", 4)
    graph = net.done("b")
    before = quantize_with_report(graph, data, refinement=False)

    def worse(self: State, other: State, part: float) -> bool:
        return True

    monkeypatch.setattr(State, "is_better", worse)
    monkeypatch.setattr(State, "is_lower", lambda self, other: True)
    kept = quantize_with_report(graph, data)
    note = "refined scales were not kept: samples held out come no nearer with them"
    assert note in kept.report.notes
    assert [n.type for n in kept.graph] == [n.type for n in before.graph]
    monkeypatch.setattr(corrected, "WORK", 0)  # too much work to look
    taken = quantize_with_report(graph, data)
    assert note not in taken.report.notes
    assert [n.type for n in taken.graph] != [n.type for n in before.graph]


def test_results_that_no_sample_reaches_are_those_of_each():
    """Such as the places at which a map is sampled: refinement and its judges see them, too."""
    net = Net()
    net.conv("y", "x", 4)
    net.add_const("given", net.random.standard_normal((1, 8, 8, 4)))
    net.put("places", "relu", ["given"])
    graph = net.done("y", "places")
    data = samples(24)
    parts = list(evaluate(graph, ["y", "places"], calibration_samples(graph, data), batch=5))
    assert [count for count, _ in parts] == [5, 5, 5, 5, 4]
    for count, results in parts:
        exact = np.maximum(graph["given"].value, 0)
        np.testing.assert_array_equal(results["places"], np.repeat(exact, count, axis=0))
    assert fix_name("places") in {node.name for node in quantize(graph, data)}


def test_a_result_of_constants_alone_is_none_that_refinement_judges():
    """Its first axis is none of samples: it could not be compared, sample by sample."""
    net = Net()
    net.add_const("given", net.random.standard_normal(8))
    net.put("y", "relu", ["given"])
    graph = net.done("y")
    assert fix_name("y") in {node.name for node in quantize(graph, samples(8))}
