# SPDX-License-Identifier: Apache-2.0
"""The page says what the report says, and nothing in a model's names can break it."""

import dataclasses
import re
import xml.etree.ElementTree

import pytest

from opendpu.drawing.canvas import Box
from opendpu.evaluation import LayerSensitivity, advice, page
from opendpu.evaluation.advice import short, steepest
from opendpu.evaluation.charts import HEIGHT, WIDTH, histogram
from opendpu.quantize.report import LayerReport, Report, TensorHistogram, TensorReport

TENSOR = TensorReport(
    name="conv <1>", role="activation", layer="conv <1>", number_format="int", bits=8,
    scale=(0.25,), minimum=-40.0, maximum=50.0, saturation=0.03, sqnr=21.5,
    histogram=TensorHistogram(-40.0, 50.0, (1, 0, 20, 400, 30, 2)),
)  # fmt: skip

REPORT = Report(
    samples=20,
    tensors=(
        TENSOR,
        dataclasses.replace(
            TENSOR, name="w", role="weights", layer="late", sqnr=12.0, histogram=None, saturation=0
        ),
        dataclasses.replace(TENSOR, name="half", number_format="float16", scale=(), sqnr=None),
        dataclasses.replace(TENSOR, name="many", scale=(0.1, 0.2)),
    ),
    layers=(
        LayerReport("early", "conv2d", "Conv 'a' (net.py:3)", 30.0, 34.0),
        LayerReport("middle", "conv2d", "", 30.0, 33.0),
        LayerReport("late", "conv2d", "Conv 'late'", 12.0, 11.0),
        LayerReport("last", "add", "", None, None),
    ),
    outputs_sqnr={"boxes & scores": 11.0, "other": None},
    measured_samples=8,
    floating=["softmax"],
    notes=["calibrated with 20 samples only"],
)


def text_of(document: str) -> str:
    """Return the page's words; XML is stricter than what browsers take."""
    body = document.removeprefix("<!doctype html>\n")
    body = re.sub(r"<meta ([^>]*)>", r"<meta \1/>", body)
    return " ".join(" ".join(xml.etree.ElementTree.fromstring(body).itertext()).split())


def test_everything_that_is_known_is_on_the_page():
    found = text_of(
        page("net <b>", REPORT, [LayerSensitivity("late", "conv2d", "Conv 'late'", 13.0, 4.25)])
    )
    for wanted in (
        "Quantization of net <b>", "20 samples", "runs on a DPU yes", "boxes & scores",
        "11.0 dB", "unchanged", "conv <1>", "2^-2", "-40 .. 50", "3 %", "float16", "2 scales",
        "+4.25 dB", "softmax", "calibrated with 20 samples only", "Conv 'a' (net.py:3)",
        "-22.0 dB", "2^-2",
    ):  # fmt: skip
        assert wanted in found, wanted


def test_an_empty_report_is_a_page_too():
    found = text_of(page("net", Report(obstacles=["weights has 4 scales"])))
    assert "no, because weights has 4 scales" in found
    assert "Tensors" not in found


def test_advice_names_what_is_wrong():
    found = advice(REPORT)
    assert found[0].startswith("finetune (--finetune adaquant), or find out with --sensitivity")
    assert "compare with --method nonoverflow, where no activation saturates" in found
    assert "weights are coarse, most those of late (12.0 dB)" in found[2]
    assert found[3] == "calibrate with more than 20 samples; 100 to 1000 are usual"
    for done in ({"finetuned": True}, {"obstacles": ["weights has 4 scales"]}):
        found = advice(dataclasses.replace(REPORT, **done))
        assert found[0] == "find out with --sensitivity which layers deserve more bits"
        assert not any("finetune" in text for text in found)
    assert advice(Report(samples=20)) == []
    cost = Report(substitution_sqnr={"y": 9.5, "z": 40.0})
    assert advice(cost) == [
        "hard activations alone leave 9.5 dB of output y: train with them, or leave them out "
        "(--activation-substitution none)"
    ]


def test_long_names_are_cut_in_the_middle():
    assert short("a" * 60) == "a" * 60
    assert short("a" * 40 + "b" * 40) == "a" * 30 + "..." + "b" * 30


def test_steepest_is_a_fall_between_neighbours():
    assert [(layer.name, fall) for layer, fall in steepest(REPORT.layers)] == [
        ("late", 22.0), ("middle", 1.0)
    ]  # fmt: skip


def test_a_histogram_shows_bins_and_the_range_of_the_integers():
    canvas = histogram(TENSOR)
    assert canvas is not None
    lines = [shape for shape in canvas.shapes if getattr(shape, "stroke", "") == "#b03030"]
    places = [line.points[0][0] for line in lines]
    low, high = -40.0, 50.0
    wanted = [(limit - low) / (high - low) * WIDTH for limit in (-128 * 0.25, 127 * 0.25)]
    assert places == wanted
    boxes = [shape for shape in canvas.shapes if hasattr(shape, "fill") and hasattr(shape, "width")]
    assert len(boxes) == 5
    assert max(box.height for box in boxes) <= HEIGHT
    assert histogram(dataclasses.replace(TENSOR, histogram=None)) is None


def test_many_bins_are_joined_to_bars_of_the_same_range():
    counts = tuple(range(1, 251))
    fine = dataclasses.replace(TENSOR, histogram=TensorHistogram(-10.0, 15.0, counts))
    canvas = histogram(fine)
    assert canvas is not None
    bars = [shape for shape in canvas.shapes if isinstance(shape, Box)]
    assert len(bars) == 63  # of four bins each, and the last of two
    scale = WIDTH / (31.75 + 32)
    assert bars[0].x == pytest.approx((-10 + 32) * scale)
    assert bars[0].width == pytest.approx(4 * 0.1 * scale)
    assert bars[-1].x + bars[-1].width == pytest.approx((15 + 32) * scale)
