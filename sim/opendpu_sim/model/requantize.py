# SPDX-License-Identifier: Apache-2.0
"""From sums to results: CONV, ALU DWCV and DPTWISE."""

from typing import Any, Protocol

import numpy.typing as npt

from opendpu_arch import numerics
from opendpu_sim.model.memory import Index, Memory, Words


class Biased(Protocol):
    """A step that adds a bias to its sums."""

    @property
    def bias(self) -> Index | None:
        """Words of BIAS."""
        ...

    @property
    def shifts(self) -> Index | None:
        """Words of SHIFT; None: all channels have the instruction's shifts."""
        ...

    @property
    def shift_bias(self) -> int:
        """Left shift of the bias."""
        ...

    @property
    def shift_cut(self) -> int:
        """Right shift of the result."""
        ...

    @property
    def act_type(self) -> int:
        """Activation."""
        ...


def requantized(memory: Memory, step: Biased, total: npt.NDArray[Any]) -> Words:
    """Return the int8 results of sums, whose last axes are those of the bias words."""
    fields = {
        "shift_bias": step.shift_bias,
        "shift_cut": step.shift_cut,
        "act_type": step.act_type,
    }
    bias = memory.words[step.bias]
    if step.shifts is None:
        return numerics.requantize(total, bias, **fields)
    return numerics.requantize_by_channel(total, bias, memory.words[step.shifts], **fields)
