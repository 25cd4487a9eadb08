# SPDX-License-Identifier: Apache-2.0
"""The benchmark of dilations: a row of JSON a dilation, results checked."""

import importlib
import json
import pathlib
import types

import pytest


@pytest.fixture
def bench(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    return importlib.import_module("bench_dilation")


@pytest.mark.parametrize("layer", ["conv:8:8:3:8", "depthwise:8:8:3:8"])
def test_a_row_for_every_dilation(
    layer: str, bench: types.ModuleType, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    arguments = ["--layer", layer, "--target", "B64", "--dilation", "1", "2", "--check"]
    monkeypatch.setattr("sys.argv", ["bench_dilation.py", *arguments])
    bench.main()
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["dilation"] for row in rows] == [1, 2]
    assert rows[0]["ratio"] == 1
    assert all(row["cycles"] > 0 and row["layer"] == layer for row in rows)


def test_a_layer_that_is_none(bench: types.ModuleType) -> None:
    with pytest.raises(SystemExit, match="'pool:8:8:3:8' is no layer"):
        bench.Layer.parse("pool:8:8:3:8")
