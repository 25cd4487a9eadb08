# SPDX-License-Identifier: Apache-2.0
"""A profile as text with the columns of the guide's text summary and ours, as CSV, as JSON."""

import csv
import io
import json
from collections.abc import Iterable, Sequence

from opendpu.profile.measure import Profile, Row

GUIDE = (
    ("WL", "wl_gop"), ("RT", "rt_ms"), ("Perf", "perf_gops"), ("LdWB", "ldwb_mb"),
    ("LdFM", "ldfm_mb"), ("StFM", "stfm_mb"), ("AvgBw", "avgbw_mb_s"),
)  # fmt: skip
OURS = (
    ("Cycles", "cycles"), ("useful", "useful"), ("lanes", "lanes"), ("load", "load"),
    ("save", "save"), ("misc", "misc"), ("issue", "issue"), ("fill", "fill"),
)  # fmt: skip
SMALL = 0.001
NOTES = """\
Notes:
"~0": within (0, 0.001)
Bat: batch
WL (GOP): workload, two operations a multiply-accumulate
RT (ms): Cycles at {clock:g} MHz; of layers that run beside the array, the time from their first
computing instruction to their last
Perf (GOP/s): WL / RT
LdWB, LdFM (MB): weights and biases, and feature maps, loaded from DDR
StFM (MB): feature maps stored to DDR
AvgBw (MB/s): all of these / RT
Util: multiply-accumulates of the array of those possible in Cycles; in the total, of all engines
Cycles = useful + lanes + load + save + misc + issue + fill: the array at its peak; lanes, rows or
channels of it that hold nothing; waiting for LOAD, for SAVE, for the misc engine; instructions that
were not there yet or set up the engine; a CONV under way without a step"""


def text(profile: Profile) -> str:
    """Return the tables that people read; numbers of cycles are rounded."""
    peak = profile.target.macs_per_cycle
    head = ("DPU Id", "Bat", "SubGraph", *(n for n, _ in GUIDE), "Util", *(n for n, _ in OURS))
    lines = [head]
    unit = f"{profile.target.name.split('_')[0]}_1"
    total = profile.total()
    for row in (*profile.rows(), total):
        values = row.as_dict(profile.clock_mhz, peak)
        lines.append(
            (
                unit if row is not total else "", "1" if row is not total else "", row.layer,
                *(_small(values[key]) for _, key in GUIDE), f"{values['utilization']:.1%}",
                *(f"{values[key]:.0f}" for _, key in OURS),
            )
        )  # fmt: skip
    parts = [
        f"{profile.name} on {profile.target.name}, device {profile.device}, "
        f"memory {profile.memory}\n{summary(profile)}",
        "DPU Summary:",
        _table(lines, left=3),
        NOTES.format(clock=profile.clock_mhz),
        "Engines (cycles with unfinished work; array: with a step):",
        _engines(profile),
    ]
    if profile.cpu:
        tasks = [("SubGraph", "Ops", "Device")]
        tasks += [(name, ",".join(ops), device) for name, ops, device in profile.cpu]
        parts += ["CPU Tasks in Graph (not timed):", _table(tasks, left=3)]
    return "\n\n".join(parts) + "\n"


def _engines(profile: Profile) -> str:
    """Return a row a subgraph: instructions, cycles, and what each engine was busy with."""
    names = list(dict.fromkeys(n for run in profile.runs for n in run.statistics.busy_cycles))
    rows = [("SubGraph", "Instructions", "Cycles", *names)]
    for run in profile.runs:
        busy = run.statistics.busy_cycles
        shares = (f"{busy.get(name, 0) / max(run.statistics.cycles, 1):.1%}" for name in names)
        count = str(len(run.view.instructions))
        rows.append((run.view.name, count, str(run.statistics.cycles), *shares))
    return _table(rows, left=1)


def summary(profile: Profile) -> str:
    """Return the total in one line."""
    total = profile.total()
    values = total.as_dict(profile.clock_mhz, profile.target.macs_per_cycle)
    shares = ", ".join(
        f"{name} {values[key] / max(values['cycles'], 1):.1%}" for name, key in OURS[1:]
    )
    return (
        f"{values['cycles']:,.0f} cycles, utilization {values['utilization']:.1%}; "
        f"shares of the cycles: {shares}"
    )


def csv_text(profile: Profile) -> str:
    """Return a line a layer, and the total last."""
    stream = io.StringIO()
    rows: list[Row] = [*profile.rows(), profile.total()]
    peak = profile.target.macs_per_cycle
    values = [row.as_dict(profile.clock_mhz, peak) for row in rows]
    writer = csv.DictWriter(stream, list(values[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(values)
    return stream.getvalue()


def json_text(profile: Profile) -> str:
    """Return everything but the timelines."""
    return json.dumps(profile.as_dict(), indent=1) + "\n"


def _small(value: float) -> str:
    return "~0" if 0 < value < SMALL else f"{value:.3f}"


def _table(lines: Sequence[Iterable[str]], left: int) -> str:
    """Return cells in columns; the first ``left`` columns start at the left."""
    rows = [list(line) for line in lines]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    made = []
    for row in rows:
        cells = [
            cell.ljust(width) if n < left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        made.append(" | ".join(cells).rstrip())
    made.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(made)
