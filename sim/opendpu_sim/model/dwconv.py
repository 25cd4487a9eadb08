# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution: ALU DWCV, DWCVB0 and DWCVW16B0, and the older DPTWISE.

The weights of tap (row, column) and group g lie in DWCONVW at
``bank_addr_weights + (row * kernel_w + column) * jump_read_weights + g``; for DPTWISE the jump is
the number of groups. DWCVW16B0 has words ``+ 2 * g`` instead, whose first two bytes are one int16
weight for all lanes of the group. Biases are successive words of BIAS from ``bank_addr_bias``.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa, numerics
from opendpu_arch.isa import AluMode
from opendpu_sim.model.memory import Index, Memory, Taint
from opendpu_sim.model.requantize import requantized
from opendpu_sim.model.scaled import Records, records
from opendpu_sim.model.walk import Walker, WalkStep


@dataclasses.dataclass(frozen=True, kw_only=True)
class DepthwiseStep(WalkStep):
    """A planned depthwise convolution."""

    weights: Index
    """Word index, shape (kernel_h, kernel_w, groups)."""
    wide: bool
    """Weights are int16, one a group."""
    bias: Index | None
    """Word index, shape (groups,)."""
    shifts: Index | None
    """Word index of the channels' shifts, shape (groups,); None: all have the same."""
    shift_bias: int
    shift_cut: int
    act_type: int
    scaled: Records | None = None
    """Multipliers; None: shifts."""
    zero_in: int = 0
    """What padding reads."""

    def run(self, memory: Memory) -> None:
        """Convolve."""
        walk = self.walk
        weights: npt.NDArray[np.int8] | npt.NDArray[np.int16] = memory.words[self.weights]
        kind: type[np.int32] | type[np.int64] = np.int32
        if self.wide:
            weights = numerics.weights_16(memory.words[self.weights])[..., None]
            if walk.kernel_h * walk.kernel_w >= 1 << 31 - 22:  # a product is at most 2**22
                kind = np.int64
        window = walk.read(memory, self.zero_in, absent=0).astype(kind)
        windows = walk.windows(window)
        total = np.zeros((walk.rows, walk.length, *window.shape[2:]), kind)
        for row in range(walk.kernel_h):
            for column in range(walk.kernel_w):
                total += windows[:, :, row, column] * weights[row, column].astype(kind)
        if self.scaled is not None:
            result = self.scaled.results(memory, total)
        elif self.bias is None:
            result = numerics.requantize_without_bias(
                total, shift_cut=self.shift_cut, act_type=self.act_type
            )
        else:
            result = requantized(memory, self, total)
        walk.results.write(memory, result)

    def trace(self, memory: Memory) -> None:
        """An output depends on its lane's window, weights and bias."""
        walk = self.walk
        lanes = memory.words.shape[1]
        ignored: npt.NDArray[np.bool_] = np.zeros((walk.groups, lanes), np.bool_)
        if walk.pads is not None:
            ignored[-1, walk.pads.lanes :] = True
        unused = np.broadcast_to(ignored, (*self.weights.shape, lanes)).copy()
        if self.wide:
            unused[...] = np.asarray(ignored.all(axis=1))[:, None]
            unused[..., 2:] = True
        weights: Taint = memory.taint_of(
            self.weights, self.number, self.mnemonic, "bank_addr_weights", unused
        ).max(axis=(0, 1))
        if self.wide:
            weights = np.where(ignored, 0, weights.max(axis=1, keepdims=True))
        taint = np.maximum(walk.reduce(walk.read_taint(memory), np.maximum), weights)
        if self.scaled is not None:
            taint = np.maximum(taint, self.scaled.taint(memory))
        elif self.bias is not None:
            bias = memory.taint_of(self.bias, self.number, self.mnemonic, "bank_addr_bias")
            taint = np.maximum(taint, bias)
        if self.shifts is not None:
            shifts = memory.taint_of(self.shifts, self.number, self.mnemonic, "channel_shift")
            taint = np.maximum(taint, shifts)
        walk.results.set_taint(memory, taint)


def plan_alu(number: int, i: isa.Alu, init: isa.AluInit, walker: Walker) -> DepthwiseStep:
    """Return the step of an ALU in one of the depthwise modes."""
    wide = init.exec_mode == AluMode.DWCVW16B0
    groups, bias_bank = init.channel_group, walker.target.bias_bank
    return DepthwiseStep(
        walk=walker.walk(number, i, init),
        weights=_weights(walker, i, init, init.jump_read_weights, 2 * groups if wide else groups)[
            ..., :: 2 if wide else 1
        ],
        wide=wide,
        bias=walker.runs(range(bias_bank, bias_bank + 1), i.bank_addr_bias, 1, 1, groups)[0, 0]
        if init.exec_mode == AluMode.DWCV
        else None,
        shifts=_shifts(walker, i, groups) if init.exec_mode == AluMode.DWCV else None,
        shift_bias=init.shift_bias,
        shift_cut=init.shift_cut,
        act_type=init.act_type,
        scaled=records(number, i, "bank_addr_bias", i.bank_addr_bias, groups, walker.target)
        if i.scaled
        else None,
        zero_in=numerics.signed_byte(init.multi_factor) if i.scaled else 0,
    )


def plan_dptwise(number: int, i: isa.DptWise, init: isa.DwInit, walker: Walker) -> DepthwiseStep:
    """Return the step of a DPTWISE under its DWINIT."""
    groups, bias_bank = i.channel_group, walker.target.bias_bank
    return DepthwiseStep(
        walk=walker.walk(number, i, init),
        weights=_weights(walker, i, init, groups, groups),
        wide=False,
        bias=walker.runs(range(bias_bank, bias_bank + 1), i.bank_addr_bias, 1, 1, groups)[0, 0],
        shifts=_shifts(walker, i, groups),
        shift_bias=init.shift_bias,
        shift_cut=init.shift_cut,
        act_type=i.act_type,
    )


def _shifts(walker: Walker, i: isa.Alu | isa.DptWise, groups: int) -> Index | None:
    """Return the words of the channels' shifts, those of the biases in SHIFT, or None."""
    if not i.channel_shift:
        return None
    bank = walker.target.shift_bank
    found: Index = walker.runs(range(bank, bank + 1), i.bank_addr_bias, 1, 1, groups)[0, 0]
    return found


def _weights(
    walker: Walker, i: isa.Alu | isa.DptWise, init: isa.AluInit | isa.DwInit, jump: int, words: int
) -> Index:
    """Return word indexes, shape (kernel_h, kernel_w, words), ``words`` successive ones a tap."""
    bank = walker.target.dwconvw_bank
    taps = init.kernel_h * init.kernel_w
    index = walker.runs(range(bank, bank + 1), i.bank_addr_weights, jump, taps, words)
    return index.reshape(init.kernel_h, init.kernel_w, words)
