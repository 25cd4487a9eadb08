# SPDX-License-Identifier: Apache-2.0
"""Which bank group every buffer of a cascade had better be in.

A bank has a port that reads and one that reads or writes. CONV has both whenever it wants. The misc
engine waits with a result while CONV writes to the same group; and with an operand where CONV reads
from the same group and anybody writes there: CONV, LOAD, or the misc engine itself.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from opendpu.compiler.banks import Region
from opendpu.compiler.planner.cascade.model import CascadeModel
from opendpu_arch.isa import Engine

MOST = 4096
"""Candidates that are compared: distributions of the pieces over the groups."""
SHARE = 0.5
"""Part of a group's banks that an instruction of the misc engine, or LOAD, is at."""
LOADS = 0.25
"""Price of a word that LOAD cannot write, if that of a result that waits is 1: there are two."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Access:
    """Part of a cascade: cycles of an engine, results in words a bank, pieces."""

    engine: Engine
    cycles: int
    results: int
    reads: tuple[int, ...]
    write: int


def bank_group_candidates(
    model: CascadeModel, resident: Mapping[str, Region], pieces: Sequence[int], bank_groups: int
) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yield bank groups of the ``pieces``, the best ones first, if there are not too many.

    Before each stands about how many cycles a tile of columns loses. ``pieces`` are numbers of
    buffers, then of stages behind them for the tiles of epilogues.
    """
    if bank_groups ** len(pieces) > MOST:
        return
    fixed = {
        n: resident[buffer.name].bank_group
        for n, buffer in enumerate(model.buffers)
        if buffer.resident
    }
    prices = _Prices.of(model, bank_groups)
    candidates = []
    for groups in itertools.product(range(bank_groups), repeat=len(pieces)):
        at = {**fixed, **dict(zip(pieces, groups, strict=True))}
        candidates.append((prices.price(at), groups))
    yield from sorted(candidates)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Prices:
    """What distributions of a cascade's pieces over the bank groups cost."""

    conv: tuple[_Access, ...]
    misc: tuple[_Access, ...]
    loaded: tuple[tuple[int, int], ...]
    """Pieces that LOAD fills, and the words of all their rows."""
    cycles: int
    """Those of the busier engine."""
    bank_groups: int

    @classmethod
    def of(cls, model: CascadeModel, bank_groups: int) -> "_Prices":
        """Return the prices of a model."""
        every = _accesses(model)
        conv, misc = (
            tuple(one for one in every if one.engine == engine)
            for engine in (Engine.CONV, Engine.MISC)
        )
        loaded = tuple(
            (n, buffer.height * buffer.row_words)
            for n, buffer in enumerate(model.buffers)
            if buffer.load
        )
        cycles = max(1, *(sum(one.cycles for one in part) for part in (conv, misc)))
        return cls(conv=conv, misc=misc, loaded=loaded, cycles=cycles, bank_groups=bank_groups)

    def price(self, at: Mapping[int, int]) -> float:
        """Return about how many cycles are lost; ``at`` says the bank group of every piece."""
        written, filled, read = ([0.0] * self.bank_groups for _ in range(3))
        for one in self.conv:
            written[at[one.write]] += one.results / self.cycles
            read[at[one.reads[0]]] += one.cycles / self.cycles
        for piece, words in self.loaded:
            filled[at[piece]] += SHARE * words / self.cycles
        price = sum(LOADS * words * written[at[piece]] for piece, words in self.loaded)
        for one in self.misc:
            price += one.results * written[at[one.write]]
            for group in (at[piece] for piece in one.reads):
                own = SHARE * one.results / one.cycles if group == at[one.write] else 0.0
                busy = min(1.0, written[group] + filled[group] + own)
                price += one.cycles / len(one.reads) * read[group] * busy
        return price


def _accesses(model: CascadeModel) -> list[_Access]:
    """Return every part of a cascade: stages, what an epilogue does, what the array does beside."""
    found: list[_Access] = []
    for number, stage in enumerate(model.stages):
        cycles = sum(stripe.cycles for stripe in stage.stripes)
        reads = model.sources[number]
        results = len(stage.stripes) * model.buffers[stage.output].row_words
        if not stage.tile_words:
            found.append(
                _Access(
                    engine=stage.engine,
                    cycles=cycles,
                    results=results,
                    reads=reads,
                    write=stage.output,
                )
            )
            if beside := sum(stripe.beside for stripe in stage.stripes):
                found.append(
                    _Access(
                        engine=Engine.CONV,
                        cycles=beside,
                        results=results,
                        reads=reads,
                        write=stage.output,
                    )
                )
            continue
        tile = len(model.buffers) + number
        after = sum(stripe.after for stripe in stage.stripes)
        found.append(
            _Access(engine=Engine.CONV, cycles=cycles, results=results, reads=reads[:1], write=tile)
        )
        found.append(
            _Access(
                engine=Engine.MISC,
                cycles=after,
                results=results,
                reads=(*reads[1:], tile),
                write=stage.output,
            )
        )
    return found
