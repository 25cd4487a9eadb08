# SPDX-License-Identifier: Apache-2.0
"""Small pieces of Markdown."""

from collections.abc import Iterable, Sequence

NOTE = "<!-- Written by scripts/gen_docs.py; `make docs` writes it again. -->"
"""First lines of every generated page."""


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a Markdown table, a string a line."""
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row) + " |" for row in cells),
        "",
    ]


def sentence(doc: str | None) -> str:
    """Return the first line of a docstring."""
    return (doc or "").strip().splitlines()[0]
