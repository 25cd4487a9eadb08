# SPDX-License-Identifier: Apache-2.0
"""The order of LOADs: what a waiting LOAD leaves of the engine's time goes to later ones.

Commands are emitted as the layers need them, so that the last LOADs of one cascade, which wait for
words that are read still, stand before the first ones of the next, which often have theirs. A later
LOAD goes first where its words are free and it is done before the waiting one can start: by the
cost model nothing starts later than it did. What it lets the other engines do sooner may free words
for more LOADs in the next round.
"""

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from opendpu.compiler.dependences import NONE, Ranges, Waits
from opendpu_arch.isa import Engine

ROUNDS = 4
"""Times that LOADs change places at most."""
LEAST_GAIN = 0.0003
"""Part of the cycles that a round has to save, by the cost model."""
LOOK = 16
"""LOADs too long for a gap that are looked at before it is left as it is."""
PENDING = -1
"""When a LOAD is done that has not started."""


Numbers = Sequence[int]


def load_ahead(
    engines: Numbers, lengths: Numbers, waits: Waits, loads: Ranges, cycles: int
) -> Numbers:
    """Return the numbers of commands, which take so many cycles, in an order that takes fewer.

    ``engines`` and ``lengths`` say the engine and the cycles of every command. Only LOADs change
    places among those of their engine. Any two commands of which one writes what the other touches
    keep their order, so that the results are the same.
    """
    order: Numbers = range(len(engines))
    dependences = _Dependences(engines, lengths, waits, loads)
    for _ in range(ROUNDS):
        issued, fewer = _Round(dependences, order).run()
        if cycles - fewer < LEAST_GAIN * cycles:
            break
        order, cycles = issued, fewer
    return order


class _Dependences:
    """Commands as lists: engine, cycles, what each waits for. LOADs are counted by themselves."""

    def __init__(self, engines: Numbers, lengths: Numbers, waits: Waits, loads: Ranges) -> None:
        self.engine, self.cycles = engines, lengths
        is_load = np.array(engines) == Engine.LOAD
        before = np.cumsum(is_load) - is_load
        self.count: list[int] = before.tolist()
        """LOADs before every command."""
        self.load_numbers: list[int] = np.flatnonzero(is_load).tolist()
        self.loads: list[list[tuple[int, int]]] = [[] for _ in engines]
        """Ranges ``first .. end`` of the LOADs that each command comes after."""
        joined = _joined(loads.command, before[loads.first], before[loads.last] + 1)
        for number, first, end in zip(*(array.tolist() for array in joined), strict=True):
            self.loads[number].append((first, end))
        rest = np.delete(waits, Engine.LOAD, axis=1).tolist()
        self.others = [[n for n in wait if n != NONE] for wait in rest]
        """What each command waits for of the other engines."""


def _joined(
    command: npt.NDArray[np.int64], first: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], ...]:
    """Return ranges ``first .. end``, those of one command that touch as one, in order."""
    order = np.lexsort((first, command))
    command, first, end = command[order], first[order], end[order]
    far = 1 + int(end.max(initial=0))
    reached = np.maximum.accumulate(command * far + end) - command * far
    begins = np.ones(command.size, np.bool_)
    begins[1:] = (command[1:] != command[:-1]) | (first[1:] > reached[:-1])
    ends = np.roll(begins, -1)
    return command[begins], first[begins], reached[ends]


