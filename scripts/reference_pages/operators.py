# SPDX-License-Identifier: Apache-2.0
"""docs/reference/supported_operators.md: what the DPU can do of a network."""

from opendpu.compiler.constraints import CONSTRAINTS
from opendpu.compiler.fixed import COMPUTE, MOVE
from reference_pages.markdown import NOTE, table
from reference_pages.table28 import entries


def page() -> str:
    """Return docs/reference/supported_operators.md."""
    lines = [
        "# Operators on the DPU",
        "",
        NOTE,
        "",
        "The compiler gives an operator to the DPU if it is listed here and every condition that",
        "it names holds; everything else runs on the CPU, and the compiler's report says which",
        "condition failed, with the value and what was allowed, and what would lift it. CP is the",
        "channel parallel of the [target](targets.md).",
        "",
        "## Operators",
        "",
        "Every row of the guide's table of supported operators (UG1414, Table 28), and what its",
        "text adds. Inputs and results are quantized; activations in the fourth column behind an",
        "operator become part of it, without a rounding between.",
        "",
        *table(["operator", "XIR", "runs as", "activations", "conditions"], entries()),
        "",
        "## Fixed-point kinds",
        "",
        "Computed by an engine: " + ", ".join(f"`{kind}`" for kind in sorted(COMPUTE)) + ".",
        "",
        "Only moved, or nothing to do at all: "
        + ", ".join(f"`{kind}`" for kind in sorted(MOVE))
        + ".",
        "",
        "## Conditions",
        "",
        *table(
            ["condition", "applies to", "what is required", "what would lift it", "code"],
            [
                (
                    f"`{c.name}`",
                    "all" if set(c.kinds) == {*COMPUTE, *MOVE} else ", ".join(sorted(c.kinds)),
                    c.text,
                    c.lift,
                    f"`{c.code}`" if c.code else "",
                )
                for c in CONSTRAINTS
            ],
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"
