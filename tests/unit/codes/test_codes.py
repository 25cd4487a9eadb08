# SPDX-License-Identifier: Apache-2.0
"""The table of the guide's codes: complete, true to the sources, and every code is given."""

import ast
import pathlib
import re

import pytest
from provocations import PROVOCATIONS
from provocations.registry import Call

from opendpu_arch.codes import CODES, Code, Severity, find
from opendpu_arch.errors import DPUError

ID = re.compile(
    r"(OPTIMIZER|QUANTIZER_(TF1|TF2|TORCH)|WEGO_TORCH|XCOM|VAILIB|VART|XIR|TARGET_(EXPLORER|FACTORY))"
    r"_[A-Z0-9_]*[A-Z0-9]"
)
NAMES_OF_OTHERS = {"VART_RUNNER"}
"""Constants of our own that look like codes."""
TORCH = "QUANTIZER_TORCH_"
"""Codes that need PyTorch to be given; their tests are those of the PyTorch surface."""
FRAMEWORKS = (TORCH, "OPTIMIZER_", "WEGO_TORCH_", "QUANTIZER_TF1_", "QUANTIZER_TF2_")
"""Those of all frameworks, which have tests of their own."""


def named(folder: pathlib.Path) -> set[str]:
    """Return the codes that the Python files of a folder hold as constants, but for the table.

    Docstrings do not count.
    """
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        if "codes" in path.parts:
            continue
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        texts = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if id(node) in texts or not isinstance(node, ast.Constant):
                continue
            if isinstance(node.value, str):
                found |= {match[0] for match in ID.finditer(node.value)}
    return found - NAMES_OF_OTHERS


def short(folder: pathlib.Path) -> set[str]:
    """Return the codes that tests of the PyTorch surface hand to helpers without their prefix."""
    found: set[str] = set()
    for path in folder.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                whole = [text for text in texts if isinstance(text, str)]
                found |= {f"{prefix}{text}" for prefix in (TORCH, "OPTIMIZER_") for text in whole}
    return found


@pytest.fixture(scope="module")
def sources(repository: pathlib.Path) -> set[str]:
    return set().union(*(named(repository / folder) for folder in ("arch", "sw", "sim")))


def test_every_code_has_a_meaning_once() -> None:
    assert len({(code.id, code.severity) for code in CODES}) == len(CODES)
    assert all(code.meaning and not code.meaning.endswith(".") for code in CODES)
    both = {c.id for c in CODES if c.severity is Severity.WARN} & {
        c.id for c in CODES if c.severity is Severity.ERROR
    }
    assert both == {
        f"{TORCH}{name}"
        for name in (
            "EXPORT_XMODEL", "FAST_FINETUNE", "REUSED_MODULE", "TORCH_VERSION", "XMODEL_DEVICE",
        )
    }  # fmt: skip


def test_a_code_that_is_not_the_guides_is_not_found() -> None:
    with pytest.raises(KeyError):
        find("XCOM_NONSENSE")


def test_the_table_is_that_of_the_guide(repository: pathlib.Path) -> None:
    """The guide is not part of the project; where it lies beside it, no code may be missing."""
    guides = sorted((repository.parent / "shared" / "seeds").glob("004_*.txt"))
    if not guides:
        pytest.skip("the guide's text is not there")
    text = guides[0].read_text(encoding="utf-8").replace("\\_", "_")
    rows = re.findall(r"^\|\s*(\w+)\s*\|", text[text.index("# Error Codes\n\nTable 54") :], re.M)
    appendix = [name for name in rows if ID.fullmatch(name)]
    assert len(appendix) == 559
    assert set(appendix) <= {code.id for code in CODES}
    other = set(re.findall(r"^\|\s*(Quantize[r]?_TF[12]_\w+|QUANTIZER_TORCH_\w+)\s*\|", text, re.M))
    assert {code.id for code in CODES} == {*appendix, *other}


def test_sources_give_the_codes_that_apply_and_no_others(sources: set[str]) -> None:
    known = {code.id for code in CODES}
    assert sources <= known, f"not the guide's: {sorted(sources - known)}"
    applying = {code.id for code in CODES if code.applies}
    assert sources - applying == set(), "given, but the table says never"
    assert applying - sources == set(), "the table says given, but nothing does"


def test_every_code_is_provoked(repository: pathlib.Path) -> None:
    """Those of the frameworks' messages are, in the tests of these."""
    of_frameworks = {code.id for code in CODES if code.applies and code.id.startswith(FRAMEWORKS)}
    elsewhere = named(repository / "tests") | short(repository / "tests/unit/pytorch_nndct")
    assert of_frameworks - elsewhere == set(), "no test names these"
    others = {code.id for code in CODES if code.applies} - of_frameworks
    assert others == PROVOCATIONS.keys()


@pytest.mark.parametrize(
    ("code", "call"),
    [
        pytest.param(c, call, id=f"{c}-{call.__name__}")
        for c in PROVOCATIONS
        for call in PROVOCATIONS[c]
    ],
)
def test_code(code: str, call: Call, tmp_path: pathlib.Path) -> None:
    try:
        text = call(tmp_path)
    except DPUError as error:
        assert error.code == code
        assert str(error) == f"[{code}] {error.message}"
    else:
        assert text is not None, "nothing was refused"
        assert text.endswith(f"({code})"), text


def test_an_error_keeps_its_code_when_its_place_is_told() -> None:
    inner = DPUError("it is wrong", code="XIR_SHAPE_UNMATCH")
    assert str(inner.within("op 'x'")) == "[XIR_SHAPE_UNMATCH] op 'x': it is wrong"


def test_what_applies_says_no_reason() -> None:
    assert Code(id="A", severity=Severity.WARN, table="54", meaning="b").applies
