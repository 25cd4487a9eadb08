# SPDX-License-Identifier: Apache-2.0
"""The bounds of a pixel order that runs on over the ends of rows."""

import importlib
import json
import pathlib
import types

import onnx
import pytest


@pytest.fixture
def bench(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    return importlib.import_module("bench_pixel_order")


def _network(rows: int, stride: int = 1) -> onnx.ModelProto:
    """Return three convolutions of maps with so many rows and columns."""
    net = importlib.import_module("networks.builder").Builder("order", (16, rows, rows))
    x = "image"
    for _ in range(3):
        x = net.conv(x, 16, 3, stride=stride)
    return net.model(x)


def _measured(
    bench: types.ModuleType, model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> dict[str, object]:  # fmt: skip
    monkeypatch.setitem(bench.networks.NETWORKS, "order", lambda: model)
    arguments = ["order", "--target", "B512", "--memory", "ideal"]
    monkeypatch.setattr("sys.argv", ["bench_pixel_order.py", *arguments])
    bench.main()
    return json.loads(capsys.readouterr().out)


def test_nine_rows_on_four_leave_a_quarter(
    bench: types.ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _measured(bench, _network(9), monkeypatch, capsys)
    target = bench.Target.from_name("B512")
    assert target.pixel_parallel == 4
    taps, blocks = 9 * (16 // target.channel_parallel), 16 // target.output_channel_parallel
    saved = 3 * (3 * 9 - 21) * taps * blocks  # places of the array: three rows of nine, 81 / 4
    assert found["array"]["cycles"] == found["cycles"] - saved
    assert found["ideal"]["cycles"] == found["array"]["cycles"] == found["stride_1"]["cycles"]
    assert found["array"]["cycles"] <= found["transfers"]["cycles"] <= found["cycles"]


def test_rows_that_fill_the_array_gain_nothing(
    bench: types.ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _measured(bench, _network(8), monkeypatch, capsys)
    assert all(found[bound]["saved"] == 0 for bound in bench.BOUNDS)


def test_layers_with_a_stride_are_no_part_of_the_third_bound(
    bench: types.ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _measured(bench, _network(18, stride=2), monkeypatch, capsys)
    assert found["array"]["saved"] > 0 == found["stride_1"]["saved"]
