# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose taps are apart: their input rows are gathered from DDR."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from opendpu.compiler.layers.conv import ConvLayer
from opendpu.compiler.layers.layer import Features


@dataclasses.dataclass(frozen=True, kw_only=True)
class DilatedConvLayer(ConvLayer):
    """Convolution whose taps are apart; LOAD gathers the rows that each output row needs.

    ``window`` counts taps, not what lies between them; its padding is negative where taps that only
    meet padding have been left out. The input is always read from DDR.
    """

    IN_CASCADES: ClassVar[bool] = False
    TAKES_EPILOGUE: ClassVar[bool] = False

    dilation_h: int
    dilation_w: int

    @property
    def label(self) -> str:
        """A dilated convolution."""
        return "dilated conv"

    def reads_from_ddr(self, name: str) -> bool:
        """Tell that the input never comes from the banks."""
        return name == self.source

    def broken_rules(self, features: Features) -> Iterator[tuple[str, str]]:
        """Check the kernel and the number of biases; padding may reach beyond the taps."""
        yield from self._constant_rules()
