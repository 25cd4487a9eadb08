# SPDX-License-Identifier: Apache-2.0
"""Fix points that the DPU's shift fields can hold, and what they cost."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.ops.session import Session
from opendpu.quantize import quantize, quantize_with_report
from opendpu.quantize.scales.grid import best_fix_point

sys.path.append(str(Path(__file__).parents[1]))
from float_nets import Net, samples


@pytest.mark.parametrize("offset", [-11.5, 100.0])
def test_a_large_bias_beside_small_products_does_not_saturate(offset):
    """The scores of a detector that was not trained: the bias is all that counts."""
    net = Net()
    net.conv("a", "x", 8)
    for name in ("a_w", "a_b"):
        net[name].value *= 1e-4
    net.put("r", "leaky-relu", ["a"], {"alpha": 26 / 256})
    net.conv("b", "r", 8)
    net["b_w"].value *= 0.05
    net["b_b"].value[:] = offset
    graph = net.done("b")
    made = quantize(graph, samples(32))
    bias, weights = made["b_b_fix"], made["b_w_fix"]
    assert weights.fix_point + made["r_fix"].fix_point + 1 - bias.fix_point == 20
    (wanted,) = Session(graph, batched=True).run(samples(4, seed=7)).values()
    (found,) = Session(made, batched=True).run(samples(4, seed=7)).values()
    assert np.abs(found - wanted).max() <= 0.5 * 2.0 ** -made["b_fix"].fix_point


def test_weights_stay_fine_where_the_bias_is_not_large():
    net = Net()
    net.conv("a", "x", 8)
    graph = net.done("a")
    made = quantize(graph, samples(32), cross_layer=False, weight_correction=False)
    assert made["a_w_fix"].fix_point == best_fix_point(graph["a_w"].value)


@pytest.mark.parametrize("scale", [1.0, 0.03, 1e-3])
def test_layers_without_bias_have_weights_as_fine_as_others(scale):
    """A bias of zeros, which they get to be corrected, demands nothing of the shifts."""
    made = Net()
    for name, source in (("a", "x"), ("b", "ar"), ("c", "br")):
        made.conv(name, source, 8)
        del made[name].inputs["bias"]
        made[f"{name}_w"].value = made[f"{name}_w"].value * np.float32(scale)
        made.put(f"{name}r", "relu", [name])
    graph = made.done("cr")
    found = quantize_with_report(graph, samples(16)).report
    assert found.outputs_sqnr["cr"] > 25


@pytest.mark.parametrize("kind", ["add", "mul"])
def test_results_that_are_next_to_nothing_have_scales_near_those_of_inputs(kind):
    """As differences of the scores of an attention that was not trained."""
    net = Net()
    for name in ("a", "b"):
        net.conv(name, "x", 8)
    net["b_w"].value = -net["a_w"].value * np.float32(1 + 2.0**-22)
    net["b_b"].value = -net["a_b"].value
    if kind == "mul":  # both are above zero within a thousandth only
        net["b_b"].value = net["b_b"].value + np.float32(1e-3)
        net.put("b2", "relu", ["b"])
        net.put("a2", "relu", ["a"])
    ends = {"add": ["a", "b"], "mul": ["a2", "b2"]}[kind]
    net.put("y", kind, ends)
    net.conv("z", "y", 8)
    made = quantize(net.done("z"), samples(16), cross_layer=False, weight_correction=False)
    points = [made[f"{name}_fix"].fix_point for name in ends]
    least = min(points) if kind == "add" else sum(points)
    assert made["y_fix"].fix_point <= least + 15
