# SPDX-License-Identifier: Apache-2.0
"""UIO and u-dma-buf, with files in the place of the kernel's."""

import os
import sys
import types

import numpy as np
import pytest

from opendpu.runtime.board import BoardDevice, linux
from opendpu_arch import errors
from opendpu_arch.regs import OFFSET
from opendpu_arch.target import Target

TARGET = Target.from_name("B64")
SIZE = 1 << 20


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A kernel with another UIO device and ours, and a buffer."""
    monkeypatch.setattr(linux, "SYSTEM", tmp_path / "sys")
    monkeypatch.setattr(linux, "DEVICES", tmp_path / "dev")
    for number, name in enumerate(("axi-pmon", "opendpu")):
        facts = tmp_path / "sys/uio" / f"uio{number}"
        facts.mkdir(parents=True)
        (facts / "name").write_text(f"{name}\n", encoding="utf-8")
    (tmp_path / "dev").mkdir()
    registers = np.zeros(1024, "<u4")
    registers[OFFSET["AP_CTRL"] // 4] = 4
    registers[OFFSET["FINGERPRINT_L"] // 4] = TARGET.fingerprint & 0xFFFF_FFFF
    registers[OFFSET["FINGERPRINT_H"] // 4] = TARGET.fingerprint >> 32
    (tmp_path / "dev/uio1").write_bytes(registers.tobytes())
    buffer = tmp_path / "sys/u-dma-buf/udmabuf-opendpu"
    buffer.mkdir(parents=True)
    (buffer / "phys_addr").write_text("0x0000000070000000\n", encoding="utf-8")
    (buffer / "size").write_text(f"{SIZE}\n", encoding="utf-8")
    (tmp_path / "dev/udmabuf-opendpu").write_bytes(bytes(SIZE))
    return tmp_path


def test_opens(system):
    BoardDevice(TARGET).close()


def test_registers_are_those_of_the_file(system):
    transport = linux.LinuxTransport("opendpu", "udmabuf-opendpu")
    transport.write(OFFSET["ADDR_3_H"], 0xFF)
    assert transport.read(OFFSET["ADDR_3_H"]) == 0xFF
    transport.close()
    content = (system / "dev/uio1").read_bytes()
    assert content[OFFSET["ADDR_3_H"] : OFFSET["ADDR_3_H"] + 4] == b"\xff\0\0\0"
    with pytest.raises(errors.DPUError, match="uio1 is closed"):
        transport.read(0)


def test_memory_is_that_of_the_file(system):
    memory = linux.DmaBuffer("udmabuf-opendpu")
    assert (memory.address, memory.size) == (0x7000_0000, SIZE)
    data = np.arange(100, dtype=np.uint8)
    memory.store(4096, data)
    back = np.zeros(100, np.uint8)
    memory.load(4096, back)
    memory.close()
    assert np.array_equal(back, data)
    assert (system / "dev/udmabuf-opendpu").read_bytes()[4096:4196] == data.tobytes()


def test_interrupt(system, monkeypatch):
    """A pipe stands for the file: enabling is a write of 1, the interrupt a count to read."""
    uio = linux.Uio("opendpu")
    reader, writer = os.pipe()
    enabled = []
    monkeypatch.setattr(linux.os, "write", lambda file, data: enabled.append(data))
    keep, uio._file = uio._file, reader
    assert not uio.wait(0)
    monkeypatch.undo()
    os.write(writer, b"\x01\0\0\0")
    monkeypatch.setattr(linux.os, "write", lambda file, data: enabled.append(data))
    assert uio.wait(0)
    assert not uio.wait(0)
    assert enabled == [b"\x01\0\0\0"] * 3
    uio._file = keep
    for file in (reader, writer):
        os.close(file)
    uio.close()


def test_pynq(system, monkeypatch):
    calls = []

    class Buffer(np.ndarray):
        device_address = 0x6000_0000

        def flush(self):
            calls.append(("flush", self.size))

        def invalidate(self):
            calls.append(("invalidate", self.size))

        def freebuffer(self):
            calls.append(("free", self.size))

    pynq = types.SimpleNamespace(allocate=lambda shape, dtype: np.zeros(shape, dtype).view(Buffer))
    monkeypatch.setitem(sys.modules, "pynq", pynq)
    transport = linux.LinuxTransport("opendpu", "pynq")
    data = np.arange(10, dtype=np.uint8)
    transport.memory.store(64, data)
    back = np.zeros(10, np.uint8)
    transport.memory.load(64, back)
    transport.close()
    assert np.array_equal(back, data)
    assert calls == [("flush", 10), ("invalidate", 10), ("free", linux.PYNQ_BYTES)]


def test_no_pynq(system, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynq", None)
    with pytest.raises(errors.DPUError, match="needs the package pynq"):
        BoardDevice(TARGET, buffer="pynq")


def test_no_overlay(tmp_path, monkeypatch):
    monkeypatch.setattr(linux, "SYSTEM", tmp_path)
    with pytest.raises(errors.DPUError, match="no UIO device is called 'opendpu'; is the overlay"):
        BoardDevice(TARGET)


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        ("dev/uio1", r"uio1: it cannot be opened: No such file or directory"),
        ("dev/udmabuf-opendpu", r"udmabuf-opendpu: it cannot be opened: No such file"),
        ("sys/u-dma-buf/udmabuf-opendpu/size", r"there is no u-dma-buf buffer 'udmabuf-opendpu'"),
    ],
)
def test_a_file_is_missing(system, lost, text):
    (system / lost).unlink()
    with pytest.raises(errors.DPUError, match=text):
        BoardDevice(TARGET)


def test_a_short_device(system):
    (system / "dev/uio1").write_bytes(b"")
    with pytest.raises(errors.DPUError, match="registers cannot be mapped"):
        BoardDevice(TARGET, uio=str(system / "dev/uio1"))


@pytest.mark.parametrize("word", [0, 0xFFFF_FFFF])
def test_no_bitstream(system, word):
    (system / "dev/uio1").write_bytes(np.full(1024, word, "<u4").tobytes())
    with pytest.raises(errors.DPUError, match="no DPU answers: its fingerprint reads as 0x"):
        BoardDevice(TARGET)


def test_another_dpu(system):
    with pytest.raises(errors.FingerprintError, match="open it with its own target"):
        BoardDevice(Target.from_name("B512"))


def test_busy(system):
    content = bytearray((system / "dev/uio1").read_bytes())
    content[0] = 0
    (system / "dev/uio1").write_bytes(content)
    with pytest.raises(errors.DPUError, match="still runs an earlier program"):
        BoardDevice(TARGET)


def test_names_from_the_environment(system, monkeypatch):
    monkeypatch.setenv("OPENDPU_UIO", "other")
    with pytest.raises(errors.DPUError, match="no UIO device is called 'other'"):
        BoardDevice(TARGET)
    monkeypatch.delenv("OPENDPU_UIO")
    monkeypatch.setenv("OPENDPU_BUFFER", "udmabuf7")
    with pytest.raises(errors.DPUError, match="no u-dma-buf buffer 'udmabuf7'"):
        BoardDevice(TARGET)


def test_time_out_from_the_environment(system, monkeypatch):
    monkeypatch.setenv("XLNX_DPU_TIMEOUT", "soon")
    with pytest.raises(errors.DPUTimeoutError, match="XLNX_DPU_TIMEOUT is 'soon'"):
        BoardDevice(TARGET)
