# SPDX-License-Identifier: Apache-2.0
"""Host registers of the XRT flow (AXI4-Lite, 32 bit), and OpenDPU's own beyond 0x200."""

import dataclasses
import enum
from collections.abc import Collection

from opendpu_arch.extensions import Extension
from opendpu_arch.target import MAX_ADDRESS_REGISTERS


class Fault(enum.IntEnum):
    """Causes in ``STATUS``: why the DPU stopped before END."""

    NONE = 0
    UNKNOWN_OPCODE = 1
    ILLEGAL_FIELD = 2
    FETCH_ERROR = 3
    LOAD_BUS_ERROR = 4
    SAVE_BUS_ERROR = 5
    LOAD_ADDRESS = 6
    SAVE_ADDRESS = 7
    LEFTOVER_TOKEN = 8
    DEADLOCK = 9


@dataclasses.dataclass(frozen=True)
class Register:
    """One 32-bit register: byte offset, access (``rw``, ``ro``, ``w1c``), meaning."""

    name: str
    offset: int
    access: str
    doc: str


_CONTROL = (
    Register(
        "AP_CTRL",
        0x00,
        "rw",
        "0 start (self-clearing), 1 done (cleared by reading), "
        "2 idle, 3 ready, 7 auto restart (ignored).",
    ),
    Register("GIE", 0x04, "rw", "0 global interrupt enable."),
    Register("IER", 0x08, "rw", "0 interrupt on done."),
    Register("ISR", 0x0C, "w1c", "0 interrupt pending."),
    Register(
        "SYS", 0x20, "ro", "[7:0] register map (1), [23:16] IP type (1 DPU), [31:24] version."
    ),
    Register("TIMESTAMP", 0x24, "ro", "Time of generation; 0: not recorded."),
    Register("FREQ", 0x28, "ro", "[11:0] DPU clock in MHz, [23:12] S_AXI clock in MHz."),
    Register("IRQ_CLEAR", 0x40, "rw", "Writing 1 clears the interrupt."),
    Register("PROF_ENA", 0x44, "rw", "0 profiling enable; the counters always count."),
    Register(
        "HP",
        0x48,
        "rw",
        "Bus limits [31:24] AWCOUNT_MAX, [23:16] ARCOUNT_MAX, "
        "[15:8] AWLEN, [7:0] ARLEN; informative.",
    ),
)
"""Start, end, interrupt."""

_ADDRESSES = (
    Register("INSTR_ADDR_L", 0x50, "rw", "Byte address of the program, low word."),
    Register("INSTR_ADDR_H", 0x54, "rw", "The same, bits 39:32."),
    Register("PROF_ADDR_L", 0x58, "rw", "Kept for software; unused."),
    Register("PROF_ADDR_H", 0x5C, "rw", "Kept for software; unused."),
    *(
        register
        for i in range(MAX_ADDRESS_REGISTERS)
        for register in (
            Register(f"ADDR_{i}_L", 0x60 + 8 * i, "rw", f"Base of segment {i}, low word."),
            Register(f"ADDR_{i}_H", 0x64 + 8 * i, "rw", "The same, bits 39:32."),
        )
    ),
)
"""Where a program and its segments are."""

_IDENTITY = (
    Register("GIT_COMMIT_ID", 0x100, "ro", "0: not recorded."),
    Register("COMMIT_TIME", 0x104, "ro", "0: not recorded."),
    Register("SUB_VERSION", 0x108, "ro", "[19:12] sub version."),
    Register("LOAD_CONFIG", 0x118, "ro", "[3:0] parallel, [7:4] minus mean, [11:8] augmentation."),
    Register("SAVE_CONFIG", 0x120, "ro", "[3:0] parallel."),
)
"""How the DPU was built."""

_COUNTERS = (
    *(
        register
        for i, engine in enumerate(("LOAD", "CONV", "SAVE", "MISC"))
        for register in (
            Register(f"{engine}_START", 0x180 + 8 * i, "ro", f"{engine} instructions started."),
            Register(f"{engine}_END", 0x184 + 8 * i, "ro", f"{engine} instructions ended."),
        )
    ),
    Register("CYCLE_L", 0x1A0, "ro", "Cycles from start to the interrupt, low word."),
    Register("CYCLE_H", 0x1A4, "ro", "The same, high word."),
)
"""What happened since the last start."""

_FINGERPRINT = (
    Register("FINGERPRINT_L", 0x1F0, "ro", "Fingerprint of the target, low word."),
    Register("FINGERPRINT_H", 0x1F4, "ro", "The same, high word."),
)

_OWN = (
    Register("STATUS", 0x200, "ro", "[7:0] `Fault`, [11:8] engine, [12] error."),
    Register(
        "FAULT_INSTRUCTION",
        0x204,
        "ro",
        "Faults of the decoder: number of the "
        "instruction. Faults of an engine: how many of its instructions had ended.",
    ),
    Register("FAULT_ADDR_L", 0x208, "ro", "Byte address that failed, low word."),
    Register("FAULT_ADDR_H", 0x20C, "ro", "The same, bits 39:32."),
    *(
        Register(f"SEGMENT_SIZE_{i}", 0x220 + 4 * i, "rw", f"Bytes in segment {i}; 0: unlimited.")
        for i in range(MAX_ADDRESS_REGISTERS)
    ),
    Register("BUSY_LOAD", 0x240, "ro", "Cycles with a LOAD unfinished."),
    Register("BUSY_SAVE", 0x244, "ro", "Cycles with a SAVE unfinished."),
    Register("BUSY_CONV", 0x248, "ro", "Cycles with a CONV unfinished."),
    Register("BUSY_MISC", 0x24C, "ro", "Cycles with a MISC instruction unfinished."),
    Register("ACTIVE_CONV", 0x250, "ro", "Cycles in which the array made a step."),
    Register("ACTIVE_MISC", 0x254, "ro", "Cycles in which the MISC engine made a step."),
    Register("TOKENS", 0x258, "ro", "1 while any token counter is not zero."),
    Register("EXTENSIONS", 0x25C, "ro", "What there is beyond ISA1, see below."),
)
"""Those that AMD's DPU does not have."""

REGISTERS: tuple[Register, ...] = (
    *_CONTROL,
    *_ADDRESSES,
    *_IDENTITY,
    *_COUNTERS,
    *_FINGERPRINT,
    *_OWN,
)
"""Every register, by offset."""


def registers_of(extensions: Collection[Extension]) -> tuple[Register, ...]:
    """Return the registers of a target with these extensions: without any, EXTENSIONS is none."""
    return tuple(r for r in REGISTERS if extensions or r.name != "EXTENSIONS")


OFFSET: dict[str, int] = {r.name: r.offset for r in REGISTERS}
"""Byte offset by name."""

IP_VERSION = 0x41
"""SYS [31:24]: 4.1, the version whose behaviour is matched."""
