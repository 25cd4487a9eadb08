# SPDX-License-Identifier: Apache-2.0
"""Which bank group every buffer of a cascade had better be in.

A bank group takes the results of one engine at a time. What the misc engine writes is therefore
best kept away from what CONV writes meanwhile; that both read from one group costs less.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from opendpu.compiler.banks import Region
from opendpu.compiler.planner.cascade.model import CascadeModel
from opendpu_arch.isa import Engine

MOST = 4096
"""Candidates that are compared: distributions of the pieces over the groups."""
READS = 0.5
"""Price of reading where another engine reads, if that of writing where another one writes is 1."""


def bank_group_candidates(
    model: CascadeModel, resident: Mapping[str, Region], pieces: Sequence[int], bank_groups: int
) -> Iterator[tuple[int, ...]]:
    """Yield bank groups of the ``pieces``, the best ones first, if there are not too many.

    ``pieces`` are numbers of buffers, then of stages behind them for the tiles of epilogues.
    """
    if bank_groups ** len(pieces) > MOST:
        return
    fixed = {
        n: resident[buffer.name].bank_group
        for n, buffer in enumerate(model.buffers)
        if buffer.resident
    }
    work = _accesses(model)
    total = sum(cycles for engine, cycles, _, _ in work if engine == Engine.CONV) or 1
    candidates = []
    for groups in itertools.product(range(bank_groups), repeat=len(pieces)):
        at = {**fixed, **dict(zip(pieces, groups, strict=True))}
        written, read = [0.0] * bank_groups, [0.0] * bank_groups
        for engine, cycles, reads, write in work:
            if engine == Engine.CONV:
                written[at[write]] += cycles / total
                read[at[reads[0]]] += cycles / total
        price = sum(
            cycles * (written[at[write]] + READS * max(read[at[r]] for r in reads))
            for engine, cycles, reads, write in work
            if engine == Engine.MISC
        )
        candidates.append((price, groups))
    for _, groups in sorted(candidates):
        yield groups


def _accesses(model: CascadeModel) -> list[tuple[Engine, int, tuple[int, ...], int]]:
    """Return engine, cycles, pieces read and piece written of every part of a cascade."""
    found: list[tuple[Engine, int, tuple[int, ...], int]] = []
    for number, stage in enumerate(model.stages):
        cycles = sum(stripe.cycles for stripe in stage.stripes)
        reads = model.sources[number]
        if not stage.tile_words:
            found.append((stage.engine, cycles, reads, stage.output))
            if beside := sum(stripe.beside for stripe in stage.stripes):
                found.append((Engine.CONV, beside, reads, stage.output))
            continue
        tile = len(model.buffers) + number
        after = sum(stripe.after for stripe in stage.stripes)
        found.append((Engine.CONV, cycles, reads[:1], tile))
        found.append((Engine.MISC, after, (*reads[1:], tile), stage.output))
    return found
