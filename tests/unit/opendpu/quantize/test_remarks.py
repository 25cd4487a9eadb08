# SPDX-License-Identifier: Apache-2.0
"""What the report notes of outputs with much noise: what vanished, saturates or is lost."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.quantize import quantize_with_report

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples


def net(scale=1.0):
    """Return two layers, weights and biases of the first times ``scale``, of the second too."""
    made = Net()
    made.conv("a", "x", 8)
    made.put("ar", "relu", ["a"])
    made.conv("b", "ar", 4)
    graph = made.done("b")
    for name in ("a_w", "a_b", "b_w", "b_b"):
        graph[name].value = graph[name].value * scale
    return graph


def notes(graph, data):
    return quantize_with_report(graph, data).report.notes


def test_tensors_of_which_nothing_is_left():
    (found,) = (n for n in notes(net(1e-20), samples(16)) if "zero everywhere once" in n)
    assert "2**-48" in found
    assert "'ar'" in found or "'a_w'" in found


def test_values_beyond_every_scale_are_counted():
    report = quantize_with_report(net(1e9), samples(16)).report
    output = next(tensor for tensor in report.tensors if tensor.name == "b")
    assert output.maximum > 127 * 2.0**48
    assert output.saturation > 0.5
    assert output.sqnr < 10
    assert np.isfinite(report.outputs_sqnr["b"])
    assert any("saturate" in note and "'b'" in note for note in report.notes)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_layers_of_all_sizes_have_scales(scale):
    report = quantize_with_report(net(scale), samples(16)).report
    assert report.outputs_sqnr["b"] > 25


def test_channels_of_an_input_beside_far_larger_ones():
    data = samples(16)
    graph = net()
    channels = data["x"].shape[-1]
    factor = np.ones(channels, np.float32)
    factor[0] = 1000
    data = {"x": data["x"] * factor}
    graph["a_w"].value = graph["a_w"].value.copy()
    graph["a_w"].value[..., 0] /= 1e6
    found = [n for n in notes(graph, data) if "are lost beside" in n]
    assert len(found) == 1
    assert f"{channels - 1} of {channels} channels of input 'x'" in found[0]


@pytest.mark.parametrize("factor", [1, 0.01])
def test_nothing_is_said_of_what_is_well(factor):
    data = {"x": samples(16)["x"] * np.float32(factor)}
    assert not [n for n in notes(net(), data) if "lost beside" in n or "zero everywhere once" in n]
