# SPDX-License-Identifier: Apache-2.0
"""A DPU in a LiteX system, through the bridge that LiteX calls UARTBone.

LiteX's own client waits for ever where nothing answers, and sends eight words at a time; this one
has a time-out and sends what the bridge takes at once.
"""

import json
import pathlib
import time
from typing import Any

import numpy as np
import serial

from opendpu.runtime.board.transport import Bytes
from opendpu_arch.errors import BusError, DPUError
from opendpu_arch.regs import OFFSET

WRITE, READ = 1, 2
"""Commands of the bridge, with increasing addresses."""
BURST_WORDS = 255
"""Words of a command."""
TIMEOUT_SECONDS = 5.0
"""How long an answer may take."""
POLL_SECONDS = 0.001

_HARDWARE = 1
"""Of LiteDRAM's control register: the controller has the memory, not the registers."""


class Bridge:
    """UARTBone over a serial port.

    Parameters
    ----------
    port
        As pySerial's ``serial_for_url`` takes it.
    baud
        Bits a second.
    """

    def __init__(self, port: str, baud: int) -> None:
        self._name = port
        try:
            self._port = serial.serial_for_url(port, baud, timeout=TIMEOUT_SECONDS)
        except (serial.SerialException, ValueError) as error:
            raise DPUError(
                f"bridge {port!r} cannot be opened: {error}", code="VART_OPEN_DEVICE_FAIL"
            ) from error

    def read(self, address: int, words: int) -> Bytes:
        """Return the bytes of words; ``address`` is a multiple of four."""
        found = [
            self._burst_read(address + 4 * at, min(BURST_WORDS, words - at))
            for at in range(0, words, BURST_WORDS)
        ]
        return np.concatenate(found) if found else np.zeros(0, np.uint8)

    def write(self, address: int, data: Bytes) -> None:
        """Write whole words of bytes.

        The bridge acknowledges nothing, so the last word of each burst is read back; that also
        keeps LiteX's simulator, which has a buffer of 2 KiB, from losing any.
        """
        words = data.view("<u4").astype(">u4")
        for at in range(0, words.size, BURST_WORDS):
            part = words[at : at + BURST_WORDS]
            self._send(WRITE, address + 4 * at, part.size, part.tobytes())
            last = address + 4 * (at + part.size - 1)
            if self._burst_read(last, 1).tobytes() != part[-1:].astype("<u4").tobytes():
                raise BusError(f"bridge {self._name!r}: what was written at {last:#x} is not there")

    def write_register(self, address: int, value: int) -> None:
        """Write a register, of which reading may have effects."""
        self._send(WRITE, address, 1, value.to_bytes(4, "big"))

    def close(self) -> None:
        """Close the port."""
        self._port.close()

    def _burst_read(self, address: int, words: int) -> Bytes:
        self._send(READ, address, words, b"")
        found = self._port.read(4 * words)
        if len(found) != 4 * words:
            raise BusError(
                f"bridge {self._name!r}: no answer within {TIMEOUT_SECONDS:g} seconds to a read at "
                f"{address:#x}; is the bitstream loaded, and the baud rate right?"
            )
        return np.frombuffer(found, ">u4").astype("<u4").view(np.uint8)

    def _send(self, command: int, address: int, words: int, data: bytes) -> None:
        try:
            self._port.write(bytes([command, words]) + (address // 4).to_bytes(4, "big") + data)
        except serial.SerialException as error:
            raise BusError(f"bridge {self._name!r}: {error}") from error


class BridgeMemory:
    """Memory behind a bridge, with a copy here: only what differs is sent.

    The bridge is slow, and most of a segment is what the last job had there.
    """

    def __init__(self, bridge: Bridge, address: int, size: int) -> None:
        self.address, self.size = address, size
        self._bridge = bridge
        self._copy = np.zeros(size, np.uint8)
        self._known = np.zeros(size // BLOCK, np.bool_)

    def store(self, offset: int, data: Bytes) -> None:
        """Send the blocks that are not known to be there."""
        wanted = np.zeros((data.size + BLOCK - 1) // BLOCK * BLOCK, np.uint8)
        wanted[: data.size] = data
        first, blocks = offset // BLOCK, wanted.size // BLOCK
        here = self._copy[offset : offset + wanted.size]
        same = (here == wanted).reshape(blocks, BLOCK).all(1) & self._known[first : first + blocks]
        here[:] = wanted
        for begin, end in _runs(~same):
            self._bridge.write(
                self.address + offset + BLOCK * begin, wanted[BLOCK * begin : BLOCK * end]
            )
        self._known[first : first + blocks] = True

    def load(self, offset: int, data: Bytes) -> None:
        """Fetch bytes, and remember them."""
        words = (data.size + 3) // 4
        found = self._bridge.read(self.address + offset, words)
        self._copy[offset : offset + 4 * words] = found
        data[:] = found[: data.size]


BLOCK = 64
"""Bytes that are sent together."""


def _runs(wanted: Any) -> list[tuple[int, int]]:
    """Return begin and end of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


class LitexTransport:
    """Registers and memory of the system that ``soc.json`` describes; its SDRAM is started.

    Raises
    ------
    DPUError
        The file or the port cannot be opened, or nothing answers.
    """

    def __init__(self, port: str, soc: str | pathlib.Path) -> None:
        try:
            self._soc = json.loads(pathlib.Path(soc).read_text(encoding="utf-8"))
            self._registers = int(self._soc["registers"])
            memory = self._soc["memory"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DPUError(
                f"{soc} is no description of a LiteX system: {error!r}",
                code="VART_OPEN_DEVICE_FAIL",
            ) from error
        self._bridge = Bridge(port, self._soc["baud"])
        try:
            self._start_sdram()
            self.memory = BridgeMemory(self._bridge, memory["address"], memory["size"])
        except BaseException:
            self._bridge.close()
            raise

    def read(self, offset: int) -> int:
        """Return a register's value."""
        return int(self._bridge.read(self._registers + offset, 1).view("<u4")[0])

    def write(self, offset: int, value: int) -> None:
        """Write a register."""
        self._bridge.write_register(self._registers + offset, value)

    def wait(self, seconds: float) -> bool:
        """Look for the interrupt again and again; a bridge has no other way."""
        end = time.monotonic() + seconds
        while not self.read(OFFSET["ISR"]) & 1:
            if time.monotonic() > end:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def close(self) -> None:
        """Close the port."""
        self._bridge.close()

    def _start_sdram(self) -> None:
        """Do what LiteX's BIOS would do, where there is no processor."""
        write, at = self._bridge.write_register, self._soc["sdram"]["registers"]
        for step in self._soc["sdram"]["sequence"]:
            write(at["address"], step["address"])
            write(at["bank"], step["bank"])
            write(at[step["register"]], step["value"])
            if step["register"] == "command":
                write(at["issue"], 1)
            time.sleep(step["delay"] / self._soc["clock"])
        write(at["control"], _HARDWARE)
