# SPDX-License-Identifier: Apache-2.0
"""The report: what each tensor and layer lost, against numpy, and what it warns of."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from opendpu.frontend import load_onnx
from opendpu.ops.session import Session
from opendpu.quantize import QuantizeConfig, TensorSpec, measure, quantize_with_report
from opendpu.quantize.progress import Progress

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples


def net():
    made = Net()
    made.conv("a", "x", 8)
    made.put("ar", "relu", ["a"])
    made.conv("b", "ar", 8)
    made.put("s", "add", ["ar", "b"])
    made.conv("c", "s", 4)
    return made.done("c")


def decibels(wanted, found):
    return 10 * np.log10((wanted**2).sum() / ((found - wanted) ** 2).sum())


def test_tensors_and_layers():
    data = samples(16)
    options = {"cross_layer": False, "weight_correction": False}
    found = quantize_with_report(net(), data, **options)
    report, graph = found.report, found.graph
    roles = {tensor.name: tensor.role for tensor in report.tensors}
    assert roles == {
        "x": "input", "ar": "activation", "b": "activation", "s": "activation", "c": "activation",
        "a_w": "weights", "a_b": "bias", "b_w": "weights", "b_b": "bias", "c_w": "weights",
        "c_b": "bias",
    }  # fmt: skip
    assert [layer.name for layer in report.layers] == ["ar", "b", "s", "c"]
    keep = ["ar", "b", "s", "c"]
    some = {"x": data["x"][:8]}
    wanted = Session(net(), keep=keep, batched=True).run(some)
    made = Session(graph, keep=[f"{n}_fix" for n in keep], batched=True).run(some)
    for layer in report.layers:
        ratio = decibels(wanted[layer.name], made[f"{layer.name}_fix"])
        assert layer.output_sqnr == pytest.approx(ratio, abs=0.01)
    assert report.outputs_sqnr["c"] == pytest.approx(report.layers[-1].output_sqnr, abs=1e-3)
    assert report.measured_samples == 8
    by_name = {tensor.name: tensor for tensor in report.tensors}
    weights = by_name["a_w"]
    assert weights.layer == "a"
    assert weights.fix_point == graph["a_w_fix"].fix_point
    ratio = decibels(net()["a_w"].value, graph["a_w"].value)
    assert weights.sqnr == pytest.approx(ratio, abs=0.01)
    assert report.layers[0].weights_sqnr == weights.sqnr
    seen = by_name["x"]
    assert (seen.minimum, seen.maximum) == (data["x"].min(), data["x"].max())
    assert sum(seen.histogram.counts) == data["x"].size
    assert seen.histogram.low <= seen.minimum + 1e-6 <= seen.maximum <= seen.histogram.high + 1e-6
    scaled = data["x"] * 2.0**seen.fix_point
    assert seen.saturation == pytest.approx(((scaled < -128.5) | (scaled >= 127.5)).mean())


def test_it_fits_into_json():
    report = quantize_with_report(net(), samples(12)).report
    text = json.dumps(report.as_json(), allow_nan=False)
    assert "histogram" not in text
    assert json.loads(text)["layers"][0]["name"] == "ar"


def test_outputs_with_much_noise_name_layers():
    config = QuantizeConfig(weights=TensorSpec(bits=2))
    notes = quantize_with_report(net(), samples(16), config, weight_correction=False).report.notes
    (note,) = (n for n in notes if "signal to quantization noise" in n)
    assert note.startswith("output 'c' has ")
    assert "most is lost in 'ar'" in note


def test_results_whose_shape_depends_on_the_data_are_not_compared():
    made = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]>
        net (float[1, 3, 8, 8] x) => (float[1, 4, 6, 6] c, float[n] y) {
            c = Conv(x, w)
            flat = Reshape(c, all)
            positive = Greater(flat, zero)
            y = Compress(flat, positive)
        }""")
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    for name, value in (("w", weights), ("all", np.array([-1])), ("zero", np.float32(0))):
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    data = {"x": np.random.default_rng(1).standard_normal((8, 3, 8, 8)).astype(np.float32)}
    report = quantize_with_report(load_onnx(made), data).report
    assert list(report.outputs_sqnr) == ["c"]
    assert report.outputs_sqnr["c"] > 25
    text = "result 'y' is not compared: its shape depends on the data"
    assert any(text in line for line in report.lines())


