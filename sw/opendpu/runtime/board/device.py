# SPDX-License-Identifier: Apache-2.0
"""Boards as devices of the runner: ``board`` through Linux, ``litex`` through a serial bridge."""

import os
import pathlib
import threading
import time

from opendpu.runtime.board.arena import Arena
from opendpu.runtime.board.transport import Transport
from opendpu.runtime.device import Job, JobStatistics
from opendpu.runtime.driver import Driver, check_job
from opendpu_arch import isa
from opendpu_arch.errors import DecodeError, DPUError, DPUTimeoutError
from opendpu_arch.target import Target

TIMEOUT_ENVIRONMENT = "XLNX_DPU_TIMEOUT"
"""Milliseconds that a job may take, as for AMD's runtime."""
DEFAULT_TIMEOUT_SECONDS = 10.0

UIO_ENVIRONMENT = "OPENDPU_UIO"
BUFFER_ENVIRONMENT = "OPENDPU_BUFFER"
PORT_ENVIRONMENT = "OPENDPU_LITEX_PORT"
SOC_ENVIRONMENT = "OPENDPU_LITEX_SOC"


class BoardDevice:
    """A DPU of a Zynq board, under Linux.

    Parameters
    ----------
    target
        The DPU that the bitstream has.
    memory
        Ignored: the memory is what the board has.
    timeout_seconds
        How long a job may take; default ``XLNX_DPU_TIMEOUT`` in milliseconds, or 10 seconds.
    uio
        UIO device of the registers: its name, or a path such as ``/dev/uio4``. Default
        ``OPENDPU_UIO``, or ``opendpu``.
    buffer
        Name of the u-dma-buf buffer, or ``pynq`` for PYNQ's allocator. Default
        ``OPENDPU_BUFFER``, or ``udmabuf-opendpu``.
    transport
        Registers, memory and interrupt, instead of those of Linux.

    Raises
    ------
    DPUError
        A device file is missing, or nothing answers.
    FingerprintError
        The bitstream has another DPU.
    """

    name = "board"

    def __init__(
        self,
        target: Target,
        *,
        memory: str = "",
        timeout_seconds: float | None = None,
        uio: str | None = None,
        buffer: str | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.target = target
        self._timeout = timeout_seconds or _timeout_from_environment()
        self._transport = transport or _linux(uio, buffer)
        self._lock = threading.Lock()
        self._driver = Driver(self._transport, target)
        self._arena = Arena(self._transport.memory)
        try:
            self._driver.check()
        except BaseException:
            self._transport.close()
            raise

    def close(self) -> None:
        """Give back registers and memory."""
        self._transport.close()

    def run(self, job: Job) -> JobStatistics:
        """Run a job to its END.

        Raises
        ------
        DPUError
            The program or the memory failed, and the next job works again; or the job did not
            end in time, and none does until the bitstream is loaded again.
        """
        check_job(job)
        with self._lock:
            start = time.perf_counter()
            self._driver.check_idle()
            place, offsets = self._arena.place(job)
            self._driver.acknowledge()  # of whoever used the DPU before
            self._driver.prepare(job, place)
            self._driver.start()
            if not self._transport.wait(self._timeout):
                self._arena.forget()
                running = ", ".join(self._driver.unfinished())
                raise DPUTimeoutError(
                    f"no interrupt after {self._timeout:g} seconds ({TIMEOUT_ENVIRONMENT}, in ms); "
                    f"engines with unfinished instructions: {running or 'none'}"
                )
            error = self._driver.failure(job, place)
            counted = self._driver.counts()
            self._driver.acknowledge()
            for reg_id in _saved(job):
                if reg_id in offsets and job.segments[reg_id].flags.writeable:
                    self._arena.fetch(offsets[reg_id], job.segments[reg_id])
            if error is not None:
                raise error
            return JobStatistics(
                device=self.name,
                instructions=counted.instructions,
                cycles=counted.cycles,
                busy_cycles=counted.busy_cycles,
                wall_seconds=time.perf_counter() - start,
            )


class LitexDevice(BoardDevice):
    """A DPU in a LiteX system, behind a serial bridge.

    Parameters
    ----------
    target, memory, timeout_seconds
        As for :class:`BoardDevice`.
    port
        The bridge: ``/dev/ttyUSB0``, or any URL of pySerial, such as ``socket://localhost:2430``
        for LiteX's simulator. Default ``OPENDPU_LITEX_PORT``.
    soc
        ``soc.json`` of the project. Default ``OPENDPU_LITEX_SOC``.

    Raises
    ------
    DPUError
        The port cannot be opened, or nothing answers.
    FingerprintError
        The bitstream has another DPU.
    """

    name = "litex"

    def __init__(
        self,
        target: Target,
        *,
        memory: str = "",
        timeout_seconds: float | None = None,
        port: str | None = None,
        soc: str | pathlib.Path | None = None,
    ) -> None:
        from opendpu.runtime.board.litex import LitexTransport  # needs pySerial

        port = port or os.environ.get(PORT_ENVIRONMENT)
        soc = soc or os.environ.get(SOC_ENVIRONMENT)
        for value, variable in ((port, PORT_ENVIRONMENT), (soc, SOC_ENVIRONMENT)):
            if not value:
                raise DPUError(f"device 'litex' needs {variable}", code="VART_OPEN_DEVICE_FAIL")
        assert port and soc
        super().__init__(
            target, timeout_seconds=timeout_seconds, transport=LitexTransport(port, soc)
        )


def _saved(job: Job) -> set[int]:
    """Return the segments that a program saves to; all, where it cannot be read to its end."""
    try:
        return {i.reg_id for i in isa.iter_decode(job.code) if isinstance(i, isa.Save)}
    except DecodeError:
        return {reg_id for reg_id, memory in job.segments.items() if memory.flags.writeable}


def _linux(uio: str | None, buffer: str | None) -> Transport:
    from opendpu.runtime.board import linux

    return linux.LinuxTransport(
        uio or os.environ.get(UIO_ENVIRONMENT) or linux.UIO_NAME,
        buffer or os.environ.get(BUFFER_ENVIRONMENT) or linux.BUFFER_NAME,
    )


def _timeout_from_environment() -> float:
    text = os.environ.get(TIMEOUT_ENVIRONMENT, "")
    if not text:
        return DEFAULT_TIMEOUT_SECONDS
    if not text.isdigit() or int(text) == 0:
        raise DPUTimeoutError(
            f"{TIMEOUT_ENVIRONMENT} is {text!r}, but must be a positive number of milliseconds"
        )
    return int(text) / 1000
