# SPDX-License-Identifier: Apache-2.0
"""The issue order of the stripes of a cascade: list scheduling with the cost model's cycles.

Of all stages whose next stripe has its inputs and free words for its results, the one that could
start first is next; of equals, the one furthest down the cascade. A row may be overwritten once
every reader has been put before it, so the order is right whatever the engines really take.
"""

import bisect
import dataclasses
from collections.abc import Sequence

from opendpu.compiler.layers.cost import LATENCY
from opendpu.compiler.planner.cascade.stage import Buffer, Stage, Stripe
from opendpu_arch.isa import Engine

NEVER = 1 << 60


@dataclasses.dataclass(frozen=True)
class IssueOrder:
    """(stage, stripe) by number in the order of emission, and the cycles they are expected to take.

    ``blocked`` is the buffer that is too small for any order, if that is so.
    """

    stripes: tuple[tuple[int, int], ...]
    cycles: int
    blocked: int | None = None


def list_schedule(
    stages: Sequence[Stage], buffers: Sequence[Buffer], capacities: Sequence[int]
) -> IssueOrder:
    """Return the order of a cascade whose buffers hold ``capacities`` address groups."""
    return _ListScheduler(stages, buffers, capacities).order()


class _ListScheduler:
    """One simulation of the engines."""

    def __init__(
        self, stages: Sequence[Stage], buffers: Sequence[Buffer], capacities: Sequence[int]
    ) -> None:
        self.stages, self.buffers = stages, buffers
        self.capacity = [
            NEVER if b.resident else capacity * b.group_rows
            for b, capacity in zip(buffers, capacities, strict=True)
        ]
        makers = {s.output for s in stages}
        self.made = [n in makers for n in range(len(buffers))]
        self.have = [0 if self.made[n] or not b.resident else b.height
                     for n, b in enumerate(buffers)]  # fmt: skip
        self.ready: list[list[int]] = [[0] * b.height for b in buffers]
        self.readers: list[list[tuple[int, list[int]]]] = [[] for _ in buffers]
        for number, stage in enumerate(stages):
            for buffer in {need.buffer for stripe in stage.stripes for need in stripe.needs}:
                lows = [*stage.lows(buffer), NEVER]
                self.readers[buffer].append((number, lows))
        self.next = [0] * len(stages)
        self.done: list[list[int]] = [[] for _ in stages]
        self.saved: list[tuple[list[int], list[int]]] = [([], []) for _ in buffers]
        self.free = dict.fromkeys(Engine, 0)
        self.blocked: int | None = None

    def order(self) -> IssueOrder:
        """Run to the end, or until nothing can go on."""
        issued: list[tuple[int, int]] = []
        left = sum(len(stage.stripes) for stage in self.stages)
        while left:
            best: tuple[int, int] | None = None
            self.blocked = None
            for number in range(len(self.stages) - 1, -1, -1):
                if self.next[number] < len(self.stages[number].stripes):
                    start = self._start(number)
                    if start is not None and (best is None or start < best[0]):
                        best = (start, number)
            if best is None:
                return IssueOrder(
                    tuple(issued), NEVER, self.blocked if self.blocked is not None else -1
                )
            start, number = best
            issued.append((number, self.next[number]))
            self._take(number, start)
            left -= 1
        return IssueOrder(tuple(issued), max(self.free.values()))

    def _freed_at(self, buffer: int, limit: int) -> int | None:
        """Return when the rows below ``limit`` of a buffer are no longer needed, if that is known.

        A reader must have been put before; the buffer is noted as too small otherwise.
        """
        if limit <= 0:
            return 0
        time = 0
        for reader, lows in self.readers[buffer]:
            if lows[self.next[reader]] < limit:
                if self.blocked is None:
                    self.blocked = buffer
                return None
            last = bisect.bisect_left(lows, limit) - 1
            if last >= 0:
                time = max(time, self.done[reader][last])
        ends, times = self.saved[buffer]
        if times:
            time = max(time, times[min(bisect.bisect_left(ends, limit), len(times) - 1)])
        return time

    def _start(self, number: int) -> int | None:
        """Return the cycle in which the next stripe of a stage can start, if it can be put next."""
        stage = self.stages[number]
        stripe = stage.stripes[self.next[number]]
        time = self.free[stage.engine]
        for need in stripe.needs:
            if self.made[need.buffer]:
                if self.have[need.buffer] < need.high:
                    return None
                time = max(time, self.ready[need.buffer][need.high - 1])
            elif self.have[need.buffer] < need.high:
                freed = self._freed_at(need.buffer, need.high - self.capacity[need.buffer])
                if freed is None:
                    return None
                rows = need.high - self.have[need.buffer]
                buffer = self.buffers[need.buffer]
                time = max(time, max(self.free[Engine.LOAD], freed) + rows * buffer.load + LATENCY)
            else:
                time = max(time, self.ready[need.buffer][need.high - 1])
        end = stripe.row + stripe.rows
        freed = self._freed_at(stage.output, end - self.capacity[stage.output])
        if freed is None:
            return None
        if stage.in_place is not None and not self._unread(stage.in_place, number, end):
            return None
        return max(time, freed)

    def _unread(self, buffer: int, but: int, limit: int) -> bool:
        """Tell whether no stage but one needs rows below ``limit`` any more."""
        return all(
            reader == but or lows[self.next[reader]] >= limit
            for reader, lows in self.readers[buffer]
        )

    def _take(self, number: int, start: int) -> None:
        """Put the next stripe of a stage."""
        stage = self.stages[number]
        stripe = stage.stripes[self.next[number]]
        for need in stripe.needs:
            if not self.made[need.buffer] and self.have[need.buffer] < need.high:
                freed = self._freed_at(need.buffer, need.high - self.capacity[need.buffer])
                begin = max(self.free[Engine.LOAD], freed or 0)
                for row in range(self.have[need.buffer], need.high):
                    begin += self.buffers[need.buffer].load
                    self.ready[need.buffer][row] = begin + LATENCY
                self.free[Engine.LOAD] = begin
                self.have[need.buffer] = need.high
        done = self._compute(stage, stripe, start)
        self.done[number].append(done)
        self.next[number] += 1
        end = stripe.row + stripe.rows
        self.have[stage.output] = end
        self.ready[stage.output][stripe.row : end] = [done] * stripe.rows
        cost = self.buffers[stage.output].save
        if cost:
            self.free[Engine.SAVE] = max(self.free[Engine.SAVE], done) + stripe.rows * cost
            ends, times = self.saved[stage.output]
            ends.append(end)
            times.append(self.free[Engine.SAVE])

    def _compute(self, stage: Stage, stripe: Stripe, start: int) -> int:
        """Occupy the engines; return when the results are there."""
        end = self.free[stage.engine] = start + stripe.cycles
        if stripe.beside:
            array = max(self.free[Engine.CONV], start) + stripe.beside
            self.free[Engine.CONV] = array
            return max(end, array)
        if not stripe.after:
            return end
        begin = max(self.free[Engine.MISC], start + stripe.cycles // stripe.passes)
        end = max(begin + stripe.after, end + stripe.after // stripe.passes)
        self.free[Engine.MISC] = end
        return end
