# SPDX-License-Identifier: Apache-2.0
"""Every cycle has one layer and one reason."""

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timelines import any_order, draw_program, possible, view_of

from opendpu.profile import CATEGORIES, ProgramView, account
from opendpu.profile.program import Work, array_steps
from opendpu.runtime.device import Timeline
from opendpu_arch.errors import ProgramError, TokenError
from opendpu_arch.isa import Alu, Conv, ConvInit, End, Engine, Instruction, Load, Save

PEAK = 64


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32), order=st.sampled_from([possible, any_order]))
def test_reasons_add_up_to_the_cycles(seed: int, order) -> None:
    pick = random.Random(seed)
    program = draw_program(pick)
    view = view_of(program, pick)
    timeline, cycles = order(program, pick)
    found = account(view, timeline, cycles, PEAK)
    assert sum(found.total().values()) == cycles
    for row in (*found.by_layer, found.outside):
        assert set(row) == set(CATEGORIES)
        assert min(row.values()) >= 0
    busy = found.total()["useful"] + found.total()["lanes"]
    assert busy <= sum(view.steps)
    if order is possible:
        assert busy == sum(view.steps), "every step has its cycle"
        for row, work in zip(found.by_layer, view.work, strict=True):
            whole = row["useful"] + row["lanes"]
            assert row["useful"] == min(Fraction(work.array_macs, PEAK), whole)


def bit(*engines: Engine) -> int:
    return sum(1 << engine for engine in engines)


def accounted(
    *rows: tuple[Instruction, str, int, int], cycles: int, macs: int = 0
) -> dict[tuple[str, str], int]:
    """Return cycles by layer and reason that are not zero; rows are instruction, layer, times."""
    layers = tuple(dict.fromkeys(layer for _, layer, _, _ in rows if layer))
    program = tuple(row[0] for row in rows)
    view = ProgramView(
        name="test", instructions=program, layers=layers,
        layer_of=tuple(layers.index(r[1]) if r[1] else -1 for r in rows),
        work=tuple(Work(array_macs=macs) for _ in layers), constant_registers=frozenset(),
        steps=array_steps(program),
    )  # fmt: skip
    timeline = Timeline(np.array([r[2] for r in rows]), np.array([r[3] for r in rows]))
    found = account(view, timeline, cycles, PEAK)
    return {
        (layer, key): int(value)
        for layer, row in zip((*layers, ""), (*found.by_layer, found.outside), strict=True)
        for key, value in row.items()
        if value
    }


LOAD, SAVE, CONV, MISC = Engine


def test_a_convolution_waits_for_its_load() -> None:
    found = accounted(
        (Load(dpdby=bit(CONV)), "a", 10, 29),
        (ConvInit(kernel_h=2), "a", 5, 6),
        (Conv(length=10, dpdon=bit(LOAD), dpdby=bit(SAVE)), "a", 32, 59),
        (Save(dpdon=bit(CONV)), "a", 61, 80),
        (End(), "", 82, 82),
        cycles=90, macs=64 * 15,
    )  # fmt: skip
    assert found == {
        ("a", "issue"): 5 + 2 + 3 + 2 + 1,  # no instruction; CONVINIT; not fetched; hand-overs
        ("a", "load"): 20,
        ("a", "useful"): 15,
        ("a", "lanes"): 5,
        ("a", "fill"): 28 - 20,
        ("a", "save"): 20,
        ("", "issue"): 9,
    }


def test_a_wait_is_followed_to_its_root() -> None:
    """A CONV that waits for the misc engine, which waits for a LOAD that waits for a SAVE."""
    found = accounted(
        (Save(dpdby=bit(LOAD)), "x", 0, 19),
        (Load(dpdon=bit(SAVE), dpdby=bit(MISC)), "b", 20, 49),
        (Alu(dpdon=bit(LOAD), dpdby=bit(CONV)), "b", 50, 69),
        (Conv(length=10, dpdon=bit(MISC)), "c", 70, 79),
        (End(), "", 80, 80),
        cycles=81,
    )  # fmt: skip
    assert found == {
        ("b", "save"): 20, ("b", "load"): 30, ("b", "misc"): 20, ("c", "lanes"): 10,
        ("", "issue"): 1,
    }  # fmt: skip


def test_steps_of_the_next_convolution_run_while_the_last_drains() -> None:
    found = accounted(
        (Conv(length=10), "a", 0, 14),
        (Conv(length=10), "b", 2, 24),
        (End(), "", 25, 25),
        cycles=26,
    )
    assert found == {
        ("a", "lanes"): 10, ("b", "lanes"): 10, ("b", "fill"): 5, ("", "issue"): 1,
    }  # fmt: skip


def test_a_program_without_convolutions() -> None:
    found = accounted(
        (Load(dpdby=bit(MISC)), "p", 3, 12),
        (Alu(dpdon=bit(LOAD), dpdby=bit(SAVE)), "p", 13, 22),
        (Save(dpdon=bit(MISC)), "p", 23, 32),
        (End(), "", 33, 33),
        cycles=34,
    )
    assert found == {
        ("p", "issue"): 3, ("p", "load"): 10, ("p", "misc"): 10, ("p", "save"): 10,
        ("", "issue"): 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("start", "end", "cycles", "message"),
    [
        ([0, 5], [4, 5], 5, "instruction 1 runs from 5 to 6, but the run has 5 cycles"),
        ([-1, 5], [-1, 5], 9, "instruction 0 runs from -1 to 0, but the run has 9 cycles"),
        ([0], [4], 9, "the timeline has 1 instructions, the program 2"),
        ([6, 5], [7, 8], 9, "instructions of SAVE start out of order"),
    ],
)
def test_timelines_of_something_else(start, end, cycles: int, message: str) -> None:
    program = (Save(), End())
    view = ProgramView(
        name="test", instructions=program, layers=("a",), layer_of=(0, -1), work=(Work(),),
        constant_registers=frozenset(), steps=(0, 0),
    )  # fmt: skip
    with pytest.raises(ProgramError, match=message):
        account(view, Timeline(np.array(start), np.array(end)), cycles, PEAK)


def test_a_token_that_nobody_gives() -> None:
    with pytest.raises(TokenError, match=r"instruction 0 \(CONV\) takes token 0 of LOAD, which gi"):
        accounted((Conv(dpdon=bit(LOAD)), "a", 0, 3), (End(), "", 5, 5), cycles=6)
