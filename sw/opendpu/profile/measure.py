# SPDX-License-Identifier: Apache-2.0
"""Runs the DPU subgraphs of a model once, and says what every layer took."""

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from opendpu.profile.losses import CATEGORIES, OUTSIDE, Account, account
from opendpu.profile.program import ProgramView, Work
from opendpu.runtime.device import Job, JobStatistics, Segment
from opendpu.runtime.devices import open_device
from opendpu.runtime.program import Program, dpu_subgraphs
from opendpu_arch.errors import ModelFormatError, UnsupportedError
from opendpu_arch.isa import Engine
from opendpu_arch.target import CLOCK_MHZ, Target
from xir import Graph

MEGABYTE = 1 << 20
COUNTER = "cycle"
"""Device that counts cycles fast."""
SETTINGS: dict[str, dict[str, Any]] = {COUNTER: {"results": False}}
"""Keywords of a device that need not compute."""
TOTAL = "total"
REST = "(start and end)"
"""Row of the cycles that belong to no layer."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One layer; cycles by reason add up to its cycles, and those of all rows to the run's.

    ``span`` are the cycles that its speed is told by: its own for a layer of the array; for others,
    which run beside the array, those from their first computing instruction to their last.
    """

    subgraph: str
    layer: str
    work: Work
    cycles: Fraction
    span: int = 0
    weight_bytes: int = 0
    """Weights and biases loaded."""
    load_bytes: int = 0
    """Feature maps loaded."""
    save_bytes: int = 0
    reasons: dict[str, Fraction] = dataclasses.field(default_factory=dict)

    def utilization(self, peak: int, *, all_engines: bool = False) -> float:
        """Return the array's multiply-accumulates, or all, of the ``peak`` ones a cycle."""
        done = self.work.macs if all_engines else self.work.array_macs
        return float(done / (self.cycles * peak)) if self.cycles else 0.0

    def as_dict(self, clock_mhz: float, peak: int) -> dict[str, Any]:
        """Return the figures as JSON-ready values, with the guide's units."""
        seconds = self.span / (clock_mhz * 1e6)
        moved = self.weight_bytes + self.load_bytes + self.save_bytes
        return {
            "subgraph": self.subgraph,
            "layer": self.layer,
            "wl_gop": self.work.operations / 1e9,
            "rt_ms": seconds * 1e3,
            "perf_gops": self.work.operations / 1e9 / seconds if seconds else 0.0,
            "ldwb_mb": self.weight_bytes / MEGABYTE,
            "ldfm_mb": self.load_bytes / MEGABYTE,
            "stfm_mb": self.save_bytes / MEGABYTE,
            "avgbw_mb_s": moved / MEGABYTE / seconds if seconds else 0.0,
            "cycles": float(self.cycles),
            "utilization": self.utilization(peak, all_engines=self.layer == TOTAL),
            **{key: float(self.reasons.get(key, 0)) for key in CATEGORIES},
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One DPU subgraph: its program, what the device said, and where the cycles went."""

    view: ProgramView
    statistics: JobStatistics
    account: Account

    def rows(self) -> list[Row]:
        """Return a row for every layer that has an instruction, and one for what has no layer."""
        moved: dict[int, tuple[int, int, int]] = {}
        for number, layer in enumerate(self.view.layer_of):
            sizes = self.view.bytes_moved(number)
            old = moved.get(layer, (0, 0, 0))
            moved[layer] = (old[0] + sizes[0], old[1] + sizes[1], old[2] + sizes[2])
        spans = self._spans()
        rows = []
        for number, name in enumerate((*self.view.layers, REST)):
            outside = number == len(self.view.layers)
            weights, loaded, saved = moved.get(OUTSIDE if outside else number, (0, 0, 0))
            reasons = self.account.outside if outside else self.account.by_layer[number]
            work = Work() if outside else self.view.work[number]
            cycles = sum(reasons.values(), Fraction(0))
            row = Row(
                subgraph=self.view.name, layer=name, reasons=reasons, work=work, cycles=cycles,
                span=int(cycles) if work.array_macs else spans.get(number, 0),
                weight_bytes=weights, load_bytes=loaded, save_bytes=saved,
            )  # fmt: skip
            if row.cycles or row.work.operations or row.load_bytes or row.save_bytes:
                rows.append(row)
        return rows

    def _spans(self) -> dict[int, int]:
        """Return, by layer, the cycles from its first to its last computing instruction."""
        timeline = self.statistics.timeline
        assert timeline is not None
        owner = np.array(self.view.layer_of)
        computes = np.array(
            [i.ENGINE in (Engine.CONV, Engine.MISC) for i in self.view.instructions]
        )
        found = {}
        for layer in range(len(self.view.layers)):
            mine = owner == layer
            chosen = mine & computes if (mine & computes).any() else mine
            if chosen.any():
                last, first = timeline.end[chosen].max(), timeline.start[chosen].min()
                found[layer] = int(last - first) + 1
        return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """A run of all DPU subgraphs of a model, one after the other."""

    name: str
    target: Target
    device: str
    memory: str
    clock_mhz: float
    runs: tuple[Run, ...]
    cpu: tuple[tuple[str, tuple[str, ...], str], ...] = ()
    """Subgraphs for other devices: name, types of their ops, device."""

    def rows(self) -> list[Row]:
        """Return the rows of all subgraphs."""
        return [row for run in self.runs for row in run.rows()]

    def total(self) -> Row:
        """Return all rows together."""
        rows = self.rows()
        return Row(
            subgraph="", layer=TOTAL, work=sum((row.work for row in rows), Work()),
            cycles=sum((row.cycles for row in rows), Fraction(0)),
            span=sum(run.account.cycles for run in self.runs),
            weight_bytes=sum(row.weight_bytes for row in rows),
            load_bytes=sum(row.load_bytes for row in rows),
            save_bytes=sum(row.save_bytes for row in rows),
            reasons={
                key: sum((row.reasons.get(key, Fraction(0)) for row in rows), Fraction(0))
                for key in CATEGORIES
            },
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the timelines as JSON-ready values."""
        peak = self.target.macs_per_cycle
        return {
            "model": self.name,
            "target": self.target.name,
            "device": self.device,
            "memory": self.memory,
            "clock_mhz": self.clock_mhz,
            "total": self.total().as_dict(self.clock_mhz, peak),
            "layers": [row.as_dict(self.clock_mhz, peak) for row in self.rows()],
            "runs": [run.statistics.as_dict() for run in self.runs],
            "cpu": [
                {"subgraph": name, "ops": list(ops), "device": device}
                for name, ops, device in self.cpu
            ],
        }


def profile(
    graph: Graph,
    *,
    device: str,
    memory: str | None = None,
    target: Target | None = None,
    clock_mhz: float = CLOCK_MHZ,
    show: Callable[[str], None] = lambda text: None,
) -> Profile:
    """Run every DPU subgraph of a compiled model once on a device that counts cycles.

    Inputs are zero: what is computed does not change how long it takes. ``show`` is told what is
    going on.

    Raises
    ------
    ModelFormatError
        The model has no DPU subgraph.
    UnsupportedError
        The device does not tell when instructions run.
    """
    subgraphs = dpu_subgraphs(graph)
    if not subgraphs:
        raise ModelFormatError(
            f"graph {graph.get_name()!r} has no DPU subgraph; is the model compiled?"
        )
    first = Program.from_subgraph(subgraphs[0])
    chosen = target or Target.from_fingerprint(first.fingerprint)
    runs = []
    try:
        opened = open_device(device, chosen, memory, trace=True, **SETTINGS.get(device, {}))
    except TypeError:
        raise _untimed(device) from None
    try:
        for number, subgraph in enumerate(subgraphs):
            show(f"running subgraph {number + 1} of {len(subgraphs)} on {device}")
            program = Program.from_subgraph(subgraph)
            segments: dict[int, Segment] = {
                r: np.frombuffer(value, np.uint8) for r, value in program.constants.items()
            }
            segments |= {r: np.zeros(size, np.uint8) for r, size in program.sizes.items()}
            statistics = opened.run(Job(program.code, segments))
            if statistics.timeline is None:
                raise _untimed(device)
            view = ProgramView.from_subgraph(subgraph)
            spent = account(view, statistics.timeline, statistics.cycles, chosen.macs_per_cycle)
            runs.append(Run(view=view, statistics=statistics, account=spent))
    finally:
        opened.close()
    return Profile(
        name=graph.get_name(), target=chosen, device=device, memory=runs[0].statistics.memory,
        clock_mhz=clock_mhz, runs=tuple(runs), cpu=_others(graph),
    )  # fmt: skip


def _untimed(device: str) -> UnsupportedError:
    return UnsupportedError(
        f"device {device!r} does not tell when instructions run, but must; try: rtl, cycle"
    )


def _others(graph: Graph) -> tuple[tuple[str, tuple[str, ...], str], ...]:
    found = []
    for child in graph.get_root_subgraph().get_children():
        device = str(child.get_attr("device")) if child.has_attr("device") else "CPU"
        if device not in ("DPU", "USER"):
            kinds = dict.fromkeys(op.get_type() for op in child.toposort())
            found.append((child.get_name(), tuple(kinds), device))
    return tuple(found)
