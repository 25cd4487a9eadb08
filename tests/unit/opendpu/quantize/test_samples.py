# SPDX-License-Identifier: Apache-2.0
"""Calibration data that cannot be right is refused or remarked upon."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.ir import FloatGraph
from opendpu.quantize import quantize, quantize_with_report
from opendpu.quantize.samples import calibration_samples, suspicions
from opendpu_arch.errors import TensorError

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples


def net():
    made = Net()
    made.conv("a", "x", 4)
    return made.done("a")


def remarks(array) -> list[str]:
    return suspicions(calibration_samples(net(), {"x": array}))


def test_data_without_suspicion():
    assert remarks(samples()["x"]) == []
    assert remarks(np.random.default_rng(0).random((16, 8, 8, 4))) == []


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros((16, 8, 8, 4)), "calibration data of 'x' is zero everywhere"),
        (np.full((16, 8, 8, 4), -0.5), "calibration data of 'x' is -0.5 everywhere"),
        (
            np.full((16, 8, 8, 4), -1e-30),
            "calibration data of 'x' has magnitudes up to 1e-30, which 8 bits do not tell from "
            "zero",
        ),
        (
            np.random.default_rng(0).integers(0, 256, (16, 8, 8, 4)),
            "calibration data of 'x' is in 0..255: is that what the float model takes, or 0..1, or "
            "mean and deviation removed?",
        ),
        (
            samples(1)["x"],
            "calibrated with 1 sample only; 100 to 1000 tell the ranges of tensors",
        ),
    ],
)
def test_suspicious_data(array, text):
    assert remarks(array) == [text]


def test_remarks_are_in_the_report():
    report = quantize_with_report(net(), samples(2)).report
    assert report.notes == [
        "calibrated with 2 samples only; 100 to 1000 tell the ranges of tensors"
    ]
    assert report.lines()[-1] == f"note: {report.notes[0]}"
    assert "2 in all" in report.lines()[0]


def test_magnitudes_that_no_fix_point_has():
    given = samples()
    given["x"][3, 2, 1, 0] = 1e30
    with pytest.raises(TensorError, match=r"data of 'x' holds 1e\+30, but 8 bits need magnitudes"):
        quantize(net(), given)


def test_float_results_that_are_not_finite():
    made = net()
    made["a_w"].value = np.full_like(made["a_w"].value, 3e38)
    with pytest.raises(TensorError, match="op 'a' of the float network gives values that are not"):
        quantize(made, samples())


def test_fixed_batches_take_several_samples_at_a_time():
    made = FloatGraph("three")
    made.add("x", "data", (3, 2))
    made.add("y", "relu", (3, 2), {"input": ["x"]})
    made.outputs = ["y"]
    found = calibration_samples(made, {"x": np.arange(14.0).reshape(7, 2)})
    assert found.count == 2
    assert found.single(1)["x"].tolist() == [[6, 7], [8, 9], [10, 11]]
    assert quantize(made, {"x": np.arange(14.0).reshape(7, 2)}).outputs == ["y_fix"]
    with pytest.raises(TensorError, match="holds 2 samples, but the model takes 3 at a time"):
        calibration_samples(made, {"x": np.ones((2, 2))})


def test_a_wrong_shape_is_told_as_the_file_has_it():
    made = FloatGraph("picture")
    made.add("x", "data", (1, 8, 6, 3))
    made.attrs["onnx_order"] = {"x": [0, 2, 3, 1]}
    made.outputs = ["x"]
    with pytest.raises(TensorError) as error:
        calibration_samples(made, {"x": np.ones((5, 3, 4, 6))})
    wanted = "input 'x' has shape [5, 3, 4, 6], but must be [N, 3, 8, 6] or [N, 8, 6, 3]"
    assert str(error.value) == wanted


def test_whole_inputs_as_samples():
    made = FloatGraph("vector")
    made.add("x", "data", (5,))
    made.add("y", "relu", (5,), {"input": ["x"]})
    made.outputs = ["y"]
    found = calibration_samples(made, {"x": np.ones((4, 5))})
    assert found.count == 4
    assert found.single(2)["x"].shape == (5,)
    assert quantize(made, {"x": np.ones((4, 5))}).outputs == ["y_fix"]
