# SPDX-License-Identifier: Apache-2.0
"""A DPU under Linux: registers and interrupt through UIO, memory of u-dma-buf or PYNQ."""

import mmap
import os
import pathlib
import select
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.runtime.board.transport import Bytes, SharedMemory
from opendpu_arch.errors import DPUError

UIO_NAME, BUFFER_NAME = "opendpu", "udmabuf-opendpu"
"""What the device tree calls them."""
PYNQ = "pynq"
"""Stands for PYNQ's allocator where a buffer is asked for."""
PYNQ_BYTES = 128 << 20
"""How much of it."""

REGISTER_BYTES = 4096

SYSTEM = pathlib.Path("/sys/class")
DEVICES = pathlib.Path("/dev")


class Uio:
    """Registers and interrupt of a UIO device.

    Parameters
    ----------
    name
        Name that the kernel gives the device, or the path of its file.
    """

    def __init__(self, name: str) -> None:
        self.path = pathlib.Path(name) if "/" in name else _uio_path(name)
        self._file = _open(self.path, os.O_RDWR | os.O_SYNC)
        try:
            self._map = mmap.mmap(self._file, REGISTER_BYTES)
        except (OSError, ValueError) as error:
            os.close(self._file)
            raise _refusal(self.path, f"its registers cannot be mapped: {error}") from error
        self._words: npt.NDArray[np.uint32] | None = np.frombuffer(self._map, "<u4")

    def read(self, offset: int) -> int:
        """Return a register's value; one access of 32 bits."""
        return int(self._all()[offset // 4])

    def write(self, offset: int, value: int) -> None:
        """Write a register; one access of 32 bits."""
        self._all()[offset // 4] = value

    def wait(self, seconds: float) -> bool:
        """Wait for the interrupt.

        It is a level: enabled late, it comes at once.
        """
        os.write(self._file, struct.pack("=i", 1))
        waiting = select.poll()
        waiting.register(self._file, select.POLLIN)
        if not waiting.poll(seconds * 1000):
            return False
        os.read(self._file, 4)
        return True

    def close(self) -> None:
        """Unmap the registers."""
        if self._words is not None:
            self._words = None
            self._map.close()
            os.close(self._file)

    def _all(self) -> npt.NDArray[np.uint32]:
        if self._words is None:
            raise DPUError(f"{self.path} is closed")
        return self._words


class DmaBuffer:
    """Memory of u-dma-buf, mapped past the caches, so that nothing has to be flushed."""

    def __init__(self, name: str) -> None:
        facts = SYSTEM / "u-dma-buf" / name
        path = DEVICES / name
        try:
            self.address = int((facts / "phys_addr").read_text(encoding="ascii"), 0)
            self.size = int((facts / "size").read_text(encoding="ascii"), 0)
        except (OSError, ValueError) as error:
            raise _refusal(
                path, f"there is no u-dma-buf buffer {name!r}; is the overlay loaded? ({error})"
            ) from error
        file = _open(path, os.O_RDWR | os.O_SYNC)
        try:
            self._map = mmap.mmap(file, self.size)
        except (OSError, ValueError) as error:
            raise _refusal(path, f"it cannot be mapped: {error}") from error
        finally:
            os.close(file)

    def store(self, offset: int, data: Bytes) -> None:
        """Write bytes."""
        self._map[offset : offset + data.size] = data.tobytes()

    def load(self, offset: int, data: Bytes) -> None:
        """Read bytes."""
        data[:] = np.frombuffer(self._map[offset : offset + data.size], np.uint8)

    def close(self) -> None:
        """Unmap the memory."""
        self._map.close()


class PynqBuffer:
    """Memory of PYNQ's allocator; cached, so it is flushed and invalidated."""

    def __init__(self, size: int = PYNQ_BYTES) -> None:
        try:
            import pynq
        except ImportError as error:
            raise DPUError(
                "buffer 'pynq' needs the package pynq, which is not installed; it is part of "
                "PYNQ's images",
                code="VART_OPEN_DEVICE_FAIL",
            ) from error
        self._buffer: Any = pynq.allocate(shape=(size,), dtype="u1")
        self.address = int(self._buffer.device_address)
        self.size = size

    def store(self, offset: int, data: Bytes) -> None:
        """Write bytes, and flush them."""
        part = self._buffer[offset : offset + data.size]
        part[:] = data
        part.flush()

    def load(self, offset: int, data: Bytes) -> None:
        """Invalidate what the cache has, and read bytes."""
        part = self._buffer[offset : offset + data.size]
        part.invalidate()
        data[:] = part

    def close(self) -> None:
        """Give the memory back."""
        self._buffer.freebuffer()


class LinuxTransport:
    """A DPU of a Zynq board; see :class:`opendpu.runtime.board.device.BoardDevice`."""

    def __init__(self, uio: str, buffer: str) -> None:
        self._uio = Uio(uio)
        try:
            self._buffer = PynqBuffer() if buffer == PYNQ else DmaBuffer(buffer)
        except BaseException:
            self._uio.close()
            raise
        self.memory: SharedMemory = self._buffer
        self.read, self.write, self.wait = self._uio.read, self._uio.write, self._uio.wait

    def close(self) -> None:
        """Free registers and memory."""
        self._uio.close()
        self._buffer.close()


def _uio_path(name: str) -> pathlib.Path:
    for facts in sorted((SYSTEM / "uio").glob("uio*")):
        if (facts / "name").read_text(encoding="utf-8").strip() == name:
            return DEVICES / facts.name
    raise DPUError(
        f"no UIO device is called {name!r}; is the overlay loaded, and uio_pdrv_genirq with "
        "of_id=generic-uio?",
        code="VART_OPEN_DEVICE_FAIL",
    )


def _open(path: pathlib.Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise _refusal(path, f"it cannot be opened: {error.strerror}") from error


def _refusal(path: pathlib.Path, reason: str) -> DPUError:
    return DPUError(f"{path}: {reason}", code="VART_OPEN_DEVICE_FAIL")
