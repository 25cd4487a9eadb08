# SPDX-License-Identifier: Apache-2.0
"""The cache of quantized graphs: damaged or unusable, the graph is there all the same."""

import importlib
import pathlib
import types

import pytest

from opendpu.ir import QuantizedGraph


@pytest.fixture
def quantized(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Return the module, with a quantizer that counts how often it is asked."""
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    module = importlib.import_module("quantized")
    module.asked = 0

    def quantize(*_: object) -> QuantizedGraph:
        module.asked += 1
        graph = QuantizedGraph("small")
        graph.add("x", "data", (1,))
        graph.outputs = ["x"]
        return graph

    monkeypatch.setattr(module, "_quantize", quantize)
    return module


def test_a_damaged_graph_is_made_again(quantized: types.ModuleType, tmp_path: pathlib.Path) -> None:
    for expected in (1, 1):
        assert quantized.quantized("squeezenet", tmp_path, tmp_path).graph.get_op("x")
        assert quantized.asked == expected
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:20])
    for expected in (2, 2):
        assert quantized.quantized("squeezenet", tmp_path, tmp_path).graph.get_op("x")
        assert quantized.asked == expected


def test_no_folder_is_no_error(
    quantized: types.ModuleType, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    found = quantized.quantized("squeezenet", tmp_path, tmp_path / "file" / "cache")
    assert found.graph.get_op("x")
    assert "squeezenet is quantized again the next time: " in capsys.readouterr().err
