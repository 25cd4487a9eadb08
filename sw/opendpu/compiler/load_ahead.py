# SPDX-License-Identifier: Apache-2.0
"""The order of LOADs: what a waiting LOAD leaves of the engine's time goes to later ones.

Commands are emitted as the layers need them, so that the last LOADs of one cascade, which wait for
words that are read still, stand before the first ones of the next, which often have theirs. A later
LOAD goes first where its words are free and it is done before the waiting one can start: by the
cost model nothing starts later than it did. What it lets the other engines do sooner may free words
for more LOADs in the next round.
"""

import heapq
from collections.abc import Iterable, Sequence

from opendpu.compiler.dependences import Ranges, Waits
from opendpu.compiler.program import Command
from opendpu_arch.isa import Engine

ROUNDS = 4
"""Times that LOADs change places at most."""
LEAST_GAIN = 0.0003
"""Part of the cycles that a round has to save, by the cost model."""
LOOK = 16
"""LOADs too long for a gap that are looked at before it is left as it is."""
PENDING = -1
"""When a LOAD is done that has not started."""


def load_ahead(
    commands: Sequence[Command], waits: Waits, loads: Ranges, cycles: int
) -> Sequence[int]:
    """Return the numbers of ``commands``, which take so many cycles, in an order that takes fewer.

    Only LOADs change places among those of their engine. Any two commands of which one writes what
    the other touches keep their order, so that the results are the same.
    """
    order: Sequence[int] = range(len(commands))
    dependences = _Dependences(commands, waits, loads)
    for _ in range(ROUNDS):
        issued, fewer = _Round(dependences, order).run()
        if cycles - fewer < LEAST_GAIN * cycles:
            break
        order, cycles = issued, fewer
    return order


class _Dependences:
    """Commands as lists: engine, cycles, what each waits for. LOADs are counted by themselves."""

    def __init__(self, commands: Sequence[Command], waits: Waits, loads: Ranges) -> None:
        self.engine = [int(command.instruction.ENGINE) for command in commands]
        self.cycles = [command.cycles for command in commands]
        self.count: list[int] = []
        """LOADs before every command."""
        found = 0
        for engine in self.engine:
            self.count.append(found)
            found += engine == Engine.LOAD
        self.loads = [_joined(ranges, self.count) for ranges in loads]
        self.others = [[n for engine, n in wait.items() if engine != Engine.LOAD] for wait in waits]


def _joined(ranges: Iterable[tuple[int, int]], count: Sequence[int]) -> list[tuple[int, int]]:
    """Return ranges of LOADs, ``first .. end``, those that touch as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((count[first], count[last] + 1) for first, last in ranges):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


class _Round:
    """Engines at work in an order, and the LOADs that could go before their turn."""

    def __init__(self, given: _Dependences, order: Sequence[int]) -> None:
        self.given, self.order = given, order
        self.free = [0] * len(Engine)
        self.start = [0] * len(order)
        self.done = [0] * len(order)
        self.loaded = [PENDING] * given.engine.count(Engine.LOAD)
        self._leading: list[int] = []
        """When the first LOADs, up to each, are done: as many as were put without a gap."""
        self.place = [0] * len(order)
        for place, number in enumerate(order):
            self.place[number] = place
        self._enabled: dict[int, list[int]] = {}
        for number, engine in enumerate(given.engine):
            if engine == Engine.LOAD:
                producer = max((self.place[n] for n in given.others[number]), default=0)
                self._enabled.setdefault(producer, []).append(number)
        self._seen = 0
        self._waiting: list[tuple[int, int]] = []
        """LOADs that only have to wait for a cycle, which comes first."""
        self._ready: list[tuple[int, int]] = []
        """LOADs that do not, by place."""

    def run(self) -> tuple[list[int], int]:
        """Return all commands in the order in which they start, and the cycles they take."""
        for place, number in enumerate(self.order):
            if self.given.engine[number] != Engine.LOAD:
                self._put(number)
            elif self._is_pending(number):
                self._fill(place, self._start(number))
                self._put(number)
        order = sorted(self.order, key=lambda n: (self.start[n], self.place[n]))
        return order, max(self.free)

    def _is_pending(self, number: int) -> bool:
        return self.loaded[self.given.count[number]] == PENDING

    def _start(self, number: int) -> int:
        """Return when a command can start, all of whose producers were put."""
        engine, done = self.given.engine[number], self.done
        ends = [self.free[engine], *[done[producer] for producer in self.given.others[number]]]
        if engine != Engine.LOAD:
            ends += [self._all_loaded(first, end) for first, end in self.given.loads[number]]
        return max(ends)

    def _all_loaded(self, first: int, end: int) -> int:
        """Return when the last of some LOADs that were put is done."""
        if first:
            return max(self.loaded[first:end])
        known = self._leading
        while len(known) < end and self.loaded[len(known)] != PENDING:
            known.append(max(known[-1] if known else 0, self.loaded[len(known)]))
        if end <= len(known):
            return known[end - 1]
        return max(self.loaded[len(known) : end] + known[-1:])

    def _put(self, number: int) -> None:
        """Put a command next."""
        start, engine = self._start(number), self.given.engine[number]
        self.start[number] = start
        self.done[number] = self.free[engine] = start + self.given.cycles[number]
        if engine == Engine.LOAD:
            self.loaded[self.given.count[number]] = self.done[number]

    def _fill(self, head: int, until: int) -> None:
        """Put later LOADs until a cycle, for which the one whose turn it is has to wait."""
        if until == self.free[Engine.LOAD]:
            return
        self._enable(head, until)
        passed: list[tuple[int, int]] = []
        while self._ready and len(passed) < LOOK and self.free[Engine.LOAD] < until:
            place, number = heapq.heappop(self._ready)
            if place <= head or not self._is_pending(number):
                continue
            end = self._start(number) + self.given.cycles[number]
            if end > until or self._comes_later(number):
                passed.append((place, number))
            else:
                self._put(number)
        for one in passed:
            heapq.heappush(self._ready, one)

    def _comes_later(self, number: int) -> bool:
        """Tell whether a LOAD comes after one that is not put yet."""
        ranges = self.given.loads[number]
        return any(PENDING in self.loaded[first:end] for first, end in ranges)

    def _enable(self, head: int, until: int) -> None:
        """Note the LOADs that other engines let go before a cycle, by what stands before one."""
        for producer in range(self._seen, head):
            for number in self._enabled.get(producer, ()):
                time = max((self.done[n] for n in self.given.others[number]), default=0)
                heapq.heappush(self._waiting, (time, number))
        self._seen = head
        while self._waiting and self._waiting[0][0] < until:
            number = heapq.heappop(self._waiting)[1]
            heapq.heappush(self._ready, (self.place[number], number))
