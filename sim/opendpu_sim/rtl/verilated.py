# SPDX-License-Identifier: Apache-2.0
"""A built simulator as an object: registers, memory, run, counters, waveform."""

import ctypes
import functools
import pathlib
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch.errors import BusError, ToolError
from opendpu_sim.rtl.memory import MemoryModel
from opendpu_sim.rtl.settings import Settings, settings

PORTS = ("instr", "data0", "data1")
"""AXI ports by the harness's numbers."""

OKAY, SLAVE_ERROR, DECODE_ERROR = 0, 2, 3
"""AXI responses."""

Stamps = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Cycles in which an engine's instructions start and end."""


class _Fault(ctypes.Structure):
    _fields_ = [
        ("port", ctypes.c_uint32),
        ("write", ctypes.c_uint32),
        ("low", ctypes.c_uint64),
        ("high", ctypes.c_uint64),
        ("response", ctypes.c_uint32),
    ]


class _Record(ctypes.Structure):
    _fields_ = [
        ("capacity", ctypes.c_uint64 * 4),
        ("start", ctypes.c_void_p * 4),
        ("end", ctypes.c_void_p * 4),
    ]


class Counters(ctypes.Structure):
    """What the harness counted since :meth:`Verilated.begin`; arrays are by port."""

    _fields_ = [
        ("cycles", ctypes.c_uint64),
        ("read_beats", ctypes.c_uint64 * 3),
        ("write_bytes", ctypes.c_uint64 * 3),
        ("read_bursts", ctypes.c_uint64 * 3),
        ("write_bursts", ctypes.c_uint64 * 3),
        ("throttled", ctypes.c_uint64),
        ("decode_errors", ctypes.c_uint64),
        ("decode_error_address", ctypes.c_uint64),
        ("decode_error_port", ctypes.c_uint64),
        ("decode_error_write", ctypes.c_uint64),
    ]


@functools.cache
def _load(path: pathlib.Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolError(f"RTL simulator {str(path)!r} cannot be loaded: {error}") from error
    handle, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    signatures: dict[str, tuple[Any, ...]] = {
        "create": (handle,),
        "destroy": (None, handle),
        "reset": (ctypes.c_int, handle),
        "configure": (None, handle, ctypes.POINTER(Settings)),
        "map": (ctypes.c_int, handle, u64, u64, ctypes.c_void_p, u32),
        "unmap": (None, handle),
        "inject": (ctypes.c_int, handle, ctypes.POINTER(_Fault)),
        "forget_faults": (None, handle),
        "write": (ctypes.c_int, handle, u32, u32),
        "read": (ctypes.c_int, handle, u32, ctypes.POINTER(u32)),
        "run": (ctypes.c_int, handle, u64, ctypes.POINTER(u64)),
        "counters": (None, handle, ctypes.POINTER(Counters)),
        "begin": (None, handle),
        "record": (None, handle, ctypes.POINTER(_Record)),
        "message": (ctypes.c_char_p, handle),
        "trace": (ctypes.c_int, handle, ctypes.c_char_p),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, f"odpu_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Verilated:
    """One simulated DPU; not for several threads at once.

    Every method may raise :class:`~opendpu_arch.errors.BusError` when the RTL broke a rule of
    AXI; after that only :meth:`reset` works.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._library = _load(path)
        self._handle = self._library.odpu_create()
        self._mapped: list[npt.NDArray[np.uint8]] = []
        self._recorded: list[Stamps] = []
        self._finalize = weakref.finalize(self, self._library.odpu_destroy, self._handle)

    def close(self) -> None:
        """Free the simulator."""
        self._finalize()

    def _call(self, name: str, *arguments: Any) -> int:
        if not self._finalize.alive:
            raise ToolError("the RTL simulator is closed")
        result = getattr(self._library, f"odpu_{name}")(self._handle, *arguments)
        if result is not None and result < 0:
            message = self._library.odpu_message(self._handle).decode()
            raise BusError(f"the RTL broke a rule of its bus: {message}")
        return int(result or 0)

    def configure(self, model: MemoryModel) -> None:
        """Choose the memory model; its random sequence starts anew."""
        self._call("configure", ctypes.byref(settings(model)))

    def map(self, base: int, memory: npt.NDArray[np.uint8]) -> None:
        """Put an array behind the DDR addresses from ``base``; accesses go straight to it.

        ``memory`` is one-dimensional, contiguous uint8 and is kept alive until :meth:`unmap`.
        """
        self._mapped.append(memory)
        if memory.size:
            pointer = memory.ctypes.data
            self._call("map", base, memory.size, pointer, int(memory.flags.writeable))

    def unmap(self) -> None:
        """Take every array away."""
        self._call("unmap")
        self._mapped.clear()

    def inject(self, port: int, write: bool, low: int, high: int, response: int) -> None:
        """Answer accesses of a port to DDR bytes ``low`` to ``high - 1`` with ``response``."""
        self._call("inject", ctypes.byref(_Fault(port, write, low, high, response)))

    def forget_faults(self) -> None:
        """Undo every :meth:`inject`."""
        self._call("forget_faults")

    def reset(self) -> None:
        """Hold ``aresetn`` low for 16 cycles."""
        self._call("reset")

    def write(self, offset: int, value: int) -> None:
        """Write a register."""
        self._call("write", offset, value)

    def read(self, offset: int) -> int:
        """Read a register."""
        value = ctypes.c_uint32()
        self._call("read", offset, ctypes.byref(value))
        return value.value

    def run(self, cycles: int) -> tuple[bool, int]:
        """Run until the interrupt, at most ``cycles``; return whether it came and the cycles."""
        ran = ctypes.c_uint64()
        return bool(self._call("run", cycles, ctypes.byref(ran))), ran.value

    def counters(self) -> Counters:
        """Return what was counted."""
        counters = Counters()
        self._call("counters", ctypes.byref(counters))
        return counters

    def begin(self) -> None:
        """Begin a job: counters start from zero, and the memory model from its beginning."""
        self._call("begin")

    def record(self, instructions: Sequence[int] | None) -> list[Stamps]:
        """Note when instructions leave their queue and when they finish, from the next cycle on.

        Parameters
        ----------
        instructions
            How many there are, by :class:`~opendpu_arch.isa.Engine`; ``None`` ends it.

        Returns
        -------
        list
            For each engine two int64 arrays, starts and ends, in the engine's order; filled while
            the DPU runs, -1 where nothing has happened. In cycles; cycle 0 is the first one in
            which the program runs.
        """
        if instructions is None:
            self._recorded = []
            self._call("record", None)
            return []
        record = _Record()
        self._recorded = [
            (np.full(n, -1, np.int64), np.full(n, -1, np.int64)) for n in instructions
        ]
        for e, (start, end) in enumerate(self._recorded):
            record.capacity[e] = start.size
            record.start[e], record.end[e] = start.ctypes.data, end.ctypes.data
        self._call("record", ctypes.byref(record))
        return self._recorded

    def trace(self, path: pathlib.Path | None) -> None:
        """Start to write an FST waveform, or with ``None`` end it.

        Raises
        ------
        ToolError
            The library was built without tracing, or the file cannot be written.
        """
        name = None if path is None else str(path).encode()
        if self._library.odpu_trace(self._handle, name) < 0:
            raise ToolError(f"waveform {str(path)!r} cannot be written by this build")
