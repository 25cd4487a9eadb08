# SPDX-License-Identifier: Apache-2.0
"""docs/reference/onnx_operators.md: what becomes of ONNX's operators, case by case."""

from collections.abc import Sequence

import onnx
import onnxruntime

from reference_pages.markdown import NOTE, table
from reference_pages.onnx_cases import Outcome, cases, run

INTRODUCTION = f"""\
# ONNX operators

{NOTE}

Every operator of ONNX gets through the front end. What XIR has an op for is converted, in the forms
that it has; everything else stays ONNX, an op of kind `onnx`, and onnxruntime computes it on the
CPU. The compiler's report says of each which one it is and why.

This page is what onnx's own test cases of single operators (`onnx.backend.test`, onnx
{onnx.__version__}) give: each is loaded, and its float graph is run and compared with what the case
wants. `tests/system/test_onnx_node_cases.py` fails where a case does other than said here.
onnxruntime was {onnxruntime.__version__}.
"""


def page() -> str:
    """Return the page; this runs all cases, which takes a minute."""
    return text([run(case) for case in cases().values()])


def text(outcomes: Sequence[Outcome]) -> str:
    """Return the page for the outcomes of all cases."""
    passed = sum(not outcome.failure for outcome in outcomes)
    lines = [INTRODUCTION]
    lines += [f"{passed} of {len(outcomes)} cases give what they should.", "", "## Operators", ""]
    names = sorted({outcome.operator for outcome in outcomes})
    lines += table(
        ("operator", "becomes", "cases that pass"),
        (_row([o for o in outcomes if o.operator == name]) for name in names),
    )
    lines += ["## Cases that do not", ""]
    for reason in sorted({outcome.failure for outcome in outcomes} - {""}):
        found = [failing_name(o) for o in outcomes if o.failure == reason]
        lines += [f"**{reason[0].upper()}{reason[1:]}** ({len(found)}):", ""]
        lines += [", ".join(f"`{name}`" for name in sorted(found)), ""]
    return "\n".join(lines).rstrip() + "\n"


def failing_name(outcome: Outcome) -> str:
    """Return what the page calls a case."""
    return outcome.case.removeprefix("test_")


def _row(outcomes: Sequence[Outcome]) -> tuple[str, str, str]:
    kinds = sorted({kind for outcome in outcomes for kind in outcome.kinds} - {"onnx"})
    stays = any("onnx" in outcome.kinds for outcome in outcomes)
    becomes = ", ".join([*(f"`{kind}`" for kind in kinds), *(["stays ONNX"] if stays else [])])
    passed = sum(not outcome.failure for outcome in outcomes)
    return f"`{outcomes[0].operator}`", becomes or "–", f"{passed} of {len(outcomes)}"
