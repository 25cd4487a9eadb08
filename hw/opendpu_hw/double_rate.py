# SPDX-License-Identifier: Apache-2.0
"""The doubled clock of DSP blocks: its domain, who may have it, which half of a cycle it is."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from opendpu_arch.errors import UnsupportedError

#: The domain; its clock is the port that AMD's DPU has, ``dpu_2x_clk``.
DOMAIN = "dpu_2x"
DOUBLED_CLOCK = f"{DOMAIN}_clk"


class Phase(wiring.Component):
    """Which half of a cycle it is.

    A register changes with every edge of the DPU's clock. Where the doubled clock has not seen its
    value yet, the first half ends. So this needs no reset, nor that both clocks start together,
    only that each edge of the one comes with every second edge of the other.

    Members
    -------
    second : ``Out(1)``
        A register of the doubled clock: high in the second half.
    """

    second: Out(1)

    def elaborate(self, platform):
        m = Module()
        toggle = Signal()
        seen = Signal()
        m.d.sync += toggle.eq(~toggle)
        m.d[DOMAIN] += [seen.eq(toggle), self.second.eq(toggle ^ seen)]
        return m


def check(target, *, dsp_double_rate=False, vendor=None, **_):
    """Raise an error where options ask for a doubled clock that the array cannot have.

    Raises
    ------
    UnsupportedError
        There are no DSP48E2, or too few pixels to share them.
    """
    if not dsp_double_rate:
        return
    if vendor != "xilinx":
        raise UnsupportedError(
            f"dsp_double_rate is for DSP48E2, but vendor is {vendor}; allowed with it: xilinx")
    if target.pixel_parallel % 4:
        raise UnsupportedError(
            f"dsp_double_rate: {target.name} has {target.pixel_parallel} pixels, but four share a "
            "DSP block, so there must be 4 or 8")
