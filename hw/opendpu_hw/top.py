# SPDX-License-Identifier: Apache-2.0
"""The DPU as it is simulated and synthesised: a core behind flat AXI ports."""

from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.core import Core, events_shape
from opendpu_hw.double_rate import DOMAIN, DOUBLED_CLOCK


class Top(wiring.Component):
    """``opendpu_top``: clock, active-low reset, AXI with conventional names.

    The reset is registered once, so it is synchronous and may come from anywhere in the clock's
    domain; hold it for at least two cycles.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        What to build.
    options : keyword arguments
        See :class:`opendpu_hw.core.Core`.

    Members
    -------
    aclk, aresetn : ``In(1)``
        Clock and reset.
    dpu_2x_clk : ``In(1)``
        With ``dsp_double_rate``: a clock of twice the frequency, each second edge of which comes
        with one of ``aclk``, such as a second output of the same MMCM. It needs no reset.
    s_axi_control_* : AXI4-Lite slave, 32-bit data, 12-bit address
        Registers.
    m_axi_instr_* : AXI4 master, read only, 32-bit data, 40-bit address
        Program.
    m_axi_data0_*, m_axi_data1_* : AXI4 masters, 128-bit data, 40-bit address
        Weights and feature maps.
    interrupt : ``Out(1)``
        Level: a program has ended or failed.
    events : ``Out(9)``
        :data:`opendpu_hw.core.events_shape`, for simulation and logic analysers; leave it open.
    """

    def __init__(self, target, **options):
        self._core = Core(target, **options)
        self._doubled = bool(options.get("dsp_double_rate"))
        members = {"aclk": In(1), **({DOUBLED_CLOCK: In(1)} if self._doubled else {}),
                   "aresetn": In(1), "interrupt": Out(1),
                   "events": Out(events_shape.size)}
        core = self._core.signature.members
        self._groups = [("s_axi_control", ("control",)), ("m_axi_instr", ("instr",)),
                        ("m_axi_data0", ("save0", "load0")), ("m_axi_data1", ("save1", "load1"))]
        for prefix, sources in self._groups:
            for source in sources:
                for name, member in core[source].signature.members.items():
                    members[f"{prefix}_{name}"] = member.flow(member.shape)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain("sync")
        if self._doubled:
            m.domains += ClockDomain(DOMAIN, reset_less=True)
            m.d.comb += ClockSignal(DOMAIN).eq(self.dpu_2x_clk)
        m.submodules.core = core = self._core
        reset = Signal(init=1, reset_less=True)
        m.d.comb += [ClockSignal().eq(self.aclk), ResetSignal().eq(reset)]
        m.d.sync += reset.eq(~self.aresetn)
        m.d.comb += [self.interrupt.eq(core.interrupt), self.events.eq(core.events)]
        for prefix, sources in self._groups:
            for source in sources:
                port = getattr(core, source)
                for name in core.signature.members[source].signature.members:
                    pin, inner = getattr(self, f"{prefix}_{name}"), getattr(port, name)
                    if self.signature.members[f"{prefix}_{name}"].flow == Out:
                        m.d.comb += pin.eq(inner)
                    else:
                        m.d.comb += inner.eq(pin)
        return m
