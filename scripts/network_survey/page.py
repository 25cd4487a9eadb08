# SPDX-License-Identifier: Apache-2.0
"""The page of networks, from what was measured of each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from network_survey.measure import CALIBRATION, LEAST_UTILIZATION, MEMORY, SLOW_SHARE, TEST

Result = Mapping[str, Any]

TARGETS = ("B512", "B4096")
HEAD = """\
# Networks

What becomes of networks that people have: trained ones that ship inside Python packages (`pip
install -e .[networks]`), and our own definitions of well-known ones with random weights, in the
form in which exporters write them. This page is written by `scripts/networks_page.py`, which
measures one network after the other; others that were tried are [noted by hand](other_networks.md).

**hard** behind a name: with `--activation-substitution hard`; **table**: for a target with the
extension `table` ([extensions](extensions.md)), without substitution. Columns:

* GMAC: billions of multiply-accumulates, those of products of feature maps too, those inside
  recurrent layers not; *on DPU*: the share that the DPU computes.
* DPU, CPU: subgraphs of each; *CPU ms*: time that the CPU parts are expected to take on one
  Cortex-A53 core.
* cycles: of all DPU parts together, by the cycle model with memory `{memory}`; *use*: the share of
  the multiplier array's peak, depthwise kernels included.
* quantize, compile: seconds and peak of memory of the process in MB, with {calibration} samples.
* SQNR: signal to quantization noise of the worst output, compiled network on the functional
  simulator against the float network (of `hard` too, against the original); *agree*: how many of
  the decisions of {test} samples are the same.

Samples are photographs, scanned text, files and lines of text drawn over photographs, from
installed packages; sound is made up. Decisions of networks with random weights mean little, because
their scores are close together. Taps of dilated kernels that meet nothing but padding cost
neither multiply-accumulates nor cycles on the DPU.
"""


def page(results: Mapping[str, Mapping[str, Result]], machine: Mapping[str, str]) -> str:
    """Return the page; ``results`` are by network and substitution."""
    head = HEAD.format(memory=MEMORY, calibration=CALIBRATION, test=TEST)
    told = ", ".join(f"{key} {value}" for key, value in machine.items())
    rows = [
        (_label(name, kind), result)
        for name, kinds in results.items()
        for kind, result in kinds.items()
    ]
    parts = [head, f"Measured on: {told}.\n"]
    for target in TARGETS:
        parts += [f"## {target}\n", _table(*_speed(rows, target))]
    parts += ["## Quantizing and compiling\n", _table(*_tools(rows))]
    parts += ["## Agreement with float\n", _table(*_agreement(rows))]
    parts += [_slow_head(), *_slow(rows)]
    return "\n".join(parts).rstrip() + "\n"


def _label(name: str, kind: str) -> str:
    return name if kind == "none" else f"{name} **{kind}**"


Rows = Sequence[tuple[str, Result]]
Table = tuple[Sequence[str], Iterable[Sequence[str]]]


def _speed(rows: Rows, target: str) -> Table:
    head = ("network", "GMAC", "on DPU", "DPU", "CPU", "cycles", "use", "CPU ms")
    lines = []
    for label, result in rows:
        found = result["targets"][target]
        macs = result["macs"]
        done = found["macs"] + found["cpu_macs"]
        share = f"{found['macs'] / done:.1%}" if done else "–"
        lines.append(
            (
                label, f"{macs / 1e9:.3f}", share, str(found["dpu"]),
                str(found["cpu"]), f"{found.get('cycles', 0):,}",
                f"{found.get('utilization', 0):.1%}", f"{found['cpu_ms']:.1f}",
            )
        )  # fmt: skip
    return head, lines


def _tools(rows: Rows) -> Table:
    head = ["network", "source", "task", "quantize s", "MB"]
    for target in TARGETS:
        head += [f"{target} s", "MB"]
    lines = []
    for label, result in rows:
        line = [label, result["source"], result["task"], f"{result['quantize_seconds']:.0f}",
                _megabytes(result["quantize_megabytes"])]  # fmt: skip
        for target in TARGETS:
            found = result["targets"][target]
            line += [f"{found['compile_seconds']:.0f}", _megabytes(found["compile_megabytes"])]
        lines.append(line)
    return head, lines


def _megabytes(peak: float | None) -> str:
    return "–" if peak is None else f"{peak:.0f}"


def _agreement(rows: Rows) -> Table:
    lines = []
    for label, result in rows:
        found = next(f for f in result["targets"].values() if "sqnr" in f)
        ratio = "exact" if found["sqnr"] is None else f"{found['sqnr']:.1f} dB"
        counted = "–"
        if found["agreement"] is not None:
            what, same, count = found["agreement"]
            counted = f"{what}: {same:,} of {count:,}"
        lines.append((label, result["form"], ratio, counted))
    return ("network", "samples", "SQNR", "agree"), lines


def _slow_head() -> str:
    return (
        "## Layers that leave the array idle\n\n"
        f"Those on B4096 that use less than {LEAST_UTILIZATION:.0%} of the array and take at least "
        f"{SLOW_SHARE:.0%} of\na network's cycles, with the main reason that the "
        "[profile](profile.md) gives: misc is what the\narray does not compute, such as depthwise "
        "kernels, pooling and products of feature maps.\n"
    )


def _slow(rows: Rows) -> Iterable[str]:
    for label, result in rows:
        slow = result["targets"]["B4096"].get("slow", ())
        if slow:
            told = ", ".join(
                f"`{row['layer']}` ({row['cycles']:,}, {row['reason']}, {row['utilization']:.0%})"
                for row in slow
            )
            yield f"* {label}: {told}"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    found = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in found)
