# SPDX-License-Identifier: Apache-2.0
"""Dependency bits from what instructions really touch.

An instruction waits for the last instruction of another engine that it must not overtake: one that
wrote what it reads or writes, or read what it writes. As queues are in order, an engine that has
waited for an instruction need not wait for earlier ones of the same engine; so the n-th token given
is the n-th taken, and none is left at END.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target
from opendpu_sim.ddr import Access
from opendpu_sim.model.conv import ConvStep
from opendpu_sim.model.dwconv import DepthwiseStep
from opendpu_sim.model.eltwise import ElewStep
from opendpu_sim.model.load import LoadStep
from opendpu_sim.model.memory import Index
from opendpu_sim.model.misc import ActivationStep
from opendpu_sim.model.pool import PoolStep
from opendpu_sim.model.save import SaveStep
from opendpu_sim.model.scaled import Records
from opendpu_sim.model.step import Step

NOTHING: Index = np.zeros(0, np.intp)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Touched:
    """What an instruction reads and writes: word indexes of the banks, byte indexes of DDR."""

    reads: Index = dataclasses.field(default_factory=lambda: NOTHING)
    writes: Index = dataclasses.field(default_factory=lambda: NOTHING)
    parts: tuple[Index, ...] = ()
    """`reads` by operand."""
    ddr_reads: tuple[int, Index] | None = None
    ddr_writes: tuple[int, Index] | None = None


def _bytes(access: Access) -> tuple[int, Index]:
    pixel = access.address + np.arange(access.length)[:, None] * access.jump
    return access.reg_id, (pixel + np.arange(access.size)).reshape(-1)


def touched(step: Step) -> Touched:
    """Return what a step touches, padding included."""
    access = None
    parts: tuple[Index | None, ...] = ()
    match step:
        case LoadStep():
            parts, writes, access = (step.mean,), step.destination, step.access
        case SaveStep():
            parts, writes = (step.source if step.constant is None else None,), NOTHING
        case ElewStep():
            terms = () if step.terms is None else step.terms.words
            parts = (*step.sources, step.results.table, _records(step.scaled), *terms)
            writes = step.results.destination
        case ConvStep() | DepthwiseStep():
            parts = (
                step.walk.source,
                step.weights,
                step.bias,
                step.shifts,
                step.walk.results.table,
                _records(step.scaled),
            )
            writes = step.walk.results.destination
        case ActivationStep():
            parts = (step.walk.source, step.factors, step.walk.results.table)
            writes = step.walk.results.destination
        case PoolStep():
            parts = (step.walk.source, step.walk.results.table, _records(step.scaled))
            writes = step.walk.results.destination
        case _:
            raise AssertionError(f"{type(step).__name__} is not known here")
    flat = tuple(part.reshape(-1) for part in parts if part is not None)
    return Touched(
        reads=np.concatenate((NOTHING, *flat)),
        writes=writes.reshape(-1),
        parts=flat,
        ddr_reads=None if access is None else _bytes(access),
        ddr_writes=_bytes(step.access) if isinstance(step, SaveStep) else None,
    )


def _records(scaled: Records | None) -> Index | None:
    return None if scaled is None else scaled.words


class _History:
    """The last instruction of every engine that touched each word or byte, -1: none."""

    def __init__(self, size: int) -> None:
        self.read: npt.NDArray[np.int32] = np.full((len(Engine), size), -1, np.int32)
        self.written = self.read.copy()

    def before(self, engine: Engine, reads: Index, writes: Index) -> int:
        """Return the last instruction of ``engine`` that must be over first, or -1."""
        last = [-1]
        for history, index in (
            (self.written, reads),
            (self.written, writes),
            (self.read, writes),
        ):
            if index.size:
                last.append(int(history[engine, index].max()))
        return max(last)

    def add(self, number: int, engine: Engine, reads: Index, writes: Index) -> None:
        self.read[engine, reads] = number
        self.written[engine, writes] = number


def link(
    program: Sequence[tuple[isa.Instruction, Touched]], target: Target, segments: dict[int, int]
) -> list[isa.Instruction]:
    """Return the instructions with ``dpdon`` and ``dpdby`` set, self bits included.

    ``segments`` gives the size of every DDR segment.
    """
    banks = _History(target.bank_count * target.bank_depth)
    ddr = {reg_id: _History(size) for reg_id, size in segments.items()}
    waited = dict.fromkeys(((a, b) for a in Engine for b in Engine), -1)
    on = [1 << i.ENGINE for i, _ in program]
    by = on.copy()
    for number, (instruction, touch) in enumerate(program):
        engine = instruction.ENGINE
        for other in Engine:
            if other == engine:
                continue
            last = banks.before(other, touch.reads, touch.writes)
            if touch.ddr_reads:
                last = max(last, ddr[touch.ddr_reads[0]].before(other, touch.ddr_reads[1], NOTHING))
            if touch.ddr_writes:
                reg_id, index = touch.ddr_writes
                last = max(last, ddr[reg_id].before(other, NOTHING, index))
            if last > waited[other, engine]:
                waited[other, engine] = last
                by[last] |= 1 << engine
                on[number] |= 1 << other
        banks.add(number, engine, touch.reads, touch.writes)
        if touch.ddr_reads:
            ddr[touch.ddr_reads[0]].add(number, engine, touch.ddr_reads[1], NOTHING)
        if touch.ddr_writes:
            ddr[touch.ddr_writes[0]].add(number, engine, NOTHING, touch.ddr_writes[1])
    return [
        dataclasses.replace(i, dpdon=a, dpdby=b)
        for (i, _), a, b in zip(program, on, by, strict=True)
    ]
