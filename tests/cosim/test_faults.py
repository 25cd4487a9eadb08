# SPDX-License-Identifier: Apache-2.0
"""Everything that stops the DPU before END: the cause is named, and the next start works."""

import dataclasses
import functools

import numpy as np
import pytest

from opendpu.runtime.device import Job
from opendpu_arch import errors, isa
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice
from opendpu_sim.progen import random_program
from opendpu_sim.rtl.device import CODE_SEGMENT, BusFault, RtlDevice

pytestmark = pytest.mark.cosim
TARGET = Target.from_name("B64")
MEMORIES = ["ideal", "kv260", "stall:7"]


@functools.cache
def device(memory):
    return RtlDevice(TARGET, memory=memory, timeout_cycles=1_000_000)


def segments():
    return {
        0: np.arange(4096, dtype=np.uint32).view(np.uint8)[:4096].copy(),
        1: np.zeros(4096, np.uint8),
    }


LOAD = isa.Load(bank_id=0, channel=64, jump_read=64, jump_write=8, length=4, reg_id=0)
SAVE = isa.Save(bank_id=0, channel=64, jump_read=8, jump_write=64, length=4, reg_id=1)
CONVINIT = isa.ConvInit(jump_read=1, kernel_h=1, kernel_w=1)
CONV = isa.Conv(bank_id_in=0, bank_id_out=4, length=4)
GOOD = [
    dataclasses.replace(LOAD, dpdby=1 << Engine.SAVE),
    dataclasses.replace(SAVE, dpdon=1 << Engine.LOAD),
    isa.End(),
]


def check_next_start(dpu, seed=0):
    """A random program of all engines still gives what the functional simulator gives."""
    code, content = random_program("mixed", TARGET, seed)
    expected = {reg: c.copy() for reg, c in content.items()}
    IssDevice(TARGET).run(Job(code, expected))
    faults, dpu.bus_faults = dpu.bus_faults, []
    try:
        dpu.run(Job(code, content))
    finally:
        dpu.bus_faults = faults
    for reg, wanted in expected.items():
        assert np.array_equal(content[reg], wanted)


def fails(memory, code, kind, text, *, content=None, faults=()):
    dpu = device(memory)
    dpu.bus_faults = list(faults)
    try:
        with pytest.raises(kind, match=text) as caught:
            dpu.run(Job(code, content or segments()))
        assert type(caught.value) is kind
        check_next_start(dpu)
    finally:
        dpu.bus_faults = []


PROGRAMS = {
    "unknown opcode": (
        isa.encode(GOOD[:2]) + (0x3 << 28).to_bytes(4, "little"),
        errors.DecodeError,
        r"instruction 2 at byte 0x28: unknown opcode 0x3 \(known: LOAD=0x0",
    ),
    "illegal bank": (
        isa.encode([dataclasses.replace(LOAD, bank_id=63), isa.End()]),
        errors.IllegalInstructionError,
        r"instruction 0 at byte 0x0: LOAD .*bank_id=63.*B64 cannot do",
    ),
    "compute without its INIT": (
        isa.encode([CONV, isa.End()]),
        errors.IllegalInstructionError,
        r"instruction 0 at byte 0x0: CONV ",
    ),
    "no END": (
        isa.encode(GOOD[:2]),
        errors.ProgramError,
        r"program of 40 bytes has no END: the DPU fetched instruction 2 beyond it",
    ),
    "cut in an instruction": (
        isa.encode(GOOD[:2])[:-4],
        errors.ProgramError,
        r"program of 36 bytes has no END: the DPU fetched instruction 1 beyond it",
    ),
    "LOAD beyond its segment": (
        isa.encode([LOAD, dataclasses.replace(LOAD, ddr_addr=4096 - 255), isa.End()]),
        errors.AddressError,
        r"instruction 1 at byte 0x14: LOAD .*outside segment 0, which has 4096 bytes",
    ),
    "SAVE beyond its segment": (
        isa.encode(
            [
                GOOD[0],
                CONVINIT,
                dataclasses.replace(GOOD[1], ddr_addr=4096 - 255),
                isa.End(),
            ]
        ),
        errors.AddressError,
        r"instruction 2 at byte 0x24: SAVE .*outside segment 1, which has 4096 bytes",
    ),
    "LOAD from no segment": (
        isa.encode([dataclasses.replace(LOAD, reg_id=5), isa.End()]),
        errors.AddressError,
        r"instruction 0 at byte 0x0: LOAD .*reg_id 5 has no segment.*segments are 0, 1$",
    ),
    "SAVE to no segment": (
        isa.encode([GOOD[0], dataclasses.replace(GOOD[1], reg_id=2), isa.End()]),
        errors.AddressError,
        r"instruction 1 at byte 0x14: SAVE .*reg_id 2 has no segment",
    ),
    "leftover token": (
        isa.encode([dataclasses.replace(LOAD, dpdby=1 << Engine.CONV), isa.End()]),
        errors.TokenError,
        r"not zero at END",
    ),
    "deadlock": (
        isa.encode([LOAD, dataclasses.replace(LOAD, dpdon=1 << Engine.MISC), isa.End()]),
        errors.DeadlockError,
        r"instruction 1 at byte 0x14: LOAD .* waits for MISC$",
    ),
    "deadlock of two": (
        isa.encode(
            [
                dataclasses.replace(LOAD, dpdon=1 << Engine.SAVE, dpdby=1 << Engine.SAVE),
                dataclasses.replace(SAVE, dpdon=1 << Engine.LOAD, dpdby=1 << Engine.LOAD),
                isa.End(),
            ]
        ),
        errors.DeadlockError,
        r"instruction 0 .* waits for SAVE; instruction 1 .* waits for LOAD$",
    ),
}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("case", PROGRAMS.values(), ids=PROGRAMS)
def test_wrong_program(case, memory):
    fails(memory, *case)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("response", [2, 3], ids=["SLVERR", "DECERR"])
