# SPDX-License-Identifier: Apache-2.0
"""Execution by tokens, and what is said when tokens do not work out."""

import pytest

from opendpu_arch import isa
from opendpu_arch.errors import DeadlockError, TokenError
from opendpu_sim.model.schedule import execution_order

LOAD, SAVE, CONV, MISC = 1, 2, 4, 8


def test_program_order_without_tokens() -> None:
    program = [isa.Conv(), isa.Load(), isa.Elew(), isa.Save(), isa.End()]
    assert execution_order(program) == [0, 1, 2, 3, 4]


def test_a_token_holds_an_instruction_back() -> None:
    program = [
        isa.Conv(dpdon=CONV | LOAD, dpdby=CONV),
        isa.Load(dpdon=LOAD, dpdby=LOAD | CONV),
        isa.End(),
    ]
    assert execution_order(program) == [1, 0, 2]


def test_self_bits_are_no_tokens() -> None:
    assert execution_order([isa.Save(dpdon=SAVE, dpdby=SAVE), isa.End(dpdon=SAVE)]) == [0, 1]


def test_a_seed_gives_other_orders_but_keeps_every_queue_in_order() -> None:
    program: list[isa.Instruction] = [isa.Load(), isa.Conv(), isa.Elew(), isa.Save()] * 5
    program.append(isa.End())
    orders = {tuple(execution_order(program, seed)) for seed in range(20)}
    assert len(orders) > 10
    for order in orders:
        assert sorted(order) == list(range(len(program)))
        for first in range(4):
            queue = [n for n in order if program[n].ENGINE == program[first].ENGINE]
            assert queue == sorted(queue)


def test_a_deadlock_names_who_waits_for_whom() -> None:
    program = [
        isa.Load(dpdon=LOAD | CONV, bank_id=5),
        isa.Load(),
        isa.Conv(dpdon=CONV | LOAD | MISC),
        isa.End(),
    ]
    with pytest.raises(DeadlockError) as caught:
        execution_order(program)
    lines = str(caught.value).splitlines()
    assert lines[0] == "deadlock, nobody will give these tokens:"
    assert lines[1].startswith(
        "instruction 0 waits for a token from CONV (1 behind it): LOAD dpdon=5 dpdby=0 bank_id=5 "
    )
    assert lines[2].startswith("instruction 2 waits for a token from LOAD and MISC: CONV dpdon=13")
    assert len(lines) == 3


def test_left_over_tokens_are_named() -> None:
    program = [isa.Load(dpdby=CONV | MISC), isa.Load(dpdby=CONV), isa.End()]
    with pytest.raises(TokenError) as caught:
        execution_order(program)
    assert str(caught.value) == (
        "tokens left over at END, but must be zero: LOAD to CONV: 2, LOAD to MISC: 1"
    )
