# SPDX-License-Identifier: Apache-2.0
"""Orders of random cascades, against a search that looks at every stage before every stripe."""

import dataclasses
import random

import pytest

from opendpu.compiler.layers.cost import LATENCY
from opendpu.compiler.planner.cascade.list_schedule import list_schedule
from opendpu.compiler.planner.cascade.stage import NEVER, Buffer, Need, Stage, Stripe
from opendpu_arch.isa import Engine

Cascade = tuple[list[Stage], list[Buffer], list[int]]


def drawn(draw: random.Random) -> Cascade:
    """Draw stages that read what others make, or what is loaded, and capacities of all buffers."""
    buffers = [
        Buffer(
            name=f"in{n}", height=draw.randint(4, 30), stride=1, row_words=1, group_rows=4,
            load=draw.randint(1, 30), resident=draw.random() < 0.2,
        )
        for n in range(draw.randint(1, 2))
    ]  # fmt: skip
    stages = []
    for number in range(draw.randint(1, 5)):
        reads = draw.sample(range(len(buffers)), min(len(buffers), draw.randint(1, 2)))
        rows, height = draw.choice([1, 2, 4]), draw.randint(4, 30)
        engine = draw.choice([Engine.CONV, Engine.MISC])
        more = draw.choice([{}, {}, {"beside": 15}, {"passes": 2}, {"passes": 3}])
        if engine == Engine.CONV:
            more = draw.choice([{}, {}, {"after": 20}, {"after": 20, "passes": 2}])
        stripes = tuple(
            dataclasses.replace(
                stripe(draw, row, min(rows, height - row), height, {b: buffers[b] for b in reads}),
                **more,
            )
            for row in range(0, height, rows)
        )
        in_place = reads[0] if draw.random() < 0.2 else None
        stages.append(
            Stage(
                number=number, engine=engine, stripes=stripes, output=len(buffers),
                in_place=in_place, pieces=draw.choice([1, 1, 3]) if engine == Engine.CONV else 1,
            )
        )  # fmt: skip
        buffers.append(
            Buffer(
                name=f"out{number}", height=height, stride=1, row_words=1, group_rows=4,
                save=draw.choice([0, 0, 9]), resident=draw.random() < 0.2,
            )
        )  # fmt: skip
    capacities = [min(b.groups, draw.randint(2, 8)) for b in buffers]
    return stages, buffers, capacities


