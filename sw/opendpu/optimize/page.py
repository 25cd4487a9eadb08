# SPDX-License-Identifier: Apache-2.0
"""The report of an optimization as one HTML page, pictures inside."""

from collections.abc import Sequence

from opendpu.drawing import Canvas
from opendpu.drawing.canvas import Circle, Line, Text
from opendpu.evaluation.markup import Content, Markup, document, element, joined, picture, table
from opendpu.evaluation.page import STYLE
from opendpu.optimize.flow import Optimized, Step, removed_parts

BLUE, RED, GREY = "#3070b0", "#b03030", "#d8d8d8"
WIDTH, HEIGHT, MARGIN = 520, 300, 56
CURVE_WIDTH, CURVE_HEIGHT = 180, 46


def report(name: str, found: Optimized) -> str:
    """Return the report of a network called ``name`` as an HTML document."""
    title = f"Optimization of {name} for {found.settings.target.name}"
    parts: list[Content] = [
        element("h1", title),
        _steps(found),
        element("h2", "Accuracy against cost"),
        picture(pareto(found.steps, "cycles")),
        picture(pareto(found.steps, "macs")),
        _cut(found),
        _layers(found),
        _candidates(found),
        _sensitivities(found),
        _kept(found),
    ]
    return document(title, STYLE, joined(parts))


def shown_score(found: Optimized, score: float) -> str:
    """Return a score with its unit."""
    return f"{100 * score:.2f} %" if found.by_classes else f"{-score:.6g} mean squared error"


def _steps(found: Optimized) -> Markup:
    first = found.steps[0]
    rows = [
        (
            step.name, shown_score(found, step.score), _count(step.macs, first.macs),
            _count(step.params, first.params), _count(step.cycles, first.cycles),
            f"{step.utilization:.1%}",
        )
        for step in found.steps
    ]  # fmt: skip
    heads = ("", "score of the test part", "MACs", "parameters", "cycles", "of the array")
    rounding = found.rounding
    text = (
        f"Numbers of channels are multiples of what {found.settings.target.name} takes at a time, "
        f"{found.settings.target.channel_parallel}, where layers have two such blocks. With any "
        f"numbers, {rounding.exact_macs:,} MACs take {rounding.exact_cycles:,} cycles; rounded, "
        f"{rounding.macs:,} MACs take {rounding.cycles:,}."
    )
    return joined((table(heads, rows), element("p", text), element("p", SPARSITY)))


SPARSITY = (
    "DPUCZDX8G multiplies zeros as other weights: N:M sparsity (SparsePruner) makes no network "
    "faster on it; only whole channels do."
)


def _count(value: int, before: int) -> str:
    return f"{value:,} ({value / before:.1%})" if before and value != before else f"{value:,}"


def pareto(steps: Sequence[Step], cost: str) -> Canvas:
    """Return the score of each step against what it costs, those that nothing beats in blue."""
    canvas = Canvas(WIDTH, HEIGHT)
    points = [(float(getattr(step, cost)), step.score, step.name) for step in steps]
    most = max(x for x, _, _ in points) or 1.0
    low, high = min(y for _, y, _ in points), max(y for _, y, _ in points)
    pad = (high - low) * 0.15 or abs(high) * 0.05 or 1.0
    low, high = low - pad, high + pad

    def place(x: float, y: float) -> tuple[float, float]:
        across = MARGIN + x / (most * 1.08) * (WIDTH - 2 * MARGIN)
        return across, HEIGHT - MARGIN - (y - low) / (high - low) * (HEIGHT - 2 * MARGIN)

    base, left = HEIGHT - MARGIN, float(MARGIN)
    canvas.add(Line(((left, base), (WIDTH - MARGIN / 2, base)), GREY))
    canvas.add(Line(((left, MARGIN / 2), (left, base)), GREY))
    best = [p for p in points if not any(o[0] <= p[0] and o[1] >= p[1] and o != p for o in points)]
    front = sorted(best)
    if len(front) > 1:
        canvas.add(Line(tuple(place(x, y) for x, y, _ in front), BLUE, 1.5))
    for x, y, name in points:
        at = place(x, y)
        canvas.add(Circle(*at, 4, BLUE if (x, y, name) in best else GREY, f"{name}: {x:,.0f}"))
        canvas.add(Text(at[0] + 6, at[1] - 6, name, 10))
    for fraction in (0.0, 0.5, 1.0):
        across = place(most * fraction, low)[0]
        canvas.add(Text(across, base + 16, f"{most * fraction:,.0f}", 10, "middle"))
    for y in (low + pad, high - pad):
        canvas.add(Text(left - 4, place(0, y)[1] + 3, f"{y:.4g}", 10, "end"))
    label = {"cycles": "cycles", "macs": "MACs"}[cost]
    canvas.add(Text(WIDTH / 2, HEIGHT - 12, label, 11, "middle"))
    return canvas


