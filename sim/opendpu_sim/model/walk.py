# SPDX-License-Identifier: Apache-2.0
"""How CONV, ALU, POOL and DPTWISE walk over banks, and their padding.

Input rows and columns are counted with padding. Input row r lies at
``k = stride_offset_in + r``, ``b = bank_id_in mod PP + k // stride_h``: bank ``b mod PP`` of the
group of bank_id_in, word ``base[b // PP] + (k mod stride_h) * jump_read_endl``, where base is
bank_addr_in, _1, _2, _3; columns are jump_read apart, channel groups one word, everything modulo
the depth. Output rows walk likewise, with ``b // PP`` adding ``stride_out * jump_write_endl``.
"""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa
from opendpu_arch.errors import ProgramError
from opendpu_arch.target import Target
from opendpu_sim.model.memory import Index, Memory, Taint, Words
from opendpu_sim.model.results import Results, results

MAX_WORDS = 1 << 20
"""Words that an instruction may go over: many times those of all banks of the largest target."""


@dataclasses.dataclass(frozen=True)
class Pads:
    """Which part of the input window is padding: rows, columns and lanes."""

    top: int
    """Rows before this are padding."""
    bottom: int
    """Rows from this on are padding."""
    left: int
    right: int
    lanes: int
    """Lanes of the last channel group from this on are padding."""

    def fill(self, window: npt.NDArray[Any], value: int, absent: int) -> None:
        """Overwrite the padding of ``window``, shape (rows, columns, groups, CP).

        Lanes that hold no channel become ``absent``.
        """
        rows, columns, _, lanes = window.shape
        if self.top:
            window[: self.top] = value
        if self.bottom < rows:
            window[self.bottom :] = value
        if self.left:
            window[:, : self.left] = value
        if self.right < columns:
            window[:, self.right :] = value
        if self.lanes < lanes:
            window[:, :, -1, self.lanes :] = absent


