# SPDX-License-Identifier: Apache-2.0
"""Registers: no two in one place, and those that AMD's software knows are where it looks."""

import pytest

from opendpu_arch import regs
from opendpu_arch.target import MAX_ADDRESS_REGISTERS


def test_registers_are_words_in_order_without_overlap() -> None:
    offsets = [r.offset for r in regs.REGISTERS]
    assert offsets == sorted(set(offsets))
    assert all(o % 4 == 0 and o < 1 << 12 for o in offsets)


def test_names_are_unique() -> None:
    assert len(regs.OFFSET) == len(regs.REGISTERS)


def test_each_register_is_described() -> None:
    for r in regs.REGISTERS:
        assert r.access in {"rw", "ro", "w1c"}, r
        assert r.doc.endswith("."), r


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("AP_CTRL", 0x00), ("GIE", 0x04), ("IER", 0x08), ("ISR", 0x0C), ("SYS", 0x20),
        ("TIMESTAMP", 0x24), ("FREQ", 0x28), ("IRQ_CLEAR", 0x40), ("PROF_ENA", 0x44), ("HP", 0x48),
        ("INSTR_ADDR_L", 0x50), ("PROF_ADDR_L", 0x58), ("ADDR_0_L", 0x60), ("ADDR_7_H", 0x9C),
        ("GIT_COMMIT_ID", 0x100), ("COMMIT_TIME", 0x104), ("SUB_VERSION", 0x108),
        ("LOAD_CONFIG", 0x118), ("SAVE_CONFIG", 0x120), ("LOAD_START", 0x180), ("LOAD_END", 0x184),
        ("CONV_START", 0x188), ("CONV_END", 0x18C), ("SAVE_START", 0x190), ("SAVE_END", 0x194),
        ("MISC_START", 0x198), ("MISC_END", 0x19C), ("CYCLE_L", 0x1A0), ("CYCLE_H", 0x1A4),
        ("FINGERPRINT_L", 0x1F0), ("FINGERPRINT_H", 0x1F4),
    ],
)  # fmt: skip
def test_the_xrt_flow_finds_its_registers(name: str, offset: int) -> None:
    assert regs.OFFSET[name] == offset


def test_own_registers_keep_beyond_the_vendor_map() -> None:
    for name in ("STATUS", "FAULT_INSTRUCTION", "SEGMENT_SIZE_0", "BUSY_CONV", "TOKENS"):
        assert regs.OFFSET[name] >= 0x200


def test_every_segment_has_an_address_and_a_size() -> None:
    for i in range(MAX_ADDRESS_REGISTERS):
        assert regs.OFFSET[f"ADDR_{i}_H"] == regs.OFFSET[f"ADDR_{i}_L"] + 4
        assert f"SEGMENT_SIZE_{i}" in regs.OFFSET
    assert f"ADDR_{MAX_ADDRESS_REGISTERS}_L" not in regs.OFFSET


def test_fault_codes_fit_their_field() -> None:
    assert regs.Fault.NONE == 0
    assert all(0 <= f <= 0xFF for f in regs.Fault)
