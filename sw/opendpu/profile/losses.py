# SPDX-License-Identifier: Apache-2.0
"""Every cycle of a run gets one layer and one reason, seen from the multiplier array.

======== ============================================================================
useful   the array at its peak for the layer's multiply-accumulates
lanes    the rest of the array's steps: rows, channels or columns that hold nothing
load     the array waits, and the engine at the root of it is LOAD
save     the same with SAVE
misc     the same with the misc engine: its layers run while CONV has nothing to do
issue    instructions that were not there yet, set up the engine, or started and ended the run
fill     a CONV is under way without a step: pipeline filling or draining, busy banks
======== ============================================================================

A wait is followed to its root: from the CONV that has not started to the producer whose token
comes last, to what that producer's engine is at, or waits for in turn. It is charged to the layer
of the CONV or misc instruction nearest to the root.
"""

import bisect
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from opendpu.profile.program import ProgramView
from opendpu.profile.tokens import producers
from opendpu.runtime.device import Timeline
from opendpu_arch.errors import ProgramError
from opendpu_arch.isa import End, Engine

CATEGORIES = ("useful", "lanes", "load", "save", "misc", "issue", "fill")
"""Reasons for cycles; see the table above."""

WAITS = {Engine.LOAD: "load", Engine.SAVE: "save", Engine.MISC: "misc"}
OUTSIDE = -1
"""Layer of what belongs to none."""


@dataclasses.dataclass(frozen=True)
class Account:
    """Cycles by layer and reason; all of them together are the cycles of the run, exactly."""

    cycles: int
    by_layer: tuple[dict[str, Fraction], ...]
    outside: dict[str, Fraction]
    """Cycles that belong to no layer."""

    def total(self) -> dict[str, Fraction]:
        """Return the cycles by reason."""
        rows = (*self.by_layer, self.outside)
        return {key: sum((row[key] for row in rows), Fraction(0)) for key in CATEGORIES}


def account(view: ProgramView, timeline: Timeline, cycles: int, peak: int) -> Account:
    """Divide the ``cycles`` of a run; ``peak`` are the array's multiply-accumulates a cycle.

    Raises
    ------
    ProgramError
        The timeline is not that of the program, or does not fit the cycles.
    """
    run = _Run(view, timeline, cycles)
    spent = run.spend()
    rows = [dict.fromkeys(CATEGORIES, Fraction(0)) for _ in range(len(view.layers) + 1)]
    for (layer, reason), amount in spent.items():
        rows[layer][reason] += amount
    for row, work in zip(rows, view.work, strict=False):
        useful = min(Fraction(work.array_macs, peak), row["lanes"])
        row["useful"] += useful
        row["lanes"] -= useful
    return Account(cycles, tuple(rows[:-1]), rows[-1])


class _Run:
    """One timeline, by engine: instructions in order with half-open intervals."""

    def __init__(self, view: ProgramView, timeline: Timeline, cycles: int) -> None:
        count = len(view.instructions)
        start, end = timeline.start.tolist(), (timeline.end + 1).tolist()
        if len(start) != count or len(end) != count:
            raise ProgramError(f"the timeline has {len(start)} instructions, the program {count}")
        wrong = [n for n in range(count) if not 0 <= start[n] < end[n] <= cycles]
        if wrong:
            n = wrong[0]
            raise ProgramError(
                f"instruction {n} runs from {start[n]} to {end[n]}, but the run has {cycles} cycles"
            )
        self.view = view
        self.cycles = cycles
        self.start: list[int] = start
        self.end: list[int] = end
        self.queues: dict[Engine, list[int]] = {engine: [] for engine in Engine}
        for number, instruction in enumerate(view.instructions):
            self.queues[instruction.ENGINE].append(number)
        self.starts = {e: [start[n] for n in q] for e, q in self.queues.items()}
        self.ends = {e: [end[n] for n in q] for e, q in self.queues.items()}
        for engine in Engine:
            for name, times in (("start", self.starts[engine]), ("end", self.ends[engine])):
                if times != sorted(times):
                    raise ProgramError(f"instructions of {engine.name} {name} out of order")
        self.producers = producers(view.instructions)
        real = [
            [n for n in q if not isinstance(view.instructions[n], End)]
            for q in self.queues.values()
        ]
        self.last = [queue[-1] for queue in real if queue]
        self.spent: dict[tuple[int, str], int] = {}

    def spend(self) -> dict[tuple[int, str], int]:
        """Return cycles by layer and reason; those of the array's steps under ``lanes``."""
        steps = self._steps()
        moments = np.unique(np.array([*self.start, *self.end, 0, self.cycles], dtype=np.int64))
        at = 0
        for number in self.queues[Engine.CONV]:
            begin, end = max(self.start[number], at), self.end[number]
            if begin > at:
                self._wait(number, at, begin, moments)
            if end > begin:
                busy = int(steps(end) - steps(begin))
                reason = "fill" if self.view.steps[number] else "issue"
                self._charge(self.view.layer_of[number], reason, end - begin - busy)
                at = end
        self._wait(None, at, self.cycles, moments)
        return self.spent

    def _charge(self, layer: int, reason: str, cycles: int) -> None:
        key = (layer, reason)
        self.spent[key] = self.spent.get(key, 0) + cycles

    def _steps(self) -> Callable[[int], int]:
        """Charge the steps of the array; return a function: steps made before a moment.

        Which cycles of a CONV are steps is not known; they are put as early as can be, one after
        the other as the array does them.
        """
        bounds, made = [0], [0]
        for number in self.queues[Engine.CONV]:
            wanted = self.view.steps[number]
            begin = max(bounds[-1], self.start[number])
            end = min(begin + wanted, self.end[number])
            if end <= begin:
                continue
            bounds += [begin, end]
            made += [made[-1], made[-1] + end - begin]
            self._charge(self.view.layer_of[number], "lanes", end - begin)
        xs, ys = np.array(bounds, dtype=np.int64), np.array(made, dtype=np.int64)

        def before(moment: int) -> int:
            at = int(np.searchsorted(xs, moment, "right")) - 1
            grown = min(moment - int(xs[at]), int(ys[at + 1] - ys[at])) if at + 1 < len(xs) else 0
            return int(ys[at]) + grown

        return before

    def _wait(
        self, number: int | None, begin: int, end: int, moments: npt.NDArray[np.int64]
    ) -> None:
        """Charge the cycles in which no CONV is under way; ``number`` is the next, or none is."""
        low, high = np.searchsorted(moments, (begin, end))
        cuts = [begin, *(int(m) for m in moments[low:high] if m > begin), end]
        for at, then in itertools.pairwise(cuts):
            self._charge(*self._root(number, at), then - at)

    def _root(self, number: int | None, at: int) -> tuple[int, str]:
        """Return layer and reason of the cycle ``at``, in which no CONV is under way."""
        layer = OUTSIDE if number is None else self.view.layer_of[number]
        wanted: Sequence[int] = self.last if number is None else self.producers[number]
        seen = {Engine.CONV}
        while True:
            missing = [p for p in wanted if self.end[p] > at]
            if not missing:
                return layer, "issue"
            latest = max(missing, key=lambda p: (self.end[p], p))
            engine = self.view.instructions[latest].ENGINE
            if engine in seen:
                return layer, "issue"
            seen.add(engine)
            queue = self.queues[engine]
            current = bisect.bisect_right(self.ends[engine], at)
            working = self.starts[engine][current] <= at
            if engine is Engine.MISC or layer == OUTSIDE:
                layer = self.view.layer_of[queue[current]]
            if working:
                return layer, WAITS[engine]
            wanted = self.producers[queue[current]]
