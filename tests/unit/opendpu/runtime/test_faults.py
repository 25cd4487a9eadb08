# SPDX-License-Identifier: Apache-2.0
"""Status registers to exceptions."""

import dataclasses

import numpy as np
import pytest

from opendpu.runtime.device import Job
from opendpu.runtime.faults import fault_error
from opendpu_arch import errors, isa
from opendpu_arch.regs import Fault
from opendpu_arch.target import Target

BASES = [(i + 1) << 36 for i in range(8)]
CODE_BASE = 0x1000
PROGRAM = [
    isa.Load(
        bank_id=0,
        bank_addr=0,
        jump_read=16,
        jump_write=1,
        pad_idx=1,
        channel=16,
        length=2,
        pad_start=0,
        pad_end=0,
        mode_avg=0,
        broadcast=0,
        const_value=0,
        reg_id=reg_id,
        ddr_addr=0x100,
    )
    for reg_id in (1, 5)
] + [isa.End()]


POOL_FIELDS = [f.name for f in isa.PoolInit.bit_fields() if f.name not in ("dpdon", "dpdby")]


def error(cause, number=0, address=BASES[1] + 0x110, code=None, engine=0, started=None):
    job = Job(code or isa.encode(PROGRAM), {1: np.zeros(0x100, np.uint8)})
    return fault_error(
        job,
        Target.from_name("B64"),
        status=cause | engine << 8 | 0x1000,
        number=number,
        address=address,
        started=started or {},
        bases=BASES,
        code_base=CODE_BASE,
    )


@pytest.mark.parametrize(
    ("cause", "kind", "text"),
    [
        (Fault.ILLEGAL_FIELD, errors.IllegalInstructionError, r"instruction 0 at byte 0x0: LOAD "),
        (Fault.LOAD_BUS_ERROR, errors.BusError, r"read at byte 0x110 of segment 1"),
        (Fault.SAVE_BUS_ERROR, errors.BusError, r"write at byte 0x110 of segment 1"),
        (
            Fault.LOAD_ADDRESS,
            errors.AddressError,
            r"byte 0x110 of segment 1 is outside segment 1, which has 256 bytes",
        ),
        (Fault.LEFTOVER_TOKEN, errors.TokenError, r"not zero at END"),
        (Fault.DEADLOCK, errors.DeadlockError, r"no engine can go on"),
        (77, errors.DPUError, r"status 0x104d"),
    ],
)
def test_cause(cause, kind, text):
    found = error(cause)
    assert type(found) is kind
    with pytest.raises(kind, match=text):
        raise found


def test_instruction_number_finds_its_text():
    with pytest.raises(errors.AddressError, match=r"instruction 1 at byte 0x14: LOAD .*reg_id=5"):
        raise error(Fault.LOAD_ADDRESS, number=1)


def test_bus_error_without_segment_is_an_address_error():
    with pytest.raises(errors.AddressError, match=r"reg_id 5 has no segment.*segments are 1$"):
        raise error(Fault.LOAD_BUS_ERROR, number=1, address=BASES[5])


def test_the_first_byte_of_a_segment_belongs_to_it():
    with pytest.raises(errors.BusError, match="read at byte 0x0 of segment 1 with"):
        raise error(Fault.LOAD_BUS_ERROR, address=BASES[1])
    with pytest.raises(errors.BusError, match="read at address 0xfff with"):
        raise error(Fault.LOAD_BUS_ERROR, address=CODE_BASE - 1)


def test_unknown_opcode_names_itself():
    code = isa.encode(PROGRAM[:1]) + bytes([0, 0, 0, 0x30])
    with pytest.raises(errors.DecodeError, match=r"instruction 1 at byte 0x14: .*opcode 0x3"):
        raise error(Fault.UNKNOWN_OPCODE, number=1, code=code)


def test_fetch_beyond_the_end_means_no_end():
    code = isa.encode(PROGRAM[:2])
    with pytest.raises(errors.ProgramError, match=r"program of 40 bytes has no END.*instruction 2"):
        raise error(Fault.FETCH_ERROR, number=2, address=0, code=code)
    with pytest.raises(errors.BusError, match=r"instruction 1 at byte 0x14: LOAD .*its fetch"):
        raise error(Fault.FETCH_ERROR, number=1, address=0, code=code)


def test_engines_count_their_own_instructions():
    program = [isa.PoolInit(**dict.fromkeys(POOL_FIELDS, 1)), PROGRAM[0], PROGRAM[1], isa.End()]
    code = isa.encode(program)
    with pytest.raises(errors.AddressError, match=r"instruction 2 at byte 0x1c: LOAD .*reg_id=5"):
        raise error(Fault.LOAD_ADDRESS, number=1, code=code)
    with pytest.raises(
        errors.IllegalInstructionError, match=r"instruction 0 at byte 0x0: POOLINIT"
    ):
        raise error(Fault.ILLEGAL_FIELD, number=0, code=code)


def test_deadlock_names_who_waits_for_whom():
    program = [PROGRAM[0], dataclasses.replace(PROGRAM[0], dpdon=1 << isa.Engine.SAVE), isa.End()]
    started = {isa.Engine.LOAD: 1, isa.Engine.SAVE: 0, isa.Engine.CONV: 0, isa.Engine.MISC: 0}
    text = r"no engine can go on; instruction 1 at byte 0x14: LOAD .* waits for SAVE$"
    with pytest.raises(errors.DeadlockError, match=text):
        raise error(Fault.DEADLOCK, code=isa.encode(program), started=started)
