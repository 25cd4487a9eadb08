# SPDX-License-Identifier: Apache-2.0
"""Which samples the report measures on: others than those fitted to, where there are enough."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.evaluation.page import page
from opendpu.ops.session import Session
from opendpu.quantize import FinetuneConfig, QuantizeConfig, quantize_with_report
from opendpu.quantize.fitted import fitted_samples
from opendpu.quantize.samples import calibration_samples

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples

NOTHING = {"cross_layer": False, "bias_correction": False, "weight_correction": False,
           "refinement": False}  # fmt: skip


def network():
    net = Net()
    net.conv("a", "x", 8)
    net.put("ar", "relu", ["a"])
    net.conv("c", "ar", 4)
    return net.done("c")


def measured(made, some):
    (wanted,) = Session(network(), batched=True).run({"x": some}).values()
    (found,) = Session(made, keep=made.outputs, batched=True).run({"x": some}).values()
    return 10 * np.log10((wanted**2).sum() / ((found - wanted) ** 2).sum())


@pytest.mark.parametrize(
    ("count", "options", "apart"),
    [
        (40, {"refinement": True}, True),
        (39, {"refinement": True}, False),
        (16, {"refinement": True}, False),
        (136, {"bias_correction": True}, True),
        (135, {"bias_correction": True}, False),
        (16, {}, None),
    ],
)
def test_the_report_measures_on_samples_that_nothing_was_fitted_to(count, options, apart):
    data = samples(count)
    made = quantize_with_report(network(), data, **NOTHING | options)
    report = made.report
    assert report.measured_samples == 8
    assert report.measured_apart is (apart is not False)
    some = data["x"][-8:] if apart else data["x"][:8]
    assert report.outputs_sqnr["c"] == pytest.approx(measured(made.graph, some), abs=0.01)
    assert report.layers[-1].output_sqnr == pytest.approx(report.outputs_sqnr["c"], abs=0.01)
    assert any("was fitted to" in line for line in report.lines()) is (
        apart is False and count < 32
    )
    assert ("were fitted to" in page("net", report)) is (apart is False)


def test_how_many_samples_a_network_is_fitted_to():
    graph, given = network(), calibration_samples(network(), samples(200))
    config = QuantizeConfig(**NOTHING)
    assert fitted_samples(graph, given, config) == 0
    for options, count in (
        ({"refinement": True}, 192),
        ({"refinement": True, "bias_correction": True}, 192),
        ({"bias_correction": True}, 128),
        ({"finetune": FinetuneConfig()}, 200),
        ({"finetune": FinetuneConfig(samples=50)}, 50),
        ({"finetune": FinetuneConfig(samples=500)}, 200),
    ):
        assert fitted_samples(graph, given, dataclasses.replace(config, **options)) == count
