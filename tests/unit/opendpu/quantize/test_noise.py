# SPDX-License-Identifier: Apache-2.0
"""Signal to noise of several graphs at once, and results that come out of bias correction."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.ops.session import Session
from opendpu.quantize import QuantizeConfig, TensorSpec, quantize, quantize_with_report
from opendpu.quantize.assign import deployable_scales
from opendpu.quantize.calibrate import observe
from opendpu.quantize.corrections import bias, trials
from opendpu.quantize.corrections.bias import add_biases, correct_biases
from opendpu.quantize.noise import Energies, sqnr, sqnrs
from opendpu.quantize.placement.insert import fix_name, insert, with_plain_constants
from opendpu.quantize.placement.place import place
from opendpu.quantize.progress import Progress
from opendpu.quantize.samples import calibration_samples

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples


def network():
    net = Net()
    net.conv("a", "x", 8)
    net.put("ar", "relu", ["a"])
    net.conv("c", "ar", 4)
    return net.done("c")


def test_several_graphs_at_once_are_each_by_itself():
    graph = network()
    found = quantize_with_report(graph, samples(16))
    given = calibration_samples(graph, samples(16))
    plain = with_plain_constants(found.graph)
    outputs = [("c", found.graph.outputs[0])]
    inner = [("ar", fix_name("ar")), ("c", fix_name("c"))]
    both = sqnrs([(found.reference, inner), (graph, outputs)], plain, given, batch=3)
    for pairs, source, ratios in ((inner, found.reference, both[0]), (outputs, graph, both[1])):
        alone = sqnr(source, plain, pairs, given, batch=3)
        assert ratios.keys() == alone.keys()
        for name, ratio in ratios.items():
            assert ratio == pytest.approx(alone[name], rel=1e-6)


def test_tiny_values_have_signal_and_noise():
    made = Energies([("a", "b")])
    made.add({"a": np.full((1, 4), 1e-25, np.float32)}, {"b": np.zeros((1, 4), np.float32)})
    assert made.ratios() == {"a": 0.0}


def test_the_same_infinity_is_no_noise():
    """As in masks of attention: what is left out is no number that could be off."""
    wanted = np.array([1.0, -np.inf, 2.0, np.inf], np.float32)
    energies = Energies([("x", "y")])
    energies.add({"x": wanted}, {"y": wanted + np.float32(0.1)})
    assert energies.ratios() == {"x": pytest.approx(10 * np.log10(5 / 0.02), rel=1e-4)}
    for other in (-np.inf, 3.0):
        energies = Energies([("x", "y")])
        energies.add({"x": wanted}, {"y": np.array([1.0, -np.inf, 2.0, other], np.float32)})
        assert energies.ratios() == {"x": -np.inf}


def test_shapes_that_differ_are_left_out():
    energies = Energies([("a", "b"), ("c", "d")])
    one, two = np.ones((2, 3), np.float32), np.full((2, 3), 1.1, np.float32)
    energies.add({"a": one, "c": one}, {"b": two, "d": one[:1]})
    assert energies.ratios() == {"a": pytest.approx(20, abs=1e-4)}
    assert Energies([("a", "b")]).ratios() == {"a": None}


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 3, 1, 2), (1, 0, 3, 2)])
def test_noise_of_large_maps_does_not_depend_on_their_order_of_axes(order):
    noise = np.random.default_rng(0)
    wanted, made = (noise.standard_normal((2, 33, 34, 35)).astype(np.float32) for _ in range(2))
    energies = Energies([("a", "b")])
    energies.add({"a": wanted}, {"b": np.ascontiguousarray(made.transpose(order)).transpose(
        np.argsort(order))})  # fmt: skip
    signal, left = (np.square(one, dtype=np.float64).sum() for one in (wanted, made - wanted))
    assert energies.ratios()["a"] == pytest.approx(10 * np.log10(signal / left), abs=1e-4)


@pytest.mark.parametrize("corrected", [True, False])
def test_correction_gives_what_the_corrected_graph_does(corrected):
    """Parts of the samples come back in order, as if the graph were computed once more."""
    graph, config = network(), QuantizeConfig()
    given = calibration_samples(graph, samples(5))
    placement = place(graph, config)
    groups, specs = placement.groups, placement.specs
    add_biases(graph, groups.results)
    silent = Progress(lambda text: None)
    observed = observe(
        graph, groups, specs.results, given, layers=list(groups.results), mean_samples=5, batch=2,
        progress=silent, ends=["c"],
    )  # fmt: skip
    (wanted,) = Session(graph, keep=["c"], batched=True).run(given.stacked(0, 5)).values()
    np.testing.assert_allclose(np.concatenate(observed.results["c"]), wanted, rtol=1e-5, atol=1e-5)
    made = insert(graph, deployable_scales(graph, groups, specs, observed))
    ends = [*made.outputs, fix_name("ar")]
    means = observed.means if corrected else {}
    parts = correct_biases(made, means, given, 5, silent, ends=ends)
    again = Session(with_plain_constants(made), keep=ends, batched=True).run(given.stacked(0, 5))
    for name in ends:
        found = np.concatenate([part[name] for part in parts])
        np.testing.assert_allclose(found, again[name], atol=1e-6)
    assert correct_biases(made, {}, given, 5, silent) == []


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_biases_of_many_layers_at_once_are_those_of_one_after_the_other(bits, monkeypatch):
    net = Net()
    net.conv("a", "x", 8)
    net.put("ar", "relu6", ["a"])
    net.conv("b", "ar", 8)
    net.put("s", "add", ["b", "ar"])
    net.conv("c", "s", 4)
    graph, given = net.done("c"), samples(7)
    config = QuantizeConfig(cross_layer=False, bias=TensorSpec(bits=bits))
    made = quantize(graph, given, config)
    monkeypatch.setattr(bias, "ROOM_BYTES", 0)
    apart = quantize(graph, given, config)
    assert list(made.nodes) == list(apart.nodes)
    for node in made:
        assert node.type == apart[node.name].type
        np.testing.assert_array_equal(node.value, apart[node.name].value, err_msg=node.name)


def test_refinement_takes_what_calibration_has_seen(monkeypatch):
    graph, given = network(), samples(24)
    made = quantize(graph, given)
    monkeypatch.setattr(trials, "KEPT_BYTES", 0)
    again = quantize(graph, given)
    for node in made:
        assert node.type == again[node.name].type
        np.testing.assert_array_equal(node.value, again[node.name].value, err_msg=node.name)