def stripe(
    draw: random.Random, row: int, rows: int, height: int, reads: dict[int, Buffer]
) -> Stripe:
    """Draw a stripe; a few need rows before those of the last one, the first may need none."""
    needs = []
    for number, buffer in reads.items():
        if row or draw.random() < 0.9:
            low = max(0, row * buffer.height // height - draw.randint(0, 2))
            high = min(buffer.height, -(-(row + rows) * buffer.height // height) + 1)
            needs.append(Need(number, low, high))
    return Stripe(row=row, rows=rows, needs=tuple(needs), cycles=draw.randint(1, 60))


class Searched:
    """The order by definition, nothing remembered from one stripe to the next."""

    def __init__(self, stages: list[Stage], buffers: list[Buffer], capacities: list[int]) -> None:
        self.stages, self.buffers = stages, buffers
        self.room = [
            NEVER if b.resident else c * b.group_rows
            for b, c in zip(buffers, capacities, strict=True)
        ]
        self.made = {stage.output for stage in stages}
        self.ready: list[list[int]] = [
            [0] * b.height if b.resident and n not in self.made else []
            for n, b in enumerate(buffers)
        ]
        self.begun = [[*times] for times in self.ready]
        self.done: list[list[int]] = [[] for _ in stages]
        self.saved: list[list[int]] = [[] for _ in buffers]
        self.free = dict.fromkeys(Engine, 0)
        self.blocked: int | None = None

    def order(self) -> tuple[list[tuple[int, int]], int, int | None]:
        issued: list[tuple[int, int]] = []
        while left := [
            n for n, s in reversed([*enumerate(self.stages)]) if len(self.done[n]) < len(s.stripes)
        ]:
            found, blocked = [], []
            for number in left:
                self.blocked = None
                start = self.start(number)
                blocked.append(self.blocked)
                if start is not None:
                    found.append((max(start, self.free[self.stages[number].engine]), -number))
            if not found:
                return issued, NEVER, next((b for b in blocked if b is not None), -1)
            first, number = self.chosen(found)
            issued.append((-number, len(self.done[-number])))
            self.put(-number, first)
        return issued, max(self.free.values()), None

    def todo(self, number: int) -> Stripe:
        return self.stages[number].stripes[len(self.done[number])]

    def chosen(self, found: list[tuple[int, int]]) -> tuple[int, int]:
        """Return what starts first, or what the misc engine has done before its epilogue begins."""
        first, number = min(found)
        todo = self.todo(-number)
        if todo.after:
            for start, other in found:
                end = start + self.todo(-other).cycles
                is_misc = self.stages[-other].engine == Engine.MISC
                if is_misc and end <= first + todo.cycles // todo.passes:
                    return start, other
        return first, number

    def unused(self, buffer: int, limit: int, but: int = -1) -> int | None:
        """Return when the last stripe that needs rows below ``limit`` is done, if it is."""
        times = [0]
        for number, stage in enumerate(self.stages):
            lows = [
                min((need.low for need in s.needs if need.buffer == buffer), default=-1)
                for s in stage.stripes
            ]
            if max(lows) < 0 or number == but:
                continue
            put = len(self.done[number])
            if any(low < limit for low in lows[put:]):
                return None
            times += [self.done[number][n] for n in range(put) if lows[n] < limit]
        return max(times)

    def room_at(self, buffer: int, high: int) -> int | None:
        """Return when rows up to ``high`` may be written."""
        limit = high - self.room[buffer]
        if limit <= 0:
            return 0
        found = self.unused(buffer, limit)
        if found is None:
            self.blocked = buffer
            return None
        saved = self.saved[buffer]
        return max(found, saved[min(limit, len(saved)) - 1]) if saved else found

    def start(self, number: int) -> int | None:
        stage, todo = self.stages[number], self.todo(number)
        times = [0]
        for need in todo.needs:
            ready = (self.ready if todo.passes == 1 else self.begun)[need.buffer]
            if need.high <= len(ready):
                times.append(ready[need.high - 1])
                continue
            if need.buffer in self.made:
                return None
            room = self.room_at(need.buffer, need.high)
            if room is None:
                return None
            load = (need.high - len(ready)) * self.buffers[need.buffer].load
            times.append(max(self.free[Engine.LOAD], room) + load + LATENCY)
        end = todo.row + todo.rows
        room = self.room_at(stage.output, end)
        if room is None:
            return None
        if stage.in_place is not None and self.unused(stage.in_place, end, number) is None:
            return None
        return max(*times, room)

    def put(self, number: int, start: int) -> None:
        stage, todo = self.stages[number], self.todo(number)
        for need in todo.needs:
            ready = self.ready[need.buffer]
            if need.buffer not in self.made and need.high > len(ready):
                begin = max(self.free[Engine.LOAD], self.room_at(need.buffer, need.high) or 0)
                while len(ready) < need.high:
                    begin += self.buffers[need.buffer].load
                    ready.append(begin + LATENCY)
                    self.begun[need.buffer].append(begin + LATENCY)
                self.free[Engine.LOAD] = begin
        done = start + todo.cycles
        if todo.passes > 1 and not todo.after:  # the last channels come last
            for need in todo.needs:
                there = self.ready[need.buffer][need.high - 1]
                done = max(done, there + todo.cycles // todo.passes)
        self.free[stage.engine] = done
        if todo.beside:
            self.free[Engine.CONV] = max(self.free[Engine.CONV], start) + todo.beside
            done = max(done, self.free[Engine.CONV])
        elif todo.after:
            begin = max(self.free[Engine.MISC], start + todo.cycles // todo.passes)
            done = max(begin + todo.after, done + todo.after // todo.passes)
            self.free[Engine.MISC] = done
        self.done[number].append(done)
        self.ready[stage.output] += [done] * todo.rows
        begun = start + todo.cycles // stage.pieces if stage.pieces > 1 else done
        self.begun[stage.output] += [begun] * todo.rows
        if cost := self.buffers[stage.output].save:
            self.free[Engine.SAVE] = max(self.free[Engine.SAVE], done) + todo.rows * cost
            self.saved[stage.output] += [self.free[Engine.SAVE]] * todo.rows


@pytest.mark.parametrize("seed", range(8))
def test_random_cascades(seed: int) -> None:
    draw = random.Random(seed)
    blocked = whole = 0
    for _ in range(60):
        stages, buffers, capacities = drawn(draw)
        found = list_schedule(stages, buffers, capacities)
        wanted = Searched(stages, buffers, capacities).order()
        assert ([*found.stripes], found.cycles, found.blocked) == wanted
        blocked += found.blocked is not None
        whole += found.blocked is None
    assert blocked
    assert whole