class _Round:
    """Engines at work in an order, and the LOADs that could go before their turn."""

    def __init__(self, given: _Dependences, order: Numbers) -> None:
        self.given, self.order = given, order
        self.free = [0] * len(Engine)
        self.start = [0] * len(order)
        self.done = [0] * len(order)
        self.loaded = [PENDING] * len(given.load_numbers)
        self._leading: list[int] = []
        """When the first LOADs, up to each, are done: as many as were put without a gap."""
        self.place = [0] * len(order)
        for place, number in enumerate(order):
            self.place[number] = place
        others, place_of = given.others, self.place
        enabled = [
            (max([place_of[n] for n in others[number]], default=0), number)
            for number in given.load_numbers
        ]
        self._enabled = sorted(enabled)
        """LOADs, and the place before which the commands stand that let them go."""
        self._seen = 0
        self._waiting: list[tuple[int, int]] = []
        """LOADs that only have to wait for a cycle, which comes first."""
        self._ready: list[tuple[int, int]] = []
        """LOADs that do not, by place."""

    def run(self) -> tuple[list[int], int]:
        """Return all commands in the order in which they start, and the cycles they take."""
        engines, count, loaded = self.given.engine, self.given.count, self.loaded
        for place, number in enumerate(self.order):
            engine = engines[number]
            start = self.free[engine]
            if engine != Engine.LOAD:
                self._put(number, self._loaded_at(number, self._let_go_at(number, start)))
            elif loaded[count[number]] == PENDING:
                start = self._let_go_at(number, start)
                if start > self.free[engine]:
                    self._fill(place, start)
                self._put(number, start)
        starts = np.array(self.start)
        order = np.lexsort((np.array(self.place), starts)).tolist()
        return order, max(self.free)

    def _let_go_at(self, number: int, start: int) -> int:
        """Return when a command can start, not before ``start``, but for LOADs."""
        done = self.done
        for producer in self.given.others[number]:
            if done[producer] > start:
                start = done[producer]
        return start

    def _loaded_at(self, number: int, start: int) -> int:
        """Return when the LOADs before a command are done, or ``start`` if that is later."""
        for first, end in self.given.loads[number]:
            done = max(self.loaded[first:end]) if first else self._all_loaded(end)
            if done > start:
                start = done
        return start

    def _all_loaded(self, end: int) -> int:
        """Return when the last of the first LOADs, which were put, is done."""
        known = self._leading
        while len(known) < end and self.loaded[len(known)] != PENDING:
            known.append(max(known[-1] if known else 0, self.loaded[len(known)]))
        if end <= len(known):
            return known[end - 1]
        return max(self.loaded[len(known) : end] + known[-1:])

    def _put(self, number: int, start: int) -> None:
        """Put a command next."""
        engine = self.given.engine[number]
        self.start[number] = start
        end = self.done[number] = self.free[engine] = start + self.given.cycles[number]
        if engine == Engine.LOAD:
            self.loaded[self.given.count[number]] = end

    def _fill(self, head: int, until: int) -> None:
        """Put later LOADs until a cycle, for which the one whose turn it is has to wait."""
        self._enable(head, until)
        count, loaded, ready, free = self.given.count, self.loaded, self._ready, self.free
        passed: list[tuple[int, int]] = []
        while ready and len(passed) < LOOK and free[Engine.LOAD] < until:
            place, number = heapq.heappop(ready)
            if place <= head or loaded[count[number]] != PENDING:
                continue
            start = self._let_go_at(number, free[Engine.LOAD])
            if start + self.given.cycles[number] > until or self._comes_later(number):
                passed.append((place, number))
            else:
                self._put(number, start)
        for one in passed:
            heapq.heappush(ready, one)

    def _comes_later(self, number: int) -> bool:
        """Tell whether a LOAD comes after one that is not put yet."""
        ranges = self.given.loads[number]
        return any(PENDING in self.loaded[first:end] for first, end in ranges)

    def _enable(self, head: int, until: int) -> None:
        """Note the LOADs that other engines let go before a cycle, by what stands before one."""
        enabled, seen = self._enabled, self._seen
        while seen < len(enabled) and enabled[seen][0] < head:
            number = enabled[seen][1]
            if self.loaded[self.given.count[number]] == PENDING:
                heapq.heappush(self._waiting, (self._let_go_at(number, 0), number))
            seen += 1
        self._seen = seen
        while self._waiting and self._waiting[0][0] < until:
            number = heapq.heappop(self._waiting)[1]
            heapq.heappush(self._ready, (self.place[number], number))
