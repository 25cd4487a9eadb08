# SPDX-License-Identifier: Apache-2.0
"""The bridge's client against a system of a few lines: memory, and a DPU that is only registers."""

import json
import socket
import threading

import numpy as np
import pytest

from opendpu_arch import errors
from opendpu_arch.regs import OFFSET
from opendpu_arch.target import Target

pytest.importorskip("serial", reason="needs pySerial, of the extra opendpu[boards]")

from opendpu.runtime.board import LitexDevice, litex

TARGET = Target.from_name("B64")
REGISTERS, MEMORY, SIZE = 0x8000_0000, 0x4000_0000, 1 << 16
SDRAM = {
    name: 0x1000 + 4 * at
    for at, name in enumerate(("control", "command", "issue", "address", "bank"))
}
SEQUENCE = [
    {"register": "control", "value": 14, "address": 0, "bank": 0, "delay": 20},
    {"register": "command", "value": 11, "address": 1024, "bank": 1, "delay": 0},
]


class System(threading.Thread):
    """A bus of words behind UARTBone."""

    def __init__(self):
        super().__init__(daemon=True)
        self.words = {}
        self.writes = []
        self.broken = set()
        self.silent = False
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = f"socket://127.0.0.1:{self.server.getsockname()[1]}"
        self.words[REGISTERS + OFFSET["AP_CTRL"]] = 4
        self.words[REGISTERS + OFFSET["FINGERPRINT_L"]] = TARGET.fingerprint & 0xFFFF_FFFF
        self.words[REGISTERS + OFFSET["FINGERPRINT_H"]] = TARGET.fingerprint >> 32
        self.start()

    def run(self):
        try:
            client, _ = self.server.accept()
        except OSError:  # closed before anybody came
            return
        with client, client.makefile("rb") as file:
            while header := file.read(6):
                command, count = header[0], header[1]
                address = 4 * int.from_bytes(header[2:], "big")
                if command == litex.WRITE:
                    for n in range(count):
                        self.write(address + 4 * n, int.from_bytes(file.read(4), "big"))
                elif not self.silent:
                    for n in range(count):
                        client.sendall(self.words.get(address + 4 * n, 0).to_bytes(4, "big"))

    def write(self, address, value):
        self.writes.append((address, value))
        if address not in self.broken:
            self.words[address] = value


@pytest.fixture
def system():
    made = System()
    yield made
    made.server.close()


@pytest.fixture
def soc(tmp_path):
    path = tmp_path / "soc.json"
    content = {
        "board": "ulx3s", "baud": 1_000_000, "clock": 25_000_000, "registers": REGISTERS,
        "memory": {"address": MEMORY, "size": SIZE},
        "sdram": {"registers": SDRAM, "sequence": SEQUENCE},
    }  # fmt: skip
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_starts_the_sdram(system, soc):
    LitexDevice(TARGET, port=system.url, soc=soc).close()
    at = SDRAM
    assert system.writes == [
        (at["address"], 0), (at["bank"], 0), (at["control"], 14),
        (at["address"], 1024), (at["bank"], 1), (at["command"], 11), (at["issue"], 1),
        (at["control"], 1),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 4, 63, 64, 1020, 1021, 5000])
def test_memory_is_written_and_read(system, soc, size):
    transport = litex.LitexTransport(system.url, soc)
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    transport.memory.store(4096, data)
    back = np.zeros(size, np.uint8)
    transport.memory.load(4096, back)
    transport.close()
    assert np.array_equal(back, data)
    word = system.words[MEMORY + 4096]
    assert word.to_bytes(4, "little")[: min(size, 4)] == data[:4].tobytes()


def test_only_what_differs_is_sent(system, soc):
    transport = litex.LitexTransport(system.url, soc)
    data = np.zeros(4096, np.uint8)
    transport.memory.store(0, data)  # zeros too: nobody knows what is there
    system.writes.clear()
    transport.memory.store(0, data)
    assert system.writes == []
    data[[130, 4095]] = 7
    transport.memory.store(0, data)
    sent = {address - MEMORY for address, _ in system.writes}
    assert sent == {*range(128, 192, 4), *range(4032, 4096, 4)}
    system.words[MEMORY + 8] = 0x01020304  # the DPU's work
    back = np.zeros(4096, np.uint8)
    transport.memory.load(0, back)
    assert back[8:12].tolist() == [4, 3, 2, 1]
    system.writes.clear()
    transport.memory.store(0, data)
    assert {address - MEMORY for address, _ in system.writes} == set(range(0, 64, 4))
    transport.close()


def test_a_write_that_gets_lost(system, soc):
    system.broken.add(MEMORY + 60)
    transport = litex.LitexTransport(system.url, soc)
    with pytest.raises(errors.BusError, match="what was written at 0x4000003c is not there"):
        transport.memory.store(0, np.ones(64, np.uint8))
    transport.close()


def test_nobody_answers(system, soc, monkeypatch):
    monkeypatch.setattr(litex, "TIMEOUT_SECONDS", 0.05)
    system.silent = True
    with pytest.raises(errors.BusError, match=r"no answer within 0.05 seconds to a read at 0x8000"):
        LitexDevice(TARGET, port=system.url, soc=soc)


def test_another_dpu(system, soc):
    with pytest.raises(errors.FingerprintError, match="open it with its own target"):
        LitexDevice(Target.from_name("B512"), port=system.url, soc=soc)


def test_no_port(soc):
    with pytest.raises(errors.DPUError, match="bridge '/dev/ttyNONE' cannot be opened"):
        LitexDevice(TARGET, port="/dev/ttyNONE", soc=soc)


@pytest.mark.parametrize("content", ["", "[]", '{"registers": 1}'])
def test_no_description(tmp_path, content):
    path = tmp_path / "soc.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(errors.DPUError, match="is no description of a LiteX system"):
        LitexDevice(TARGET, port="loop://", soc=path)


def test_what_is_needed(monkeypatch):
    monkeypatch.delenv("OPENDPU_LITEX_PORT", raising=False)
    with pytest.raises(errors.DPUError, match="device 'litex' needs OPENDPU_LITEX_PORT"):
        LitexDevice(TARGET)
    with pytest.raises(errors.DPUError, match="device 'litex' needs OPENDPU_LITEX_SOC"):
        LitexDevice(TARGET, port="loop://")
