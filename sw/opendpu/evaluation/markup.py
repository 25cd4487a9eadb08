# SPDX-License-Identifier: Apache-2.0
"""HTML out of elements, with everything escaped that is text."""

from collections.abc import Iterable, Sequence
from html import escape

from opendpu.drawing import Canvas


class Markup(str):
    """Text that is HTML already."""


Content = str | Markup | None


def element(tag: str, *content: Content, **attributes: str) -> Markup:
    """Return an element; ``class_`` is its class. Plain text in it is escaped."""
    given = "".join(f' {name.rstrip("_")}="{escape(value)}"' for name, value in attributes.items())
    inside = "".join(html(one) for one in content if one is not None)
    return Markup(f"<{tag}{given}>{inside}</{tag}>")


def html(content: str | Markup) -> str:
    """Return content as HTML."""
    return str(content) if isinstance(content, Markup) else escape(content)


def joined(parts: Iterable[Content]) -> Markup:
    """Return content one after the other."""
    return Markup("\n".join(html(one) for one in parts if one is not None))


def table(heads: Sequence[str], rows: Iterable[Sequence[Content]]) -> Markup:
    """Return a table with a row of heads."""
    top = element("tr", *(element("th", head) for head in heads))
    body = (element("tr", *(element("td", cell) for cell in row)) for row in rows)
    return element("table", element("thead", top), element("tbody", *body))


def picture(canvas: Canvas) -> Markup:
    """Return a picture as SVG inside the page."""
    text = canvas.svg()
    return Markup(text[text.index("<svg") :])


def document(title: str, style: str, body: Markup) -> str:
    """Return a whole page that needs nothing else."""
    head = joined(
        (
            Markup('<meta charset="utf-8">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            element("title", title),
            element("style", Markup(style)),
        )
    )
    whole = element("html", element("head", head), element("body", body), lang="en")
    return f"<!doctype html>\n{whole}\n"
