# SPDX-License-Identifier: Apache-2.0
"""Shapes as SVG and PNG."""

import builtins
import io
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from opendpu.drawing import Canvas
from opendpu.drawing.canvas import Box, Circle, Line, Text
from opendpu_arch.errors import ToolError

SVG = "{http://www.w3.org/2000/svg}"


def drawn() -> Canvas:
    canvas = Canvas(40, 30)
    canvas.add(
        Box(1, 2, 10, 5.25, "#ff0000", title="a < b"),
        Line(((0, 0), (40, 30)), arrow=True),
        Circle(30, 10, 4, "#0000ff"),
        Text(5, 25, "x & <y>", anchor="middle"),
    )
    return canvas


def test_svg() -> None:
    root = ElementTree.fromstring(drawn().svg())
    assert root.attrib["viewBox"] == "0 0 40 30"
    box = root.findall(f"{SVG}rect")[1]
    assert (box.attrib["x"], box.attrib["height"], box.attrib["fill"]) == ("1", "5.2", "#ff0000")
    assert box.findtext(f"{SVG}title") == "a < b"
    assert root.findtext(f"{SVG}text") == "x & <y>"
    assert root.find(f"{SVG}polyline").attrib["points"] == "0,0 40,30"  # type: ignore[union-attr]
    assert root.find(f"{SVG}circle").attrib["r"] == "4"  # type: ignore[union-attr]


def test_png() -> None:
    image = pytest.importorskip("PIL.Image")
    found = image.open(io.BytesIO(drawn().png(scale=2)))
    assert found.size == (80, 60)
    assert found.getpixel((4, 12)) == (255, 0, 0)
    assert found.getpixel((60, 20)) == (0, 0, 255)


def test_png_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refusing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "PIL" or name.startswith("PIL."):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(ToolError, match=r"needs the package Pillow.*pip install pillow.*\.svg"):
        drawn().png()
