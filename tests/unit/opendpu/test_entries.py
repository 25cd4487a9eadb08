# SPDX-License-Identifier: Apache-2.0
"""What installed programs call: every one is there, and lacking packages are one line."""

import importlib
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib

import pytest

from opendpu.cli import entries

CALLS = """
import importlib, json, sys
sys.modules.update(dict.fromkeys({missing}))  # as if they were not installed
ends = {{}}
for name, arguments in {programs}.items():
    sys.argv = [name, *arguments]
    try:
        getattr(importlib.import_module("opendpu.cli.entries"), name)()
    except SystemExit as end:
        ends[name] = end.code
print(json.dumps(ends))
"""


@pytest.fixture(scope="module")
def scripts(repository) -> dict[str, str]:
    text = (repository / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]["scripts"]


def test_every_program_is_an_entry_that_finds_its_command(scripts, monkeypatch):
    found = []
    monkeypatch.setattr(entries, "_run", lambda *words: found.append(words))
    assert scripts == {name: f"opendpu.cli.entries:{name}" for name in scripts}
    for name in scripts:
        getattr(entries, name)()
    assert [program for program, *_ in found] == [*scripts]
    for _, module, *function in found:
        assert callable(getattr(importlib.import_module(module), *(function or ["main"])))


def test_what_is_installed_is_what_the_project_says(scripts):
    points = importlib.metadata.distribution("opendpu").entry_points
    assert {point.name: point.value for point in points if point.group == "console_scripts"} == (
        scripts
    )


@pytest.mark.parametrize("missing", ["typer", "numpy", "rich", "google.protobuf"])
def test_a_missing_package_is_one_line(scripts, missing):
    programs = {name: ["--help"] for name in scripts if not name.startswith(("vai_q", "opendpu"))}
    del programs["vai_c_caffe"]  # as vai_q_caffe: needs nothing
    programs["opendpu"] = ["compile", "x.onnx"]
    if missing == "numpy":
        programs["vai_q_tensorflow"] = ["inspect", "--input_frozen_graph", "x.pb"]
    call = [sys.executable, "-c", CALLS.format(missing=[missing], programs=programs)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout)
    assert list(ends) == list(programs)
    lines = done.stderr.splitlines()
    if missing != "typer":  # opendpu knows its options then, and has written the line
        assert ends["opendpu"] == 1
        ends["opendpu"] = lines.pop()
    assert not lines
    for name, line in ends.items():
        what = rf"{name}: error: \w+ needs {missing}[.\w]*, which is not installed: pip install .*"
        assert re.fullmatch(what, line)


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A module whose ``main`` imports what it is told."""
    (tmp_path / "a_command.py").write_text("def main():\n    __import__(NEEDS)\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("a_command")
    del sys.modules["a_command"]


def test_a_package_that_is_missed_later_is_one_line(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "loky", None)
    command.NEEDS = "loky"
    with pytest.raises(SystemExit) as ended:
        entries._run("a_program", "a_command")
    assert ended.value.code == (
        "a_program: error: a_program needs loky, which is not installed: pip install opendpu"
    )


def test_what_a_users_module_misses_keeps_its_place(command):
    command.NEEDS = "a_module_of_nobody"
    with pytest.raises(ModuleNotFoundError, match="No module named 'a_module_of_nobody'"):
        entries._run("a_program", "a_command")


def test_a_package_that_is_too_old_is_one_line(monkeypatch):
    monkeypatch.setattr(importlib.import_module("typer"), "__version__", "0.1.0")
    with pytest.raises(SystemExit, match=r"^xir: error: xir needs typer .* but 0\.1\.0 is in"):
        entries.xir()
