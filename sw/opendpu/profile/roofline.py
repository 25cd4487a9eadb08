# SPDX-License-Identifier: Apache-2.0
"""The roofline picture: operations a second over operations a byte of DDR, layer by layer."""

import math

from opendpu.drawing import Canvas
from opendpu.drawing.canvas import Box, Circle, Line, Text, text_width
from opendpu.profile.measure import Profile, Row

WIDTH, HEIGHT = 900, 560
LEFT, RIGHT, TOP, BOTTOM = 80, 30, 50, 60
MEMORY_BYTES = {"kv260": 48, "ideal": 64}
"""Most bytes that both data ports move in a cycle: reads and writes together."""
DEFAULT_BYTES = 64
LEAST_INTENSITY, MOST_INTENSITY = 0.5, 4096.0


def roofline(profile: Profile) -> Canvas:
    """Return the picture; a disc's area is the layer's share of the cycles."""
    ceiling = profile.target.peak * profile.clock_mhz / 1e3
    width = MEMORY_BYTES.get(profile.memory, DEFAULT_BYTES) * profile.clock_mhz / 1e3
    rows = [row for row in profile.rows() if row.work.operations and row.span]
    axes = _Axes(rows, profile, ceiling)
    canvas = Canvas(WIDTH, HEIGHT)
    title = f"{profile.name} on {profile.target.name}, {profile.device}, {profile.memory}"
    canvas.add(Text(LEFT, 24, title, 14))
    axes.draw(canvas)
    ridge = ceiling / width
    canvas.add(
        Line(
            (
                axes.at(LEAST_INTENSITY, LEAST_INTENSITY * width),
                axes.at(ridge, ceiling),
                axes.at(MOST_INTENSITY, ceiling),
            ),
            "#b03030",
            2,
        ),
        Text(*_above(axes.at(MOST_INTENSITY, ceiling)), f"{ceiling:.0f} GOP/s", 11, "end"),
        Text(*_above(axes.at(ridge, ceiling)), f"{width:.1f} GB/s", 11, "end"),
    )
    total = max(sum(float(row.cycles) for row in rows), 1)
    for row in sorted(rows, key=lambda r: -r.cycles):
        intensity, speed = _place(row, profile)
        x, y = axes.at(intensity, speed)
        radius = 3 + 28 * math.sqrt(float(row.cycles) / total)
        colour = "#3070b0" if row.work.array_macs else "#c08020"
        label = (
            f"{row.layer}: {intensity:.1f} operations a byte, {speed:.0f} GOP/s, "
            f"{float(row.cycles):.0f} cycles"
        )
        canvas.add(Circle(x, y, radius, colour, label))
        if float(row.cycles) > total / 30:
            canvas.add(Text(x, y - radius - 3, row.layer, 9, "middle"))
    for number, (colour, name) in enumerate((("#3070b0", "CONV"), ("#c08020", "other engines"))):
        y = HEIGHT - BOTTOM - 40 + 16 * number
        canvas.add(Box(WIDTH - RIGHT - 130, y - 9, 10, 10, colour))
        canvas.add(Text(WIDTH - RIGHT - 114, y, name))
    return canvas


def _above(point: tuple[float, float]) -> tuple[float, float]:
    return point[0] - 4, point[1] - 6


def _place(row: Row, profile: Profile) -> tuple[float, float]:
    """Return operations a byte, within the picture, and GOP/s."""
    moved = row.weight_bytes + row.load_bytes + row.save_bytes
    intensity = row.work.operations / moved if moved else MOST_INTENSITY
    seconds = row.span / (profile.clock_mhz * 1e6)
    return (
        min(max(intensity, LEAST_INTENSITY), MOST_INTENSITY),
        row.work.operations / 1e9 / seconds,
    )


class _Axes:
    """Logarithmic axes."""

    def __init__(self, rows: list[Row], profile: Profile, ceiling: float) -> None:
        speeds = [_place(row, profile)[1] for row in rows]
        least = min([*speeds, ceiling / 100])
        self.low = 10 ** math.floor(math.log10(least))
        self.high = ceiling * 2

    def at(self, intensity: float, speed: float) -> tuple[float, float]:
        """Return the point of a pair of values."""
        across = math.log(intensity / LEAST_INTENSITY) / math.log(MOST_INTENSITY / LEAST_INTENSITY)
        up = math.log(max(speed, self.low) / self.low) / math.log(self.high / self.low)
        return (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM),
        )

    def draw(self, canvas: Canvas) -> None:
        """Draw grid and labels."""
        intensity = 1.0
        while intensity <= MOST_INTENSITY:
            x, _ = self.at(intensity, self.low)
            canvas.add(Line(((x, TOP), (x, HEIGHT - BOTTOM)), "#dddddd"))
            canvas.add(Text(x, HEIGHT - BOTTOM + 16, f"{intensity:g}", 10, "middle"))
            intensity *= 4
        speed = self.low
        while speed <= self.high:
            _, y = self.at(1, speed)
            canvas.add(Line(((LEFT, y), (WIDTH - RIGHT, y)), "#dddddd"))
            canvas.add(Text(LEFT - 6, y + 4, f"{speed:g}", 10, "end"))
            speed *= 10
        canvas.add(
            Text((WIDTH + LEFT) / 2, HEIGHT - 16, "operations a byte of DDR", 12, "middle"),
            Text(LEFT - text_width("GOP/s"), TOP - 8, "GOP/s", 12),
        )
