# SPDX-License-Identifier: Apache-2.0
"""Status registers to exceptions."""

import numpy as np
import pytest

from opendpu.runtime.device import Job
from opendpu_arch import errors, isa
from opendpu_arch.regs import Fault
from opendpu_arch.target import Target
from opendpu_sim.rtl.faults import fault_error

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


def error(cause, number=0, address=BASES[1] + 0x110, code=None):
    job = Job(code or isa.encode(PROGRAM), {1: np.zeros(0x100, np.uint8)})
    return fault_error(
        job,
        Target.from_name("B64"),
        status=cause | 0x1000,
        number=number,
        address=address,
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
        (Fault.DEADLOCK, errors.DeadlockError, r"deadlock"),
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


def test_unknown_opcode_names_itself():
    code = isa.encode(PROGRAM[:1]) + bytes([0, 0, 0, 0x30])
    with pytest.raises(errors.DecodeError, match=r"instruction 1 at byte 0x14: .*opcode 0x3"):
        raise error(Fault.UNKNOWN_OPCODE, number=1, code=code)


def test_fetch_beyond_the_end_means_no_end():
    code = isa.encode(PROGRAM[:2])
    with pytest.raises(errors.ProgramError, match=r"program of 40 bytes has no END"):
        raise error(Fault.FETCH_ERROR, number=1, address=CODE_BASE + 40, code=code)
    with pytest.raises(errors.BusError, match=r"fetch at byte 0x4 of the program"):
        raise error(Fault.FETCH_ERROR, address=CODE_BASE + 4, code=code)
