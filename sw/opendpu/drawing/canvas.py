# SPDX-License-Identifier: Apache-2.0
"""A canvas: boxes, lines, circles and text in pixels, top left first; as SVG or as PNG."""

import dataclasses
import io
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from opendpu_arch.errors import ToolError

Point = tuple[float, float]

GLYPH = 0.62
"""Width of a monospaced character, in font sizes."""


@dataclasses.dataclass(frozen=True)
class Box:
    """A rectangle; ``title`` shows up under the mouse."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = "none"
    title: str = ""


@dataclasses.dataclass(frozen=True)
class Line:
    """A path through points, with an arrow head at its end where ``arrow`` is set."""

    points: tuple[Point, ...]
    stroke: str = "#555555"
    width: float = 1
    arrow: bool = False


@dataclasses.dataclass(frozen=True)
class Circle:
    """A disc."""

    x: float
    y: float
    radius: float
    fill: str
    title: str = ""


@dataclasses.dataclass(frozen=True)
class Text:
    """One line of text; ``anchor`` is start, middle or end, ``y`` its base line."""

    x: float
    y: float
    text: str
    size: float = 11
    anchor: str = "start"
    fill: str = "#000000"


class Canvas:
    """Shapes in drawing order.

    Parameters
    ----------
    width, height
        Size in pixels.
    """

    def __init__(self, width: float, height: float) -> None:
        self.width = width
        self.height = height
        self.shapes: list[Box | Line | Circle | Text] = []

    def add(self, *shapes: Box | Line | Circle | Text) -> None:
        """Draw shapes over what is there."""
        self.shapes += shapes

    def svg(self) -> str:
        """Return the picture as an SVG document."""
        lines = [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(self.width)}" '
            f'height="{_n(self.height)}" viewBox="0 0 {_n(self.width)} {_n(self.height)}" '
            'font-family="monospace">',
            '<defs><marker id="head" markerWidth="7" markerHeight="6" refX="6" refY="3" '
            'orient="auto"><path d="M0,0 L7,3 L0,6 z" fill="#555555"/></marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *(_svg_shape(shape) for shape in self.shapes),
            "</svg>",
            "",
        ]
        return "\n".join(lines)

    def png(self, scale: float = 2) -> bytes:
        """Return the picture as a PNG file, ``scale`` pixels a pixel.

        Raises
        ------
        ToolError
            Pillow is not installed.
        """
        try:
            from PIL import Image, ImageDraw, ImageFont
        except ImportError:
            raise ToolError(
                "a PNG picture needs the package Pillow; try: pip install pillow, or write an .svg"
            ) from None
        size = (round(self.width * scale), round(self.height * scale))
        image = Image.new("RGB", size, "#ffffff")
        pen = ImageDraw.Draw(image)
        for shape in self.shapes:
            match shape:
                case Box():
                    x, y = shape.x * scale, shape.y * scale
                    corner = (x + shape.width * scale, y + shape.height * scale)
                    fill, stroke = (None if c == "none" else c for c in (shape.fill, shape.stroke))
                    pen.rectangle((x, y, *corner), fill=fill, outline=stroke)
                case Line():
                    points = [(x * scale, y * scale) for x, y in shape.points]
                    pen.line(points, fill=shape.stroke, width=max(1, round(shape.width * scale)))
                case Circle():
                    x, y, r = (v * scale for v in (shape.x, shape.y, shape.radius))
                    pen.ellipse((x - r, y - r, x + r, y + r), fill=shape.fill)
                case Text():
                    font = ImageFont.load_default(shape.size * scale)
                    where = (shape.x * scale, shape.y * scale)
                    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
                    pen.text(where, shape.text, fill=shape.fill, font=font, anchor=anchor)
        stream = io.BytesIO()
        image.save(stream, "PNG")
        return stream.getvalue()


def text_width(text: str, size: float = 11) -> float:
    """Return about how wide a text is, in pixels."""
    return len(text) * size * GLYPH


def _svg_shape(shape: Box | Line | Circle | Text) -> str:
    match shape:
        case Box():
            return (
                f'<rect x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" '
                f'height="{_n(shape.height)}" fill="{shape.fill}" stroke="{shape.stroke}"'
                f"{_titled('rect', shape.title)}"
            )
        case Line():
            head = ' marker-end="url(#head)"' if shape.arrow else ""
            return (
                f'<polyline points="{_points(shape.points)}" fill="none" '
                f'stroke="{shape.stroke}" stroke-width="{_n(shape.width)}"{head}/>'
            )
        case Circle():
            return (
                f'<circle cx="{_n(shape.x)}" cy="{_n(shape.y)}" r="{_n(shape.radius)}" '
                f'fill="{shape.fill}"{_titled("circle", shape.title)}'
            )
        case Text():
            return (
                f'<text x="{_n(shape.x)}" y="{_n(shape.y)}" font-size="{_n(shape.size)}" '
                f"text-anchor={quoteattr(shape.anchor)} fill={quoteattr(shape.fill)}>"
                f"{escape(shape.text)}</text>"
            )


def _titled(element: str, title: str) -> str:
    return f"><title>{escape(title)}</title></{element}>" if title else "/>"


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
