# SPDX-License-Identifier: Apache-2.0
"""The mutation test: its table fits the tree, and it never changes the tree itself."""

import ast
import collections
import importlib
import json
import pathlib
import types

import pytest

from opendpu_arch.errors import ToolError

PACKAGES = ("arch", "hw", "sim", "sw")


@pytest.fixture
def script(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    return importlib.import_module("mutants")


@pytest.fixture
def mutant(script: types.ModuleType) -> types.ModuleType:
    return importlib.import_module("mutation.mutant")


def test_every_mutant_fits_the_tree(script: types.ModuleType) -> None:
    stale = {m.name: m.occurrences() for m in script.MUTANTS if m.occurrences() != 1}
    assert not stale, f"texts that do not stand once in their file: {stale}"
    assert all(m.old != m.new for m in script.MUTANTS)


def test_every_mutant_is_still_a_program(
    script: types.ModuleType, repository: pathlib.Path
) -> None:
    """A syntax error is not the kind of fault that real ones have."""
    for m in script.MUTANTS:
        if m.file.endswith(".py"):
            text = (repository / m.file).read_text(encoding="utf-8")
            ast.parse(text.replace(m.old, m.new), m.name)


def test_names_and_tests_exist(script: types.ModuleType, repository: pathlib.Path) -> None:
    names = collections.Counter(m.name for m in script.MUTANTS)
    assert max(names.values()) == 1
    for m in script.MUTANTS:
        assert m.tests, m.name
        for test in m.tests:
            path, _, function = test.partition("::")
            text = (repository / path).read_text(encoding="utf-8")
            assert f"def {function}(" in text or not function, f"{m.name}: {test}"


def test_all_packages_have_their_share(script: types.ModuleType) -> None:
    count = collections.Counter(m.file.partition("/")[0] for m in script.MUTANTS)
    assert set(count) == set(PACKAGES)
    assert count.total() >= 60
    assert min(count.values()) >= 10


def test_the_work_tree_is_never_changed(
    mutant: types.ModuleType, repository: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    file = "arch/opendpu_arch/asm.py"
    before = (repository / file).read_text(encoding="utf-8")
    (one,) = mutant.mutants(file, "unit/arch/test_asm.py", ("m", "def parse(", "def parsed("))
    link = tmp_path / "link"
    link.symlink_to(repository)
    for tree in (repository, link, repository / "tests"):
        with pytest.raises(ToolError, match=r"only copies of the work tree .* may be changed"):
            one.plant(tree)
    assert (repository / file).read_text(encoding="utf-8") == before


def test_a_stale_mutant_is_not_planted(mutant: types.ModuleType, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file.py").write_text("a = 1\na = 1\n")
    for old, times in (("a = 1", 2), ("b = 1", 0)):
        (one,) = mutant.mutants("file.py", "unit", ("m", old, "a = 2"))
        with pytest.raises(ToolError, match=rf"m is stale: file.py has its text {times} times"):
            one.plant(tmp_path)
    assert (tmp_path / "file.py").read_text() == "a = 1\na = 1\n"


@pytest.fixture
def only(
    script: types.ModuleType, mutant: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> object:
    """A function that makes one mutant of the assembly text the whole table."""

    def replace(old: str, new: str) -> None:
        table = mutant.mutants("arch/opendpu_arch/asm.py", "unit/arch/test_asm.py", ("m", old, new))
        monkeypatch.setattr(script, "MUTANTS", table)

    return replace


def test_a_fault_is_found_and_a_harmless_change_survives(
    script: types.ModuleType, only, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--likely", "--no-baseline", "--json"]
    only("if key in values:", "if key in values and value > 1:")
    assert script.main(arguments) == 0
    (outcome,) = json.loads(capsys.readouterr().out)
    assert (outcome["name"], outcome["likely"]) == ("m", True)
    assert outcome["killed_by"].startswith("tests/unit/arch/test_asm.py::test_bad_text")
    only("if key in values:", "if key in values.keys():")
    assert script.main(arguments) == script.SURVIVED
    (outcome,) = json.loads(capsys.readouterr().out)
    assert outcome["killed_by"] is None


def test_a_stale_table_ends_with_two_before_anything_runs(
    script: types.ModuleType, only, capsys: pytest.CaptureFixture[str]
) -> None:
    only("no such text", "nothing")
    assert script.main([]) == script.STALE == 2
    said = capsys.readouterr()
    assert not said.out
    assert "m is stale: arch/opendpu_arch/asm.py has its text 0 times" in said.err


def test_tests_that_fail_anyway_are_no_judges(
    script: types.ModuleType, only, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a fault they must pass; here they do not come to an end."""
    only("if key in values:", "if key in values and value > 1:")
    with pytest.raises(ToolError, match=r"without any fault no end after 0\.01 seconds fails"):
        script.main(["--seconds", "0.01"])


def test_list(script: types.ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--list", "--only", "numerics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.endswith("arch/opendpu_arch/numerics.py") for line in lines)
