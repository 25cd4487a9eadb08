# SPDX-License-Identifier: Apache-2.0
"""``vaitrace_py.vai_tracepoint``: functions that a program marks itself."""

import subprocess
import sys

import pytest

from opendpu_arch.errors import OutputError
from vaitrace import calls
from vaitrace_py import vai_tracepoint

PROGRAM = """
from vaitrace_py import vai_tracepoint

@vai_tracepoint
def scaled(values, factor=2):
    return [value * factor for value in values]

for count in range(3):
    scaled(range(count), factor=count)
"""


@vai_tracepoint
def divided(a, *, b):
    """Divide."""
    return a / b


def test_a_marked_function_is_as_it_was(monkeypatch):
    monkeypatch.delenv("VAI_TRACE_DIR", raising=False)
    assert divided(6, b=3) == 2
    assert (divided.__name__, divided.__doc__) == ("divided", "Divide.")


def test_calls_are_recorded_where_a_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("VAI_TRACE_DIR", str(tmp_path))
    assert divided(6, b=3) == 2
    with pytest.raises(ZeroDivisionError):
        divided(6, b=0)
    first, second = calls.read(tmp_path)
    assert first.function == second.function == f"{__name__}.divided"
    assert first.start <= second.start and first.seconds >= 0
    monkeypatch.setenv("VAI_TRACE_DIR", str(tmp_path / "none"))
    with pytest.raises(OutputError, match="No such file or directory"):
        divided(6, b=3)


def test_vaitrace_reports_them(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    line = [sys.executable, "-m", "vaitrace", "--txt", "-p", "program.py"]
    found = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    (row,) = [row for row in found.stdout.splitlines() if "__main__.scaled" in row]
    assert row.split("|")[1].strip() == "3"
