# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose taps are apart: their input rows are gathered from DDR."""

import dataclasses
import math
from typing import ClassVar

from opendpu.compiler.layers.array import KernelLayer
from opendpu.compiler.limits import MAX_CONV_KERNEL, MAX_CONV_STRIDE


@dataclasses.dataclass(frozen=True, kw_only=True)
class DilatedConvLayer(KernelLayer):
    """Convolution whose taps are apart; LOAD gathers the rows that each output row needs.

    ``window`` counts taps, not what lies between them; its padding is negative where taps that only
    meet padding have been left out, and may be more than the taps. The input is always read from
    DDR.
    """

    IN_CASCADES: ClassVar[bool] = False

    dilation_h: int
    dilation_w: int

    @property
    def label(self) -> str:
        """A dilated convolution."""
        return "dilated depthwise conv" if self.depthwise else "dilated conv"

    def reads_from_ddr(self, name: str) -> bool:
        """Tell that the input never comes from the banks."""
        return name == self.source

    @property
    def phases(self) -> int:
        """Output columns from one to the next that meets input columns of the same phase."""
        return self.dilation_w // math.gcd(self.dilation_w, self.window.stride_w)

    @property
    def tap_stride(self) -> int:
        """Taps from one output column of a phase to the next one."""
        return self.window.stride_w // math.gcd(self.dilation_w, self.window.stride_w)

    @property
    def fits_fields(self) -> bool:
        """Whether the fields of CONVINIT hold the kernel and its steps."""
        taps = max(self.window.kernel_h, self.window.kernel_w)
        return taps <= MAX_CONV_KERNEL and self.tap_stride <= MAX_CONV_STRIDE
