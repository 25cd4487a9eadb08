# SPDX-License-Identifier: Apache-2.0
"""The report beside a compiled model: which operators run where."""

import json
import pathlib

import pytest

from opendpu.onnxruntime import InferenceSession
from opendpu.onnxruntime.options import PROVIDER, REPORT


def opened(model: pathlib.Path, options: dict[str, str]) -> None:
    InferenceSession(model, providers=[PROVIDER], provider_options=[options])


def test_operators_by_device(quantized_model: pathlib.Path, options: dict[str, str]) -> None:
    opened(quantized_model, options)
    path = pathlib.Path(options["cacheDir"], "small", REPORT)
    found = json.loads(path.read_text(encoding="utf-8"))
    counts = {one["name"]: one for one in found["deviceStat"]}
    assert counts["all"]["nodeNum"] == counts["NPU"]["nodeNum"] + counts["CPU"]["nodeNum"]
    assert counts["CPU"]["supportedOpType"] == ["::Softmax"]
    assert {"::Conv", "::Add", "::Relu"} <= set(counts["NPU"]["supportedOpType"])
    assert found["subgraphStat"][0] == {"device": "NPU", "count": 1}
    (softmax,) = [one for one in found["nodeStat"] if one["opType"] == "::Softmax"]
    assert softmax["device"] == "CPU"
    assert softmax["output"] == "probabilities"
    path.unlink()
    opened(quantized_model, options)  # what is kept is not compiled again
    assert not path.exists()


@pytest.mark.parametrize("by", ["option", "environment"])
def test_another_place(
    by: str,
    quantized_model: pathlib.Path,
    options: dict[str, str],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "reports" / "mine.json"
    if by == "option":
        options = {**options, "report_file": str(path)}
    else:
        monkeypatch.setenv("XLNX_ONNX_EP_REPORT_FILE", str(path))
    opened(quantized_model, options)
    assert json.loads(path.read_text(encoding="utf-8"))["nodeStat"]