def test_tensors_that_saturate_are_noted():
    given = samples(64)
    given["x"][:, ::2] *= 0.05  # many small values make a fine scale worth it
    config = QuantizeConfig(activation=TensorSpec(method="percentile", percentile=80))
    notes = quantize_with_report(net(), given, config, refinement=False).report.notes
    assert any("saturate for more than 1% of their values, most of all" in note for note in notes)


@pytest.mark.parametrize("largest", [1e4, 1e8])  # the bins of a histogram that holds 1e8 are wide
def test_values_far_out_are_noted(largest):
    given = samples(16)
    given["x"][3, 2, 1, 0] = largest
    notes = quantize_with_report(net(), given, refinement=False).report.notes
    (note,) = (n for n in notes if "is a sample broken?" in n)
    text = f"calibration data of 'x' reaches {largest:g}, but 99.9 % of it stays within"
    assert note.startswith(text)


def test_single_values_among_zeros_are_not_far_out():
    given = {"x": np.zeros_like(samples(16)["x"])}
    given["x"][:, 2, 1, 0] = 1.0
    notes = quantize_with_report(net(), given, refinement=False).report.notes
    assert not any("is a sample broken?" in n for n in notes)


def test_what_is_not_deployable_is_the_first_line():
    config = QuantizeConfig(weights=TensorSpec(bits=16))
    report = quantize_with_report(net(), samples(12), config).report
    assert report.lines()[0] == "deployable: no, because weights has 16 bits, but the DPU has 8"


def test_progress_names_step_share_and_layer():
    told = []
    quantize_with_report(net(), samples(12), show=told.append)
    assert "calibrating: 100%, 12 of 12" in told
    assert "correcting biases: 0%, 0 of 3, a" in told
    assert any(text.startswith("refining: ") for text in told)


def test_time_that_is_left(monkeypatch):
    now = iter([0.0, 10.0, 100.0, 400.0])
    monkeypatch.setattr("opendpu.quantize.progress.time.monotonic", lambda: next(now))
    told = []
    progress = Progress(told.append)
    for done in (0, 1, 2, 4):
        progress.step("correcting", done, 4, "conv")
    assert told == [
        "correcting: 0%, 0 of 4, conv",
        "correcting: 25%, 1 of 4, conv, 30 s left",
        "correcting: 50%, 2 of 4, conv, 2 min left",
        "correcting: 100%, 4 of 4, conv",
    ]


def test_a_run_can_be_interrupted():
    """What ``show`` raises passes, and the float network stays as it was."""
    graph = net()
    before = graph["a_w"].value.copy()

    def show(text):
        if text.startswith("correcting biases"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantize_with_report(graph, samples(12), show=show)
    np.testing.assert_array_equal(graph["a_w"].value, before)
    assert quantize_with_report(graph, samples(12)).graph.outputs == ["c_fix"]


def test_layers_that_cannot_be_compared_are_left_out(monkeypatch):
    made = Net()
    made.conv("c2", made.conv("c1", "x", 4, 1), 4, 1)
    exact = measure.sqnrs

    def without(*args, **kwargs):
        layers, outputs = exact(*args, **kwargs)
        return [{name: ratio for name, ratio in layers.items() if name != "c1"}, outputs]

    monkeypatch.setattr(measure, "sqnrs", without)
    given = {"x": np.random.default_rng(1).standard_normal((4, 8, 8, 4)).astype(np.float32)}
    report = quantize_with_report(made.done("c2"), given).report
    assert [layer.name for layer in report.layers] == ["c2"]
