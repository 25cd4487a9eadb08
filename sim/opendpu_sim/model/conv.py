# SPDX-License-Identifier: Apache-2.0
"""CONV: up to PP output rows of OCP output channels.

Lane i takes its weights from bank CONVW i, tap (row, column) and group g at
``bank_addr_weights + (row * kernel_w + column) * groups + g``, and its bias from byte i of word
``bank_addr_bias`` of BIAS. All lanes are written.

The sums are single-precision matrix products, which are exact: a product is at most 2**14 and
float32 holds integers up to 2**24, so 1024 products can be added in any order.
``scripts/bench/bench_iss.py kernels`` compares this with other ways.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa
from opendpu_arch.numerics import signed_byte
from opendpu_sim.model.memory import Index, Memory, Taint
from opendpu_sim.model.requantize import requantized
from opendpu_sim.model.scaled import Records, records
from opendpu_sim.model.walk import Walker, WalkStep

EXACT_PRODUCTS = 1024
"""Products of int8 whose sum float32 holds exactly, whatever the data and the order."""
ONE_THREAD = 1 << 18
"""Multiplications up to which OpenBLAS uses one thread. Its threads wait for each other busily: a
product that takes 100 us takes 15 ms when another process has a core, and jobs run in threads
anyway."""


def matrix_product(
    x: npt.NDArray[np.float32], weights: npt.NDArray[np.float32]
) -> npt.NDArray[np.int64]:
    """Return ``x @ weights.T`` of int8 values, exactly; shapes (m, k), (n, k) to (m, n)."""
    total = np.zeros((x.shape[0], weights.shape[0]), np.int64)
    for start in range(0, x.shape[1], EXACT_PRODUCTS):
        part = slice(start, start + EXACT_PRODUCTS)
        total += _small_products(x[:, part], weights[:, part].T).astype(np.int64)
    return total


def _small_products(
    x: npt.NDArray[np.float32], weights: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return ``x @ weights``, as products of some rows of ``x`` at a time, in one thread."""
    m, k = x.shape
    n = weights.shape[1]
    pieces = -(-m // max(1, ONE_THREAD // (k * n)))
    rows = -(-m // pieces)
    whole = m // rows
    product = np.empty((m, n), np.float32)
    stacked = np.lib.stride_tricks.as_strided(
        x, (whole, rows, k), (rows * x.strides[0], *x.strides), writeable=False
    )
    np.matmul(stacked, weights, out=product[: whole * rows].reshape(whole, rows, n))
    if whole * rows < m:
        np.matmul(x[whole * rows :], weights, out=product[whole * rows :])
    return product


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvStep(WalkStep):
    """A planned CONV."""

    weights: Index
    """Word index, shape (OCP, 1, taps * groups)."""
    bias: Index
    """Word index, shape (1,)."""
    shifts: Index | None
    """Word index of the channels' shifts, shape (1,); None: all have the same."""
    shift_bias: int
    shift_cut: int
    act_type: int
    scaled: Records | None
    """Multipliers; None: shifts."""
    zero_in: int
    """What padding reads."""

    def run(self, memory: Memory) -> None:
        """Convolve."""
        walk = self.walk
        window = walk.read(memory, self.zero_in, absent=0).astype(np.float32)
        pixels = walk.windows(window).reshape(walk.rows * walk.length, -1)
        weights = memory.words.take(self.weights, axis=0).astype(np.float32)
        total = matrix_product(pixels, weights.reshape(weights.shape[0], -1))
        if self.scaled is not None:
            result = self.scaled.results(memory, total[:, None])
        else:
            result = requantized(memory, self, total)
        walk.results.write(memory, result)

    def trace(self, memory: Memory) -> None:
        """An output depends on its window, and on the weights and the bias of its lane."""
        walk = self.walk
        pixel = walk.reduce(walk.read_taint(memory).max(axis=(2, 3)), np.maximum)
        lane = np.maximum(self._weight_taint(memory), self._parameter_taint(memory))
        walk.results.set_taint(memory, np.maximum(pixel[:, :, None], lane))

    def _parameter_taint(self, memory: Memory) -> Taint:
        if self.scaled is not None:
            return np.asarray(self.scaled.taint(memory)[0])
        taint = memory.taint_of(self.bias, self.number, self.mnemonic, "bank_addr_bias")[0]
        if self.shifts is None:
            return np.asarray(taint)
        shifts = memory.taint_of(self.shifts, self.number, self.mnemonic, "channel_shift")[0]
        return np.asarray(np.maximum(taint, shifts))

    def _weight_taint(self, memory: Memory) -> Taint:
        """Return the taint of every lane's weights; those of masked input lanes do not matter."""
        unused = np.zeros((*self.weights.shape, memory.words.shape[1]), np.bool_)
        if self.walk.pads is not None:
            unused[:, :, self.walk.groups - 1 :: self.walk.groups, self.walk.pads.lanes :] = True
        taint = memory.taint_of(
            self.weights, self.number, self.mnemonic, "bank_addr_weights", unused
        )
        return np.asarray(taint.max(axis=(1, 2, 3)))


def plan(number: int, i: isa.Conv, init: isa.ConvInit, walker: Walker) -> ConvStep:
    """Return the step of a CONV under its CONVINIT."""
    target = walker.target
    first = target.convw_base
    count = init.kernel_h * init.kernel_w * i.channel_group
    return ConvStep(
        walk=walker.walk(number, i, init, output_groups=1),
        weights=walker.runs(
            range(first, first + target.output_channel_parallel), i.bank_addr_weights, 1, 1, count
        ),
        bias=walker.runs(range(target.bias_bank, target.bias_bank + 1), i.bank_addr_bias, 1, 1, 1)[
            0, 0
        ],
        shifts=walker.runs(
            range(target.shift_bank, target.shift_bank + 1), i.bank_addr_bias, 1, 1, 1
        )[0, 0]
        if i.channel_shift
        else None,
        shift_bias=init.shift_bias,
        shift_cut=init.shift_cut,
        act_type=init.act_type,
        scaled=records(number, i, "bank_addr_bias", i.bank_addr_bias, 1, target)
        if i.scaled
        else None,
        zero_in=signed_byte(init.zero_in) if i.scaled else 0,
    )
