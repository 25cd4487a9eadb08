# SPDX-License-Identifier: Apache-2.0
"""The pages: every relative link leads somewhere, anchors included."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(page: pathlib.Path) -> set[str]:
    """What GitHub makes of the headings."""
    words = (re.sub(r"[^\w\- ]", "", h.lower()) for h in HEADING.findall(page.read_text("utf-8")))
    return {w.strip().replace(" ", "-") for w in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: pathlib.Path) -> None:
    links = LINK.findall(CODE.sub("`", page.read_text(encoding="utf-8")))
    for link in links:
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


def test_there_are_pages_with_links() -> None:
    assert len(PAGES) > 10
    assert LINK.search((ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_readme_leads_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in ROOT.glob("docs/**/*.md"):
        assert f"({page.relative_to(ROOT)})" in readme, page.name
