# SPDX-License-Identifier: Apache-2.0
"""The page for people who come from Vitis AI: what it calls the same can be found."""

import importlib
import importlib.metadata
import pathlib
import re

import pytest

PAGE = "docs/coming_from_vitis_ai.md"
MODULES = ("pynq_dpu", "vaitrace_py", "vart", "vitis_ai_library", "xir")
COMMANDS = {"vai_c_xir", "vaitrace", "xdputil"}


def rows(repository: pathlib.Path) -> list[tuple[list[str], str]]:
    """Return the names and the verdict of every row."""
    text = (repository / PAGE).read_text(encoding="utf-8").split("## Files")[0]
    found = re.findall(r"^\| (.+?) \| (same|different|none) \|", text, re.MULTILINE)
    return [(re.findall(r"`([^`]+)`", names), verdict) for names, verdict in found]


@pytest.fixture(scope="module")
def same(repository) -> list[str]:
    return [name for names, verdict in rows(repository) if verdict == "same" for name in names]


def test_every_row_has_a_verdict(repository):
    text = (repository / PAGE).read_text(encoding="utf-8").split("## Files")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    entries = [line for line in lines if line != "| Vitis AI | here | |"]
    assert len(rows(repository)) == len(entries)
    assert len(entries) > 50


def test_classes_and_functions(same):
    dotted = [name for name in same if name.split(".")[0] in MODULES and "." in name]
    assert len(dotted) > 12
    for name in dotted:
        module, *path = name.split(".")
        found = importlib.import_module(module)
        for part in path:
            found = getattr(found, part)


def test_commands(same):
    points = importlib.metadata.entry_points(group="console_scripts")
    assert {point.name for point in points} >= COMMANDS
    assert set(same) >= {"vai_c_xir", "vaitrace", "xdputil run"}


def test_variables(same, repository):
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (repository / "sw").rglob("*.py")
    )
    variables = [name for name in same if re.fullmatch(r"(XLNX|VAI|OPENDPU)_\w+", name)]
    assert len(variables) > 8
    for name in variables:
        assert name in sources, name


def test_headers_and_classes_of_cpp(same, repository):
    root = repository / "sw" / "opendpu" / "cpp"
    headers = {
        str(path.relative_to(folder)): path.read_text()
        for folder in (root / "include", root / "ai_library" / "include")
        for path in folder.rglob("*.h*")
    }
    text = "".join(headers.values())
    for name in same:
        if re.fullmatch(r"[a-z_/]+\.hp*", name):
            assert name in headers
        elif "::" in name:
            assert re.search(rf"\b{name.split('::')[-1]}\b", text), name
    assert "DEF_XIR_OP_IMP" in text


def test_readme_links_to_the_page(repository):
    assert f"({PAGE})" in (repository / "README.md").read_text(encoding="utf-8")


def test_its_own_links(repository):
    text = (repository / PAGE).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+\.md)", text):
        assert (repository / "docs" / target).is_file(), target
