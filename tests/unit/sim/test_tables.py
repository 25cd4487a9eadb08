# SPDX-License-Identifier: Apache-2.0
"""Tables in the functional simulator: what they make of results, and who is refused."""

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest

from opendpu_arch import isa
from opendpu_arch.errors import IllegalInstructionError, UninitializedReadError
from opendpu_arch.target import Target
from opendpu_sim.model.machine import plan
from opendpu_sim.progen import random_program

TARGET = Target.from_name("B512+table")
LANES, ENTRIES = 8, 256
Data = npt.NDArray[np.uint8]


def relay(*, table: int, slot_word: int, entries: int = ENTRIES, **load: int) -> bytes:
    """Load 32 words and a table, pass the words through ELEW, and save them."""
    pixels = 32
    values = {"channel": 4, "jump_read": 4, "length": entries // 4} | load
    program = [
        isa.Load(channel=LANES, jump_read=LANES, length=pixels, reg_id=0, dpdby=0b1000),
        isa.Load(
            bank_id=TARGET.table_bank,
            bank_addr=slot_word,
            reg_id=2,
            dpdby=0b1000,
            **values,
        ),
        isa.ElewInit(jump_read=1, dpdon=0b0001),
        isa.Elew(
            length=pixels, num=1, table=table, bank_addr_out=64, dpdon=0b0001, dpdby=0b0010
        ),
        isa.Save(
            bank_addr=64, channel=LANES, jump_write=LANES, length=pixels, reg_id=1, dpdon=0b1000
        ),
        isa.End(),
    ]  # fmt: skip
    return isa.encode(program)


def run(code: bytes, table: Data) -> tuple[Data, Data]:
    """Return all bytes that went in, 0..255, and what came out."""
    data = np.arange(256, dtype=np.uint8)
    segments = {0: data, 1: np.zeros(256, np.uint8), 2: table.copy()}
    plan(code, TARGET).run(segments, check=True)
    return data, segments[1]


def test_every_byte_becomes_its_entry(rng: np.random.Generator) -> None:
    table = rng.integers(0, 256, ENTRIES, np.uint8)
    for slot in range(1, 9):
        data, result = run(relay(table=slot, slot_word=(slot - 1) * 64), table)
        np.testing.assert_array_equal(result, table[data])


def test_addresses_wrap_at_the_end_of_the_tables(rng: np.random.Generator) -> None:
    table = rng.integers(0, 256, ENTRIES, np.uint8)
    data, result = run(relay(table=2, slot_word=64 + 512 * 7), table)
    np.testing.assert_array_equal(result, table[data])


def test_a_word_keeps_its_first_four_bytes(rng: np.random.Generator) -> None:
    table = rng.integers(0, 256, 2 * ENTRIES, np.uint8)
    code = relay(table=1, slot_word=0, channel=LANES, jump_read=LANES)
    data, result = run(code, table)
    np.testing.assert_array_equal(result, table.reshape(-1, 2, 4)[:, 0].reshape(-1)[data])


def test_a_table_that_is_not_loaded_whole_is_found() -> None:
    code = relay(table=1, slot_word=0, entries=ENTRIES - 4)
    with pytest.raises(UninitializedReadError, match=r"\(ELEW\) table: bank 18, word 63, byte 0"):
        run(code, np.zeros(ENTRIES, np.uint8))


def test_a_plain_target_refuses_it_by_name() -> None:
    plain = TARGET.plain
    code = relay(table=1, slot_word=0)
    with pytest.raises(IllegalInstructionError, match=r"bank_id is 18, .* extension 'table'"):
        plan(code, plain)
    with pytest.raises(IllegalInstructionError, match=r"table is 1, .* lacks the extension"):
        plan(isa.encode([isa.ElewInit(), isa.Elew(table=1), isa.End()]), plain)


@pytest.mark.parametrize("engine", ["conv", "dwconv", "pool", "eltwise", "misc"])
def test_a_table_that_changes_nothing_changes_nothing(engine: str) -> None:
    """A random program of a plain target with an identity behind every instruction."""
    slot = 5
    for seed in range(10):
        code, segments = random_program(engine, TARGET.plain, seed)
        program = isa.decode(code)
        start = isa.Load(
            bank_id=TARGET.table_bank,
            bank_addr=(slot - 1) * 64,
            channel=4,
            jump_read=4,
            length=64,
            reg_id=2,
        )  # LOADs keep their order, and everything waits for some
        program.insert(0, start)
        tabled = [dataclasses.replace(i, table=slot) if hasattr(i, "table") else i for i in program]
        results = []
        for run_code in (code, isa.encode(tabled)):
            copy = {k: v.copy() for k, v in segments.items()}
            copy[2] = np.arange(256, dtype=np.uint8)
            plan(run_code, TARGET).run(copy)
            results.append(copy[1])
        np.testing.assert_array_equal(*results, f"seed {seed}")
