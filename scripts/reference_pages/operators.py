# SPDX-License-Identifier: Apache-2.0
"""docs/reference/supported_operators.md: what the DPU can do of a network."""

from opendpu.compiler.constraints import CONSTRAINTS
from opendpu.compiler.fixed import COMPUTE, MOVE
from reference_pages.markdown import NOTE, table


def page() -> str:
    """Return docs/reference/supported_operators.md."""
    lines = [
        "# Operators on the DPU",
        "",
        NOTE,
        "",
        "The compiler gives an operator to the DPU if its kind is listed here and every condition",
        "below holds; everything else runs on the CPU, and the compiler's report says which",
        "condition failed. CP is the channel parallel of the [target](targets.md).",
        "",
        "## Kinds",
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