def _cut(found: Optimized) -> Markup:
    rows = [
        (element("code", name), str(before), str(after), f"{1 - after / before:.0%}",
         "in whole blocks: it has depthwise convolutions" if name in found.depthwise else "")
        for name, before, after in removed_parts(found)
    ]  # fmt: skip
    heads = ("channels of", "before", "after", "cut", "")
    return joined((element("h2", "What was cut"), table(heads, rows)))


def _layers(found: Optimized) -> Markup:
    rows = [
        (element("code", name), f"{before:,.0f}", f"{after:,.0f}", f"{before - after:,.0f}")
        for name, (before, after) in found.layers.items()
    ]
    heads = ("layer of the program", "cycles before", "after", "saved")
    return joined((element("h2", "What it brought on the DPU"), table(heads, rows)))


def _candidates(found: Optimized) -> Markup | None:
    """Return what was tried in each round, with the scores after longer and longer training."""
    if not found.tried:
        return None
    parts: list[Content] = [element("h2", "Candidates")]
    text = (
        "Choices of widths of one cost, trained a little, the better half twice as long, and so "
        "on. Scores are the logarithm of the likelihood of the labels, or the negative squared "
        "error, of samples that are not of the test part; the first is the analysis' own choice."
    )
    parts.append(element("p", text))
    for name, known in found.tried.items():
        efforts = sorted({effort for scores in known.scores for effort in scores})
        rows = [
            (
                f"{number + 1}{', taken' if number == known.best else ''}",
                " ".join(str(width) for width in widths.values()),
                *(f"{scores[effort]:.4g}" if effort in scores else "" for effort in efforts),
            )
            for number, (widths, scores) in enumerate(zip(known.widths, known.scores, strict=True))
        ]  # fmt: skip
        heads = (name, "widths of the groups", *(f"trained {effort}x" for effort in efforts))
        parts.append(table(heads, rows))
    return joined(parts)


def _sensitivities(found: Optimized) -> Markup:
    rows = []
    base = found.analysis.baseline or 0.0
    worst = max(
        (base - s for known in found.analysis.scores.values() for s in known.values()), default=0.0
    )
    for name, known in found.analysis.scores.items():
        widest = max(known, default=0)
        points = [(count, base - score) for count, score in sorted(known.items())]
        lost = f"{100 * points[-1][1]:.1f}" if found.by_classes else f"{points[-1][1]:.4g}"
        rows.append((element("code", name), picture(_curve(points, widest, worst)), lost))
    text = (
        "By how much the score falls with more and more of a group at zero, untrained; all curves "
        "have the same scale."
    )
    heads = ("channels of", "none to nine tenths cut", "lost at the end")
    return joined((element("h2", "Sensitivity"), element("p", text), table(heads, rows)))


def _curve(points: Sequence[tuple[int, float]], widest: int, worst: float) -> Canvas:
    canvas = Canvas(CURVE_WIDTH, CURVE_HEIGHT)
    scale = worst or 1.0
    canvas.add(Line(((0, CURVE_HEIGHT - 3), (CURVE_WIDTH, CURVE_HEIGHT - 3)), GREY))
    path = tuple(
        (count / max(widest, 1) * CURVE_WIDTH,
         CURVE_HEIGHT - 3 - max(lost, 0.0) / scale * (CURVE_HEIGHT - 6))
        for count, lost in ((0, 0.0), *points)
    )  # fmt: skip
    canvas.add(Line(path, RED, 1.5))
    return canvas


def _kept(found: Optimized) -> Markup | None:
    if not found.kept:
        return None
    rows = [(element("code", name), why) for name, why in found.kept.items()]
    return joined((element("h2", "What stays whole"), table(("channels of", "because"), rows)))
