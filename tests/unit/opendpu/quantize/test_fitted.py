# SPDX-License-Identifier: Apache-2.0
"""Which samples the report measures on: others than those fitted to, where there are enough."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.evaluation.page import page
from opendpu.ops.session import Session
from opendpu.quantize import TensorSpec, quantize_with_report

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
    ("count", "options", "kept"),
    [
        (40, {"refinement": True}, 8),
        (136, {"bias_correction": True}, 8),
        (135, {"bias_correction": True}, 0),
        (39, {"refinement": True, "bias_correction": True}, 8),
        (16, {"bias_correction": True}, 5),
        (4, {"weight_correction": True}, 1),
        (2, {"bias_correction": True}, 0),
        (16, {}, None),
    ],
)
def test_the_report_measures_on_samples_that_nothing_was_fitted_to(count, options, kept):
    data = samples(count)
    made = quantize_with_report(network(), data, **NOTHING | options)
    report = made.report
    assert report.measured_samples == (kept or min(count, 8))
    assert report.measured_apart is (kept != 0)
    some = data["x"][-kept:] if kept else data["x"][:8]
    assert report.outputs_sqnr["c"] == pytest.approx(measured(made.graph, some), abs=0.01)
    assert report.layers[-1].output_sqnr == pytest.approx(report.outputs_sqnr["c"], abs=0.01)
    assert any("was fitted to" in line for line in report.lines()) is (kept == 0 and count < 32)
    assert ("were fitted to" in page("net", report)) is (kept == 0)


@pytest.mark.parametrize("options", [{"refinement": True}, {"bias_correction": True},
                                     {"weight_correction": True}])  # fmt: skip
def test_what_is_kept_for_the_report_changes_no_scale_weight_or_bias(options):
    """The largest values stay where they are: ranges are of all samples."""
    data, other = samples(16), samples(16)
    other["x"][-4:] = other["x"][-4:] * 0.5
    data["x"][0] *= 4
    other["x"][0] *= 4
    first, second = (
        quantize_with_report(
            network(), some, method="max", **NOTHING | options
        ).graph for some in (data, other)
    )  # fmt: skip
    for node in first:
        assert node.type == second[node.name].type
        if node.value is not None:
            np.testing.assert_array_equal(node.value, second[node.name].value)


def test_a_note_says_where_few_samples_were_fitted_to_by_far():
    """Biases make up for what samples lose that are all the same; others are none of these."""
    net = Net()
    net.conv("a", "x", 8)
    net.put("r", "relu", ["a"])
    net.conv("c", "r", 4)
    data = samples(8)
    data["x"][:6] = data["x"][0].mean(axis=(0, 1))
    report = quantize_with_report(net.done("c"), data, weights=TensorSpec(bits=2)).report
    assert report.measured_samples == 2
    assert report.outputs_sqnr["c"] < 15
    (found,) = [note for note in report.notes if "8 samples are too few" in note]
    assert found.startswith("output 'c' has ")
