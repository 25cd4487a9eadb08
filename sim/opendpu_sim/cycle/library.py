# SPDX-License-Identifier: Apache-2.0
"""The cycle model's library as Python functions."""

import ctypes
import dataclasses
import functools
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa, latency
from opendpu_arch.errors import IllegalInstructionError, ProgramError, ToolError
from opendpu_arch.target import MAX_ADDRESS_REGISTERS, Target
from opendpu_sim.cycle.build import library
from opendpu_sim.rtl.memory import MemoryModel
from opendpu_sim.rtl.settings import Settings, settings

NO_FAULT, DEADLOCK, LEFTOVER_TOKEN, TIMEOUT = range(4)
"""Why a run ended."""


class _Target(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint32)
        for name in (
            "pixel_parallel",
            "channel_parallel",
            "alu_pixel_parallel",
            "bank_depth",
            "image_banks",
            "taps",
            "window",
            "conv_sum",
            "conv_scaled",
        )
    ]


class Result(ctypes.Structure):
    """What a run took; arrays are by engine, ``read_beats`` by port."""

    _fields_ = [
        ("cycles", ctypes.c_uint64),
        ("busy", ctypes.c_uint64 * 4),
        ("conv_steps", ctypes.c_uint64),
        ("misc_steps", ctypes.c_uint64),
        ("read_beats", ctypes.c_uint64 * 3),
        ("write_bytes", ctypes.c_uint64),
        ("started", ctypes.c_uint64 * 4),
        ("finished", ctypes.c_uint64),
        ("fault", ctypes.c_uint64),
    ]


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: its figures, and start and end of each instruction (int64, -1: not reached)."""

    result: Result
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]


@functools.cache
def _load() -> ctypes.CDLL:
    path = library()
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolError(f"cycle model {str(path)!r} cannot be loaded: {error}") from error
    pointer, u64 = ctypes.c_void_p, ctypes.c_uint64
    signatures: dict[str, tuple[Any, ...]] = {
        "load": (pointer, ctypes.POINTER(_Target), pointer, u64),
        "free": (None, pointer),
        "orphan": (ctypes.c_uint32, pointer),
        "complete": (ctypes.c_uint32, pointer),
        "instructions": (u64, pointer),
        "outside": (ctypes.c_int64, pointer, ctypes.POINTER(u64 * MAX_ADDRESS_REGISTERS)),
        "run": (
            None,
            pointer,
            ctypes.POINTER(_Target),
            ctypes.POINTER(Settings),
            u64,
            pointer,
            pointer,
            ctypes.POINTER(Result),
        ),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(loaded, f"odpu_cycle_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


class Model:
    """A program on the DPU of a target; any number of runs at a time.

    Parameters
    ----------
    target
        Which DPU.
    taps, window
        What :class:`opendpu_hw.engine.misc.MiscEngine` has of the same names.
    code
        Machine code; what comes after END is ignored.

    Raises
    ------
    DecodeError
        ``code`` is no machine code.
    ProgramError
        There is no END.
    IllegalInstructionError
        An instruction comes before its INIT.
    """

    def __init__(self, target: Target, code: bytes, *, taps: int, window: bool) -> None:
        self._library = _load()
        self._target = _Target(
            pixel_parallel=target.pixel_parallel,
            channel_parallel=target.channel_parallel,
            alu_pixel_parallel=target.alu_pixel_parallel,
            bank_depth=target.bank_depth,
            image_banks=target.image_banks,
            taps=taps,
            window=window,
            conv_sum=latency.conv_sum(target),
            conv_scaled=latency.conv_scaled(target),
        )
        self._words = np.frombuffer(code[: len(code) // 4 * 4], np.uint32)
        self._program = self._library.odpu_cycle_load(
            ctypes.byref(self._target), self._words.ctypes.data, self._words.size
        )
        weakref.finalize(self, self._library.odpu_cycle_free, self._program)
        self.instructions: int = self._library.odpu_cycle_instructions(self._program)
        """How many, END included."""
        if self._library.odpu_cycle_orphan(self._program):
            number = self.instructions - 1
            raise IllegalInstructionError(f"instruction {number} comes before its INIT")
        if not self._library.odpu_cycle_complete(self._program):
            count = len(isa.decode(code))  # or it says where the code is wrong
            raise ProgramError(f"the program has {count} instructions, but no END")

    def outside(self, sizes: Mapping[int, int]) -> int | None:
        """Return which instruction is the first that accesses bytes outside its segment.

        ``sizes`` are the bytes of the segments by ``reg_id``.
        """
        all_sizes = (sizes.get(reg_id, 0) for reg_id in range(MAX_ADDRESS_REGISTERS))
        array = (ctypes.c_uint64 * MAX_ADDRESS_REGISTERS)(*all_sizes)
        found = self._library.odpu_cycle_outside(self._program, ctypes.byref(array))
        return None if found < 0 else int(found)

    def run(self, model: MemoryModel, limit: int) -> Run:
        """Run the program, which must be legal, for at most ``limit`` cycles."""
        start = np.full(self.instructions, -1, np.int64)
        end = np.full(self.instructions, -1, np.int64)
        result = Result()
        self._library.odpu_cycle_run(
            self._program,
            ctypes.byref(self._target),
            ctypes.byref(settings(model)),
            limit,
            start.ctypes.data,
            end.ctypes.data,
            ctypes.byref(result),
        )
        return Run(result, start, end)
