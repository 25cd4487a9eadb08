# SPDX-License-Identifier: Apache-2.0
"""Activations on their own: ALU PRELU, LEAKYRELU and HSIGMOID.

PRELU takes one int8 factor a channel from successive words of DWCONVW at ``bank_addr_weights``.
"""

import dataclasses

import numpy as np

from opendpu_arch import isa, numerics
from opendpu_arch.isa import AluMode
from opendpu_sim.model.memory import Index, Memory
from opendpu_sim.model.walk import Walker, WalkStep


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActivationStep(WalkStep):
    """A planned activation."""

    init: isa.AluInit
    factors: Index | None
    """Word index of PRELU's factors, shape (groups,)."""

    def run(self, memory: Memory) -> None:
        """Apply the activation."""
        x, init = self.walk.read(memory), self.init
        if self.factors is not None:
            y = numerics.prelu(
                x,
                memory.words[self.factors],
                shift_prelu_p=init.shift_prelu_p,
                shift_prelu_n=init.shift_prelu_n,
            )
        elif init.exec_mode == AluMode.LEAKYRELU:
            y = numerics.leaky_relu(
                x,
                multi_factor=init.multi_factor,
                shift_prelu_p=init.shift_prelu_p,
                shift_prelu_n=init.shift_prelu_n,
            )
        else:
            y = numerics.hard_sigmoid(x, shift_bias=init.shift_bias, shift_cut=init.shift_cut)
        self.walk.results.write(memory, y)

    def trace(self, memory: Memory) -> None:
        """An output depends on its input and, with PRELU, on its lane's factor."""
        taint = self.walk.read_taint(memory)
        if self.factors is not None:
            lanes = memory.words.shape[1]
            unused = np.zeros((self.factors.size, lanes), np.bool_)
            if self.walk.pads is not None:
                unused[-1, self.walk.pads.lanes :] = True
            taint = np.maximum(
                taint,
                memory.taint_of(
                    self.factors, self.number, self.mnemonic, "bank_addr_weights", unused
                ),
            )
        self.walk.results.set_taint(memory, taint)


def plan(number: int, i: isa.Alu, init: isa.AluInit, walker: Walker) -> ActivationStep:
    """Return the step of an ALU in one of the activation modes."""
    bank = walker.target.dwconvw_bank
    factors = None
    if init.exec_mode == AluMode.PRELU:
        factors = walker.runs(range(bank, bank + 1), i.bank_addr_weights, 1, 1, init.channel_group)[
            0, 0
        ]
    return ActivationStep(walk=walker.walk(number, i, init), init=init, factors=factors)
