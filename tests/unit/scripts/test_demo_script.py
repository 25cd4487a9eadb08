# SPDX-License-Identifier: Apache-2.0
"""The demo's script where it does not get to its end."""

import importlib
import os
import pathlib
import types

import pytest


@pytest.fixture
def demo(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Return the script, which fails the test as soon as it compiles."""
    monkeypatch.syspath_prepend(str(repository / "scripts" / "demo"))
    module = importlib.import_module("run")
    monkeypatch.setattr(module, "compile_model", lambda *_: pytest.fail("it was compiled"))
    return module


def test_ctrl_c_is_one_line(
    demo: types.ModuleType,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.argv", ["run.py", "--output", str(tmp_path / "out")])
    monkeypatch.setattr(demo, "compile_model", interrupt)
    assert demo.main() == 130
    captured = capsys.readouterr()
    assert captured.out == "demo: interrupted\n"
    assert captured.err == ""
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_work_is_told_before_anything_is_compiled(
    demo: types.ModuleType,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("COLUMNS", "500")
    monkeypatch.setattr("sys.argv", ["run.py", "--output", str(tmp_path / "file" / "out")])
    assert demo.main() == 1
    assert "file/out cannot be written: " in capsys.readouterr().out
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep)
    assert demo.main() == 1
    assert "demo: error: 'g++' is not on the PATH" in capsys.readouterr().out
