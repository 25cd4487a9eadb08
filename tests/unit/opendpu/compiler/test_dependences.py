# SPDX-License-Identifier: Apache-2.0
"""Dependences of random commands, against a search cell by cell."""

from collections.abc import Sequence

import numpy as np
import pytest

from opendpu.compiler import dependences
from opendpu.compiler.accesses import Accesses, MemoryAccess, areas_of
from opendpu.compiler.banks import BankAccess
from opendpu.compiler.dependences import NONE, find_dependences, find_waits
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target

TARGET = Target.from_name("B64")
Access = BankAccess | MemoryAccess
Cell = tuple[int, int]


def random_accesses(rng: np.random.Generator) -> list[Access]:
    """Draw a few accesses near each other, some with gaps, some round the end of their banks."""
    found: list[Access] = []
    for _ in range(int(rng.integers(0, 4))):
        write = bool(rng.integers(2))
        if rng.integers(4) == 0:
            low = int(rng.integers(2000))
            register = int(rng.integers(3))
            found.append(MemoryAccess(write, register, low, low + int(rng.integers(1, 400))))
            continue
        step = int(rng.choice([1, 1, 1, 2, 3, 4, 6]))
        low = int(rng.integers(-60, 60)) % TARGET.bank_depth
        words = int(rng.integers(1, 40))
        bank = int(rng.integers(4))
        found.append(BankAccess(write, bank, int(rng.integers(1, 4)), low, words, step))
    return found


def cells(access: Access, shared: set[int]) -> set[Cell]:
    if isinstance(access, MemoryAccess):
        blocks = range(access.low // 64, -(-access.high // 64))
        return {(-1 - access.reg_id, n) for n in blocks if access.reg_id in shared}
    return {
        (bank, (access.low + n) % TARGET.bank_depth)
        for bank in range(access.bank, access.bank + access.banks)
        for n in range(0, access.words, access.step)
    }


def searched(
    engines: Sequence[int], touched: Sequence[Sequence[Access]]
) -> tuple[list[list[int]], list[set[int]]]:
    """Return the waits, and the LOADs that filled, or read before, what each command touches."""
    memory = [a for accesses in touched for a in accesses if isinstance(a, MemoryAccess)]
    written, read = ({a.reg_id for a in memory if a.write == w} for w in (True, False))
    last: dict[tuple[Cell, bool, int], int] = {}
    waits, loads = [], []
    for number, (engine, accesses) in enumerate(zip(engines, touched, strict=True)):
        wait, load = [NONE] * len(Engine), set()
        for access in accesses:
            for cell in cells(access, written & read):
                for way in (True, False) if access.write else (True,):
                    for e in Engine:
                        found = last.get((cell, way, e), NONE)
                        wait[e] = max(wait[e], found)
                        if e == Engine.LOAD and found != NONE and way:
                            load.add(found)
        for access in accesses:
            for cell in cells(access, written & read):
                last[cell, access.write, engine] = number
        waits.append(wait)
        loads.append(load)
    return waits, loads


@pytest.mark.parametrize("part", [8, 64, 1 << 13])
@pytest.mark.parametrize("seed", range(4))
def test_random_commands(part: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependences, "PART", part)
    monkeypatch.setattr(dependences, "SHORT_RANGE", -1)
    rng = np.random.default_rng(seed)
    touched = [random_accesses(rng) for _ in range(300)]
    engines = rng.integers(len(Engine), size=300).tolist()
    areas = areas_of(Accesses.of(touched), TARGET)
    waits, ranges = find_dependences(engines, areas)
    wanted, loads = searched(engines, touched)
    assert waits.tolist() == wanted
    assert find_waits(engines, areas).tolist() == wanted
    found: list[set[int]] = [set() for _ in touched]
    rows = zip(ranges.command.tolist(), ranges.first.tolist(), ranges.last.tolist(), strict=True)
    for command, first, last in rows:
        if first == last:
            found[command].add(first)
        else:  # up to the last LOAD that read bytes which the command overwrites
            assert first == 0
            assert last <= wanted[command][Engine.LOAD]
    assert all(a <= b <= a | {0} for a, b in zip(loads, found, strict=True))
    monkeypatch.undo()
    _, ranges = find_dependences(engines, areas)  # LOADs that are near each other as one range
    rows = zip(ranges.command.tolist(), ranges.first.tolist(), ranges.last.tolist(), strict=True)
    for command, first, last in rows:
        found[command] |= set(range(first, last + 1))
    assert all(a <= b for a, b in zip(loads, found, strict=True))


def test_commands_that_touch_nothing() -> None:
    areas = areas_of(Accesses.of([[], []]), TARGET)
    assert (find_waits([0, 1], areas) == NONE).all()
    assert find_dependences([], areas_of(Accesses.of([]), TARGET))[0].shape == (0, len(Engine))
