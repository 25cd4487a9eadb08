# SPDX-License-Identifier: Apache-2.0
"""The benchmark of compile times: the figures of a file, and hashes that tell programs apart."""

import importlib
import json
import pathlib
from typing import Any

import pytest

from opendpu.ir import to_xir


def test_figures_of_a_file(
    tmp_path: pathlib.Path, repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for folder in ("scripts/bench", "tests/unit/opendpu/compiler"):
        monkeypatch.syspath_prepend(str(repository / folder))
    bench = importlib.import_module("bench_compile")
    graph = to_xir(importlib.import_module("random_graphs").draw(0).graph)
    graph.serialize(str(tmp_path / "net.xmodel"))

    def measured(target: str) -> dict[str, Any]:
        arguments = [str(tmp_path / "net.xmodel"), "--target", target, "--here"]
        monkeypatch.setattr("sys.argv", ["bench_compile.py", *arguments])
        bench.main()
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    first, again, other = (measured(target) for target in ("B512", "B512", "B4096"))
    assert (first["name"], first["target"]) == ("net", "DPUCZDX8G_ISA1_B512")
    assert first["cycles"] > 0
    assert first["instructions"] > 0
    assert first["peak_bytes"] >= first["start_bytes"] > 0
    assert sum(first["pass_seconds"].values()) <= first["wall_seconds"]
    assert first["programs"] == again["programs"] != other["programs"]
    assert first["graph"] == again["graph"] != other["graph"]