@dataclasses.dataclass(frozen=True, kw_only=True)
class Walk:
    """One instruction's geometry, and the words it reads and writes."""

    number: int
    mnemonic: str
    rows: int
    """Output rows (valid_pixel_parallel)."""
    length: int
    """Output columns."""
    groups: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pads: Pads | None
    """None: nothing is padding."""
    source: Index
    """Word index of the input window, shape (input rows, input columns, groups)."""
    results: Results
    """Where the output goes, shape (rows, length, output groups)."""
    spans: tuple[tuple[str, int, int], ...]
    """(field, first word, words) of what is walked in one bank."""

    def read(self, memory: Memory, pad_value: int = 0, absent: int | None = None) -> Words:
        """Return the input window with its padding, shape (rows, columns, groups, CP), int8.

        ``absent`` is what lanes without a channel read; None: ``pad_value``.
        """
        window = memory.words.take(self.source, axis=0)
        if self.pads is not None:
            self.pads.fill(window, pad_value, pad_value if absent is None else absent)
        return window

    def read_taint(self, memory: Memory) -> Taint:
        """Return the taint of the input window; padding has none."""
        unused = None
        if self.pads is not None:
            unused = np.zeros((*self.source.shape, memory.words.shape[1]), np.bool_)
            self.pads.fill(unused, 1, 1)
        return memory.taint_of(self.source, self.number, self.mnemonic, "bank_addr_in", unused)

    def windows(self, window: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a view (rows, length, kernel_h, kernel_w, ...) of a contiguous input window."""
        row, column, *rest = window.strides
        return np.ndarray(
            (self.rows, self.length, self.kernel_h, self.kernel_w, *window.shape[2:]),
            window.dtype,
            window,
            0,
            (row * self.stride_h, column * self.stride_w, row, column, *rest),
        )

    def reduce(self, window: npt.NDArray[Any], combine: np.ufunc) -> npt.NDArray[Any]:
        """Combine every kernel window of an input window (rows, columns, ...) by a ufunc.

        Returns shape (output rows, output columns, ...). ``combine`` must be associative, so
        columns and rows can be combined one after the other.
        """
        last = (self.length - 1) * self.stride_w + 1
        result = window[:, 0 : last : self.stride_w].copy()
        for column in range(1, self.kernel_w):
            combine(result, window[:, column : column + last : self.stride_w], out=result)
        window, last = result, (self.rows - 1) * self.stride_h + 1
        result = window[0 : last : self.stride_h].copy()
        for row in range(1, self.kernel_h):
            combine(result, window[row : row + last : self.stride_h], out=result)
        return result


@dataclasses.dataclass(frozen=True, kw_only=True)
class WalkStep:
    """What the steps of instructions with a window have alike; DDR they leave alone."""

    walk: Walk
    access = None

    @property
    def number(self) -> int:
        """Position in the program."""
        return self.walk.number

    @property
    def mnemonic(self) -> str:
        """Name of the instruction."""
        return self.walk.mnemonic

    @property
    def spans(self) -> tuple[tuple[str, int, int], ...]:
        """What it walks over in one bank."""
        return self.walk.spans


class Walker:
    """Makes :class:`Walk`; index arrays that several instructions share are made once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._indexes: dict[tuple[object, ...], Index] = {}

    def walk(
        self,
        number: int,
        i: isa.Conv | isa.Alu | isa.Pool | isa.DptWise,
        init: isa.Instruction,
        *,
        output_groups: int = 0,
    ) -> Walk:
        """Return the walk of CONV, ALU, POOL or DPTWISE under its INIT.

        ``output_groups`` is 1 for CONV, which writes one word a pixel; 0 stands for as many groups
        as are read.
        """
        f: dict[str, Any] = {**vars(init), **vars(i)}
        kernel_h, kernel_w = f["kernel_h"], f["kernel_w"]
        stride_h, stride_w = f["stride_h"], f["stride_w"]
        padded = True
        if isinstance(init, isa.PoolInit) and init.pool_type == isa.PoolType.MAX_REDUCE:
            kernel_h = stride_h = f["downsample_kernel_h"]
            kernel_w = stride_w = f["downsample_kernel_w"]
            padded = False
        if isinstance(init, isa.AluInit) and init.exec_mode == isa.AluMode.MAXREDUCE:
            padded = False
        rows, length, groups = f["valid_pixel_parallel"], f["length"], f["channel_group"]
        in_rows = (rows - 1) * stride_h + kernel_h
        in_columns = (length - 1) * stride_w + kernel_w
        lanes = self.target.channel_parallel
        pads = Pads(
            top=f["pad_top"],
            bottom=in_rows - kernel_h + f["pad_bottom"] + 1,
            left=f["pad_left"],
            right=in_columns - kernel_w + f["pad_right"] + 1,
            lanes=max(lanes - f.get("channel_offset", 0), 0),
        )
        if (
            pads.top == pads.left == 0
            and pads.bottom >= in_rows
            and (pads.right >= in_columns and pads.lanes == lanes)
        ):
            padded = False
        output_groups = output_groups or groups
        return Walk(
            number=number,
            mnemonic=i.mnemonic(),
            rows=rows,
            length=length,
            groups=groups,
            kernel_h=kernel_h,
            kernel_w=kernel_w,
            stride_h=stride_h,
            stride_w=stride_w,
            pads=pads if padded else None,
            source=self._source(f, in_rows, in_columns, stride_h),
            results=results(number, i, self._destination(f, output_groups), self.target),
            spans=(
                (
                    "bank_addr_in",
                    f["bank_addr_in"],
                    (in_columns - 1) * f["jump_read"] + groups,
                ),
                (
                    "bank_addr_out",
                    f["bank_addr_out"],
                    (length - 1) * f["jump_write"] + output_groups,
                ),
            ),
        )

    def _source(self, f: dict[str, Any], rows: int, columns: int, stride_h: int) -> Index:
        parallel = self.target.pixel_parallel
        bank_id, offset = f["bank_id_in"], f["stride_offset_in"]
        bases = (f["bank_addr_in"], f["bank_addr_in_1"], f["bank_addr_in_2"], f["bank_addr_in_3"])
        used = 1 + (bank_id % parallel + (offset + rows - 1) // stride_h) // parallel
        key = ("in", bank_id, offset, stride_h, bases[:used], rows, columns, f["jump_read_endl"],
               f["jump_read"], f["channel_group"])  # fmt: skip
        if key not in self._indexes:
            k = offset + np.arange(rows)
            b = bank_id % parallel + k // stride_h
            first = np.asarray(bases)[b // parallel] + k % stride_h * f["jump_read_endl"]
            self._indexes[key] = self.index(
                bank_id // parallel * parallel + b % parallel,
                first,
                columns,
                f["jump_read"],
                f["channel_group"],
            )
        return self._indexes[key]

    def _destination(self, f: dict[str, Any], groups: int) -> Index:
        parallel = self.target.pixel_parallel
        bank_id, offset, stride = f["bank_id_out"], f["stride_offset_out"], f["stride_out"]
        rows, length = f["valid_pixel_parallel"], f["length"]
        key = ("out", bank_id, offset, stride, f["bank_addr_out"], f["jump_write_endl"], rows,
               length, f["jump_write"], groups)  # fmt: skip
        if key not in self._indexes:
            k = offset + np.arange(rows)
            b = bank_id % parallel + k // stride
            first = f["bank_addr_out"] + f["jump_write_endl"] * (
                b // parallel * stride + k % stride
            )
            self._indexes[key] = self.index(
                bank_id // parallel * parallel + b % parallel,
                first,
                length,
                f["jump_write"],
                groups,
            )
        return self._indexes[key]

    def index(
        self,
        banks: npt.NDArray[np.integer[Any]],
        first: npt.NDArray[np.integer[Any]],
        columns: int,
        jump: int,
        groups: int,
    ) -> Index:
        """Return word indexes, shape (rows, columns, groups), of rows that start at ``first``.

        Raises
        ------
        ProgramError
            They are more than :data:`MAX_WORDS`.
        """
        depth = self.target.bank_depth
        if len(banks) * columns * groups > MAX_WORDS:
            raise ProgramError(
                f"it goes over {len(banks)} rows of {columns} pixels of {groups} words, but the "
                f"simulator takes at most {MAX_WORDS} words an instruction"
            )
        pixel = np.arange(columns)[:, None] * jump + np.arange(groups)
        word = (np.asarray(first)[:, None, None] + pixel) % depth
        return np.asarray(np.asarray(banks)[:, None, None] * depth + word, np.intp)

    def runs(self, banks: range, first: int, jump: int, pixels: int, count: int) -> Index:
        """Return word indexes, shape (banks, pixels, count), the same words of every bank."""
        key = ("runs", banks, first, jump, pixels, count)
        if key not in self._indexes:
            starts = np.full(len(banks), first)
            self._indexes[key] = self.index(np.asarray(banks), starts, pixels, jump, count)
        return self._indexes[key]
