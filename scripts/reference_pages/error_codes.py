# SPDX-License-Identifier: Apache-2.0
"""docs/reference/error_codes.md: the guide's codes, which are given where, and why others never."""

import ast
import pathlib
from collections.abc import Iterable, Sequence

from opendpu_arch.codes import CODES, FAMILIES, Code, Severity
from reference_pages.markdown import NOTE, table

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("arch", "sw", "sim")
TABLE = "opendpu_arch.codes"
"""The modules that hold the table itself."""


def page() -> str:
    """Return docs/reference/error_codes.md."""
    given = sum(code.applies for code in CODES)
    lines = [
        "# Error codes",
        "",
        NOTE,
        "",
        "Every code of the guide (UG1414 v3.5): Appendix A (Table 54), the messages of the PyTorch",
        "quantizer (Tables 22 and 23) and those of TensorFlow's (13 and 18).",
        f"OpenDPU gives {given} of them; why the other {len(CODES) - given} never are, is said at",
        "the end of each part.",
        "",
        "Errors are exceptions of `opendpu_arch.errors`; the code is their attribute `code`, and",
        "stands in front of their text: `[XIR_FILE_NOT_EXIST] net.xmodel: cannot be read`. Reasons",
        "for the CPU, in reports and inspections, end with theirs: `(XCOM_UNSUPPORT_KERNEL_SIZE)`.",
        "Messages of `pytorch_nndct` have the guide's form, `[VAIQ_WARN][ID]: …` and",
        "`[VAIQ_ERROR][ID]: …`.",
    ]
    places = _places()
    for title, codes in FAMILIES.items():
        lines += ["", f"## {title}", "", *_given(codes, places), *_never(codes)]
    return "\n".join(lines).rstrip() + "\n"


def _given(codes: Sequence[Code], places: dict[str, list[str]]) -> list[str]:
    rows = [
        (f"`{code.id}`", _kind(code), code.table, code.meaning, ", ".join(places[code.id]))
        for code in codes
        if code.applies
    ]
    return table(["code", "", "table", "meaning", "given by"], rows) if rows else []


def _kind(code: Code) -> str:
    return "warning" if code.severity is Severity.WARN else "error"


def _never(codes: Sequence[Code]) -> list[str]:
    """Return lists of codes by the reason for which they are never given."""
    lines: list[str] = []
    for reason in dict.fromkeys(code.never for code in codes if code.never):
        same = [code for code in codes if code.never == reason]
        lines += [f"Never: {reason}.", ""]
        lines += [f"- `{code.id}`{_other(code)}: {code.meaning}" for code in same]
        lines.append("")
    return lines


def _other(code: Code) -> str:
    """Return what tells a code from another one of the same id."""
    twice = sum(other.id == code.id for other in CODES) > 1
    return f" ({_kind(code)})" if twice else ""


def _places() -> dict[str, list[str]]:
    """Return the packages that hold a code as a constant, by code: two parts of their names."""
    places: dict[str, list[str]] = {code.id: [] for code in CODES}
    for folder in FOLDERS:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            module = ".".join(path.relative_to(REPOSITORY / folder).with_suffix("").parts)
            if module.startswith(TABLE):
                continue
            texts = " ".join(_constants(path)).replace("(", " ").replace(")", " ").split()
            package = f"`{'.'.join(module.removesuffix('.__init__').split('.')[:2])}`"
            for name in dict.fromkeys(text for text in texts if text in places):
                if package not in places[name]:
                    places[name].append(package)
    return places


def _constants(path: pathlib.Path) -> Iterable[str]:
    """Yield the strings of a file that are no docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    texts = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            yield node.value
