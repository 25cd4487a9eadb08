# SPDX-License-Identifier: Apache-2.0
"""What the demo prints: digits as pictures, and the summary."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.columns import Columns
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

SHADES = "  ░░▒▒▓▓██"
"""Five grey levels, two characters a pixel."""


@dataclasses.dataclass(frozen=True)
class Result:
    """One image on all three machines."""

    label: int
    float_class: int
    iss_class: int
    rtl_class: int
    same_bytes: bool
    """The RTL's output bytes are the functional simulator's."""
    cycles: int
    seconds: float
    """Wall time of the RTL's run."""


def picture(image: npt.NDArray[np.float32]) -> Text:
    """Return an image [8, 8] in 0..1 as eight lines of text."""
    levels = np.clip(np.round(image * 4), 0, 4).astype(int)
    rows = ("".join(SHADES[2 * v : 2 * v + 2] for v in row) for row in levels)
    return Text("\n".join(rows))


def card(image: npt.NDArray[np.float32], result: Result) -> Panel:
    """Return a picture with what the machines saw in it."""
    right = result.rtl_class == result.label
    verdict = Text.assemble(
        f"float {result.float_class}\nISS {result.iss_class} ",
        ("=" if result.same_bytes else "DIFFERS FROM", "" if result.same_bytes else "bold red"),
        (f" RTL {result.rtl_class}\n", "bold green" if right else "bold yellow"),
        (f"{result.cycles} cycles", "dim"),
    )
    title = f"a {result.label}" if right else f"a {result.label}, wrong"
    return Panel(Group(picture(image), verdict), title=title, width=20)


def gallery(images: npt.NDArray[np.float32], results: Sequence[Result]) -> Columns:
    """Return the cards of images [n, 8, 8] side by side."""
    return Columns(card(image, result) for image, result in zip(images, results, strict=True))


def accuracy(found: Sequence[int], labels: Sequence[int]) -> str:
    """Return how many of ``found`` are right, as text."""
    right = sum(f == label for f, label in zip(found, labels, strict=True))
    return f"{right / len(labels):.1%} ({right} of {len(labels)})"


def summary(results: Sequence[Result], *, target: str, macs: int, macs_per_cycle: int) -> Table:
    """Return the figures of a run; ``macs`` is the multiply-accumulates of an image."""
    labels = [r.label for r in results]
    cycles = sum(r.cycles for r in results) / len(results)
    seconds = sum(r.seconds for r in results)
    same = sum(r.same_bytes for r in results)
    table = Table(show_header=False, title=f"{len(results)} test images on {target}")
    table.add_row(
        "accuracy, float (onnxruntime)", accuracy([r.float_class for r in results], labels)
    )
    table.add_row("accuracy, INT8 on the ISS", accuracy([r.iss_class for r in results], labels))
    table.add_row("accuracy, INT8 on the RTL", accuracy([r.rtl_class for r in results], labels))
    table.add_row("RTL = ISS, bit for bit", f"{same} of {len(results)} images")
    table.add_row("cycles an image", f"{cycles:.0f} ({cycles / 300:.1f} µs at 300 MHz)")
    table.add_row(
        "array utilisation",
        f"{macs / (macs_per_cycle * cycles):.1%} "
        f"({macs} multiplications, {macs_per_cycle} a cycle)",
    )
    table.add_row(
        "RTL simulation",
        f"{seconds:.2f} s, {cycles * len(results) / seconds / 1000:.0f} thousand cycles a second",
    )
    return table


def closing(console: Console, elapsed: float) -> None:
    """Say how long it took and what to try next."""
    console.print(f"\nDone in {elapsed:.1f} s. What to try next:")
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_row(".venv/bin/opendpu --help", "compile and run your own models")
    table.add_row(".venv/bin/opendpu targets", "the machines there are")
    table.add_row(".venv/bin/python scripts/demo/run.py -h", "other targets and memories")
    console.print(table)
