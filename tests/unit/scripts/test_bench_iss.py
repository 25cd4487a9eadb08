# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the functional simulator measures a fair program."""

import importlib
import json
import pathlib
import types

import numpy as np
import pytest

from opendpu_arch import isa
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target
from opendpu_sim.model.machine import plan

B4096 = Target.from_name("B4096")


@pytest.fixture
def resnet50(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    return importlib.import_module("resnet50")


def test_it_has_the_size_of_resnet50(resnet50: types.ModuleType) -> None:
    layers = resnet50.convolutions()
    assert len(layers) == 54
    assert sum(layer.macs for layer in layers) == pytest.approx(4.1e9, rel=0.01)


def test_its_layers_read_nothing_undefined(resnet50: types.ModuleType) -> None:
    for layer in (resnet50.Layer(14, 256, 32, 3, 1), resnet50.Layer(14, 512, 16, 3, 2),
                  resnet50.Layer(1, 2048, 16, 1, 1)):  # fmt: skip
        program = resnet50.layer_program(layer, B4096)
        convs = [n for n, i in enumerate(program) if isinstance(i, isa.Conv)]
        macs = sum(
            rows(program, n) * program[n].length * 16 * layer.channels * layer.taps for n in convs
        )
        assert macs == layer.macs
        # the last token from CONV to LOAD is for the layer after this one
        code = isa.encode([*program, isa.Load(dpdon=5), isa.End()])
        segments = {0: np.ones(24 << 20, np.uint8), 1: np.ones(24 << 20, np.uint8)}
        plan(code, B4096).run(segments, check=True)


def test_a_target_whose_banks_are_too_small_is_refused(resnet50: types.ModuleType) -> None:
    layer, b64 = resnet50.Layer(112, 256, 32, 3, 1), Target.from_name("B64")
    with pytest.raises(UnsupportedError, match=r"^Layer\(size=112, .*, but \w+_B64 has 2048"):
        resnet50.layer_program(layer, b64)


def rows(program: list[isa.Instruction], conv: int) -> int:
    inits = [i for i in program[:conv] if isinstance(i, isa.ConvInit)]
    return inits[-1].valid_pixel_parallel


def test_it_prints_json(
    resnet50: types.ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = importlib.import_module("bench_iss")
    monkeypatch.setattr(resnet50, "convolutions", lambda: [resnet50.Layer(7, 64, 32, 3, 1)])
    monkeypatch.setattr("sys.argv", ["bench_iss.py", "--repeat", "1"])
    bench.main()
    report = json.loads(capsys.readouterr().out)
    assert report["resnet50"]["warm_seconds"] > 0
    assert {row["k"] for row in report["kernels"]} == {64, 576, 1152, 4608}


def test_a_target_that_is_refused_is_said(
    resnet50: types.ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = importlib.import_module("bench_iss")
    monkeypatch.setattr("sys.argv", ["bench_iss.py", "resnet50", "--target", "B64"])
    with pytest.raises(SystemExit, match="2"):
        bench.main()
    assert "B64 has 2048: this program is for targets whose banks" in capsys.readouterr().err
