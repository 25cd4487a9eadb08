# SPDX-License-Identifier: Apache-2.0
"""The benchmark of transformers: who computes attention, and what it costs."""

import importlib
import json
import pathlib
import types

import onnxruntime
import pytest


@pytest.fixture
def bench(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    return importlib.import_module("bench_attention")


def test_products_on_either_device(
    bench: types.ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"small": lambda depth: bench.vit("small", 64, width=96, heads=2, depth=depth)}
    monkeypatch.setattr(bench, "NETWORKS", small)
    arguments = ["bench_attention.py", "small", "--depth", "1", "--target", "B512+table"]
    monkeypatch.setattr("sys.argv", arguments)
    bench.main()
    cpu, dpu, every = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [row["products"] for row in (cpu, dpu, every)] == ["cpu", "dpu", "all"]
    assert (every["dpu_parts"], every["cpu_parts"], every["share"]) == (1, 0, 1)
    assert every["cpu_ms"] < dpu["cpu_ms"]
    assert every["sqnr_db"] > dpu["sqnr_db"] - 3
    assert cpu["macs"] == dpu["macs"]
    tokens, width = 17, 96
    assert (dpu["share"] - cpu["share"]) * dpu["macs"] == pytest.approx(
        2 * tokens * tokens * width, rel=0.02
    )
    assert dpu["sqnr_db"] > 10


def test_a_network_like_mobilevit(bench: types.ModuleType) -> None:
    model = bench.mobilevit(64, stages=((24, 16, 1),))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (head,) = session.get_inputs()
    assert head.shape == [1, 3, 64, 64]
    assert session.get_outputs()[0].shape == [1, 1000]
