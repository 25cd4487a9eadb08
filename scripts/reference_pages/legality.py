# SPDX-License-Identifier: Apache-2.0
"""docs/reference/legality.md: what a target refuses."""

from opendpu_arch import legal
from reference_pages.markdown import NOTE, sentence, table


def page() -> str:
    """Return docs/reference/legality.md."""
    lines = [
        "# What a target refuses",
        "",
        NOTE,
        "",
        "An instruction that breaks one of these rules stops the DPU with `ILLEGAL_FIELD` in",
        "[STATUS](registers.md), in the functional simulator as in the gateware. Everything that",
        "they let through has a defined result. The functional simulator names the rule's field,",
        "its value and what was allowed. Fields of an [extension](../extensions.md) that a target",
        "lacks are refused by the functional simulator only: the gateware of a plain target",
        "ignores them, as AMD's does.",
        "",
        *table(
            ["rule", "applies to", "what is required", "why"],
            [
                (
                    f"`{rule.name}`",
                    ", ".join(cls.mnemonic() for cls in rule.applies_to),
                    rule.text,
                    sentence(rule.broken.__doc__),
                )
                for rule in legal.RULES
            ],
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"
