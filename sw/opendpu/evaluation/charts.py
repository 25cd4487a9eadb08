# SPDX-License-Identifier: Apache-2.0
"""Pictures of a quantization: histograms with the scale, signal to noise by layer."""

import math
from collections.abc import Sequence

from opendpu.drawing import Canvas
from opendpu.drawing.canvas import Box, Circle, Line, Text
from opendpu.ir import Quantization
from opendpu.quantize.report import LayerReport, TensorReport

BLUE, RED, GREY = "#3070b0", "#b03030", "#d8d8d8"

WIDTH, HEIGHT = 240, 70
"""Of a histogram."""
CHART_WIDTH, CHART_HEIGHT = 900, 260
"""Of the chart of layers."""
BAR_WIDTH, BAR_HEIGHT = 160, 12

BARS = 80
"""Bars of a histogram at most: finer ones are not seen, but make pages large."""

GOOD = 40.0
"""Signal to noise, dB, that fills a bar."""


def limits_of(tensor: TensorReport) -> tuple[float, float] | None:
    """Return the smallest and largest real number that a tensor can be; none without one scale."""
    if len(tensor.scale) != 1 or tensor.number_format != "int":
        return None
    low, high = Quantization(tensor.scale, bits=tensor.bits).limits
    return low * tensor.scale[0], high * tensor.scale[0]


def histogram(tensor: TensorReport) -> Canvas | None:
    """Return how often values occur, on a logarithmic scale, and the range of the integers.

    What lies outside of the two red lines saturates.
    """
    counted = tensor.histogram
    if counted is None or not any(counted.counts):
        return None
    limits = limits_of(tensor)
    low, high = counted.low, counted.high
    if limits is not None:
        low, high = min(low, limits[0]), max(high, limits[1])
    span = (high - low) or 1.0
    canvas = Canvas(WIDTH, HEIGHT)
    counts = _joined(counted.counts)
    step = (counted.high - counted.low) / len(counted.counts) * -(-len(counted.counts) // BARS)
    most = math.log1p(max(counts))
    base = HEIGHT - 14

    def across(value: float) -> float:
        return (value - low) / span * WIDTH

    for number, count in enumerate(counts):
        if not count:
            continue
        tall = (base - 4) * math.log1p(count) / most
        ends = (min(counted.low + step * (number + n), counted.high) for n in (0, 1))
        left, right = (across(end) for end in ends)
        canvas.add(Box(left, base - tall, max(right - left, 0.5), tall, BLUE))
    canvas.add(Line(((0, base), (WIDTH, base)), GREY))
    if limits is not None:
        for limit in limits:
            canvas.add(Line(((across(limit), 2), (across(limit), base)), RED, 1.5))
    canvas.add(
        Text(0, HEIGHT - 2, f"{low:.3g}", 9), Text(WIDTH, HEIGHT - 2, f"{high:.3g}", 9, "end")
    )
    return canvas


def _joined(counts: Sequence[int]) -> list[int]:
    """Return at most ``BARS`` counts, of so many neighbouring bins each."""
    many = -(-len(counts) // BARS)
    return [sum(counts[start : start + many]) for start in range(0, len(counts), many)]


def bar(ratio: float | None) -> Canvas:
    """Return a signal to noise ratio as a bar; full where nothing is lost."""
    canvas = Canvas(BAR_WIDTH, BAR_HEIGHT)
    part = 1.0 if ratio is None else min(max(ratio / GOOD, 0.02), 1.0)
    colour = RED if ratio is not None and ratio < 15 else BLUE
    canvas.add(
        Box(0, 0, BAR_WIDTH, BAR_HEIGHT, "#eeeeee"), Box(0, 0, BAR_WIDTH * part, BAR_HEIGHT, colour)
    )
    return canvas


def by_layer(layers: Sequence[LayerReport]) -> Canvas | None:
    """Return the signal to noise of every layer's result, in order of the network."""
    given = [layer for layer in layers if layer.output_sqnr is not None]
    ratios = [layer.output_sqnr for layer in given if layer.output_sqnr is not None]
    finite = [ratio for ratio in ratios if math.isfinite(ratio)]
    if len(finite) < 2:
        return None
    low, high = min(0.0, *finite), max(finite)
    canvas = Canvas(CHART_WIDTH, CHART_HEIGHT)
    left, top, bottom = 44, 10, CHART_HEIGHT - 24

    def at(number: int, ratio: float) -> tuple[float, float]:
        ratio = min(max(ratio, low), high)
        wide = CHART_WIDTH - left - 10
        return (
            left + wide * number / max(len(ratios) - 1, 1),
            bottom - (bottom - top) * (ratio - low) / ((high - low) or 1.0),
        )

    for level in range(math.ceil(low / 10) * 10, math.floor(high) + 1, 10):
        y = at(0, float(level))[1]
        canvas.add(
            Line(((left, y), (CHART_WIDTH - 10, y)), GREY),
            Text(left - 6, y + 4, f"{level} dB", 9, "end"),
        )
    points = [at(number, ratio) for number, ratio in enumerate(ratios)]
    canvas.add(Line(tuple(points), BLUE, 1.5))
    for point, layer, ratio in zip(points, given, ratios, strict=True):
        colour = RED if ratio < 15 else BLUE
        canvas.add(Circle(*point, 3, colour, f"{layer.name} ({layer.kind}): {ratio:.1f} dB"))
    canvas.add(Text(left, CHART_HEIGHT - 6, "from the inputs to the outputs", 9))
    return canvas
