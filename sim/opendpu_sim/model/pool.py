# SPDX-License-Identifier: Apache-2.0
"""Pooling: ALU AVEPOOL, MAXPOOL and MAXREDUCE, and the older POOL.

Padding is 0 for averages and -128 for maxima; max-reduce has none.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa, numerics
from opendpu_arch.isa import AluMode, PoolType
from opendpu_sim.model.memory import Memory, Words
from opendpu_sim.model.scaled import Records, records
from opendpu_sim.model.walk import Walker, WalkStep


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolStep(WalkStep):
    """A planned pooling."""

    average: bool
    finish: Callable[[Memory, npt.NDArray[np.int32]], Words]
    """Makes the result of a window's sum or maximum."""
    scaled: Records | None = None
    """Multipliers that it takes."""

    def run(self, memory: Memory) -> None:
        """Pool."""
        walk = self.walk
        if self.average:
            combined = walk.reduce(walk.read(memory).astype(np.int32), np.add)
        else:
            combined = walk.reduce(walk.read(memory, -128), np.maximum)
        walk.results.write(memory, self.finish(memory, combined))

    def trace(self, memory: Memory) -> None:
        """An output depends on its lane's window."""
        walk = self.walk
        taint = walk.reduce(walk.read_taint(memory), np.maximum)
        if self.scaled is not None:
            taint = np.maximum(taint, self.scaled.taint(memory))
        walk.results.set_taint(memory, taint)


def plan_alu(number: int, i: isa.Alu, init: isa.AluInit, walker: Walker) -> PoolStep:
    """Return the step of an ALU in one of the pooling modes."""
    average = init.exec_mode == AluMode.AVEPOOL
    scaled = None
    if i.scaled:
        first, groups = i.bank_addr_bias, init.channel_group
        scaled = records(number, i, "bank_addr_bias", first, groups, walker.target)

    def finish(memory: Memory, combined: npt.NDArray[np.int32]) -> Words:
        if scaled is not None:
            factor = numerics.signed_byte(init.multi_factor) if average else 1
            return scaled.results(memory, combined.astype(np.int64) * factor)
        if average:
            return numerics.average_pool(
                combined, multi_factor=init.multi_factor, shift_cut=init.shift_cut
            )
        return numerics.max_pool(combined, shift_cut=init.shift_cut)

    return PoolStep(
        walk=walker.walk(number, i, init), average=average, finish=finish, scaled=scaled
    )


def plan_pool(number: int, i: isa.Pool, init: isa.PoolInit, walker: Walker) -> PoolStep:
    """Return the step of a POOL under its POOLINIT."""
    average = init.pool_type == PoolType.AVERAGE

    def finish(_: Memory, combined: npt.NDArray[np.int32]) -> Words:
        if average:
            return numerics.pool_average(
                combined,
                kernel_h=init.kernel_h,
                kernel_w=init.kernel_w,
                shift_cut=init.shift_cut,
            )
        return numerics.max_pool(combined, shift_cut=init.shift_cut)

    return PoolStep(walk=walker.walk(number, i, init), average=average, finish=finish)