@pytest.mark.parametrize("offset", [0, 100, 255])
@pytest.mark.parametrize("what", ["load", "save"])
def test_bus_error(what, offset, response, memory):
    read = what == "load"
    faults = [
        BusFault(
            port=f"data{i}", write=not read, segment=int(not read), offset=offset, response=response
        )
        for i in range(2)
    ]
    text = r"instruction 0 .*LOAD .*the read at" if read else r"instruction 1 .*SAVE .*the write at"
    fails(memory, isa.encode(GOOD), errors.BusError, text, faults=faults)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize(("offset", "number"), [(0, 0), (12, 0), (20, 1), (40, 2)])
def test_fetch_error(offset, number, memory):
    faults = [BusFault(port="instr", segment=CODE_SEGMENT, offset=offset)]
    text = rf"instruction {number} at byte .*answered its fetch with an error"
    fails(memory, isa.encode(GOOD), errors.BusError, text, faults=faults)


@pytest.mark.parametrize("memory", MEMORIES)
def test_bus_errors_while_all_engines_work(memory):
    """Wherever a read or write fails, the DPU stops cleanly and starts again."""
    dpu = device(memory)
    failed = 0
    rng = np.random.default_rng(5)
    for seed in range(12):
        code, content = random_program("mixed", TARGET, 100 + seed)
        write = bool(seed % 2)
        offset = int(rng.integers(content[int(write)].size))
        dpu.bus_faults = [
            BusFault(port=f"data{i}", write=write, segment=int(write), offset=offset, size=1024)
            for i in range(2)
        ]
        try:
            dpu.run(Job(code, content))
        except errors.BusError as error:
            assert ("write" if write else "read") in str(error)
            failed += 1
        check_next_start(dpu, seed)
    dpu.bus_faults = []
    assert failed >= 4, "the faults hit too rarely for this test to mean much"


@pytest.mark.parametrize("memory", MEMORIES)
def test_timeout_in_the_middle_of_work(memory):
    code, content = random_program("mixed", TARGET, 3)
    for cycles in (1, 50, 300):
        dpu = RtlDevice(TARGET, memory=memory, timeout_cycles=cycles)
        with pytest.raises(errors.DPUTimeoutError, match=f"no interrupt after {cycles} cycles"):
            dpu.run(Job(code, content))
        dpu._timeout = 1_000_000
        check_next_start(dpu)


def test_interrupted_job_does_not_spoil_the_next(monkeypatch):
    dpu = RtlDevice(TARGET, memory="ideal", timeout_cycles=1_000_000)
    code, content = random_program("mixed", TARGET, 4)

    def ctrl_c(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dpu._dpu, "run", ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            dpu.run(Job(code, content))
    check_next_start(dpu)


def test_a_cancelled_job_ends_and_no_other_begins(monkeypatch):
    """As after Ctrl-C: the look at it comes between two pieces of a run."""
    dpu = RtlDevice(TARGET, memory="ideal")
    code, content = random_program("mixed", TARGET, 4)
    pieces = []

    def endless(limit):
        pieces.append(limit)
        if len(pieces) == 3:
            dpu.cancel()
        return False, limit

    with monkeypatch.context() as patch:
        patch.setattr(dpu._dpu, "run", endless)
        with pytest.raises(errors.DPUError, match="the job was cancelled"):
            dpu.run(Job(code, content))
    assert len(pieces) == 3
    with pytest.raises(errors.DPUError, match="the job was cancelled"):
        dpu.run(Job(code, content))
    dpu.close()
