# SPDX-License-Identifier: Apache-2.0
"""The benchmark of device ``ref`` compares it with the functional simulator."""

import importlib
import json
import pathlib
import sys

import numpy as np
import pytest

from opendpu.ir import Quantization, QuantizedGraph, to_xir


def test_it_prints_json(
    repository: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    graph = QuantizedGraph("pool")
    graph.add("x", "data", (1, 8, 8, 5))
    source = graph.add_fix("x_fix", "x", Quantization.power_of_two(4)).name
    window = {"kernel": [3, 3], "stride": [1, 1], "pad": [0] * 4, "pad_mode": "FLOOR"}
    graph.add("y", "avgpool2d", (1, 6, 6, 5), {"input": [source]}, window)
    graph.outputs = [graph.add_fix("y_fix", "y", Quantization.power_of_two(5)).name]
    file = tmp_path / "pool.xmodel"
    to_xir(graph).serialize(file)
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    bench = importlib.import_module("bench_ref")
    monkeypatch.setattr("sys.argv", ["bench_ref.py", str(file), "--batch", "3", "--repeat", "1"])
    bench.main()
    report = json.loads(capsys.readouterr().out)
    assert report["equal"] is True
    assert report["batch"] == 3
    assert {"ref_frame_seconds", "iss_frame_seconds", "cpu_seconds"} <= set(report)
    assert np.isfinite(report["batch_frame_seconds"])
    sys.modules.pop("bench_ref")
