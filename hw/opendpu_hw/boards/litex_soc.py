# SPDX-License-Identifier: Apache-2.0
"""A LiteX system around the DPU: SDRAM, and a bridge through which a host does a processor's work.

Whoever imports this module needs the extra ``opendpu[boards]``.
"""

from litedram.frontend.axi import LiteDRAMAXI2Native
from litedram.init import get_sdram_phy_init_sequence
from litex.build.io import DDROutput
from litex.gen import LiteXModule
from litex.soc.cores.clock import ECP5PLL
from litex.soc.cores.uart import UARTBone
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect import axi
from migen import ClockDomain, ClockSignal, Instance, ResetSignal, Signal

from opendpu_hw import verilog

#: Where the DPU's registers are on the bus.
REGISTERS = 0x8000_0000
#: What :data:`opendpu_hw.control.registers.ADDR_WIDTH` spans.
REGISTERS_SIZE = 0x1000

_MASTERS = {"m_axi_instr": 32, "m_axi_data0": 128, "m_axi_data1": 128}
_ADDRESS = ("addr", "len", "size", "burst", "lock", "cache", "prot")
#: What LiteDRAM's start-up sequence says -> bits of the register that it is written to.
_DFI_BITS = {
    "DFII_CONTROL_CKE": 1, "DFII_CONTROL_ODT": 2, "DFII_CONTROL_RESET_N": 3,
    "DFII_COMMAND_CS": 0, "DFII_COMMAND_WE": 1, "DFII_COMMAND_CAS": 2, "DFII_COMMAND_RAS": 3,
}
_DFI_REGISTERS = {"CONTROL": "control", "COMMAND": "command"}
#: Channel -> signals, and whether the master drives them.
_CHANNELS = {
    "aw": (("id", *_ADDRESS), True), "w": (("data", "strb", "last"), True),
    "b": (("id", "resp"), False),
    "ar": (("id", *_ADDRESS), True), "r": (("id", "data", "resp", "last"), False),
}


def _pins(bus, prefix, channels, *, master):
    """Return the ports of an instance that lead to an AXI bus of LiteX."""
    pins = {}
    for name, (signals, forward) in channels.items():
        channel = getattr(bus, name)
        outward = forward == master
        for signal in signals:
            pins[f"{'o' if outward else 'i'}_{prefix}_{name}{signal}"] = getattr(channel, signal)
        pins[f"{'o' if outward else 'i'}_{prefix}_{name}valid"] = channel.valid
        pins[f"{'i' if outward else 'o'}_{prefix}_{name}ready"] = channel.ready
    return pins


class Ecp5Clocks(LiteXModule):
    """The system's clock from the board's 25 MHz, and the SDRAM's a quarter later."""

    def __init__(self, platform, clock):
        self.rst = Signal()
        self.cd_sys = ClockDomain()
        self.cd_sys_ps = ClockDomain()
        self.pll = pll = ECP5PLL()
        self.comb += pll.reset.eq(self.rst)
        pll.register_clkin(platform.request("clk25"), 25e6)
        pll.create_clkout(self.cd_sys, clock)
        pll.create_clkout(self.cd_sys_ps, clock, phase=90)
        self.specials += DDROutput(
            1, 0, platform.request("sdram_clock"), ClockSignal("sys_ps"))
        # Else the ESP32 beside it resets the FPGA.
        self.comb += platform.request("wifi_gpio0").eq(1)


class DpuSoC(SoCMini):
    """DPU, SDRAM and a serial bridge on one clock.

    Parameters
    ----------
    platform
        Where it goes: a board, or LiteX's simulator.
    clock
        Hertz of the one clock.
    source : path
        Verilog of the DPU.
    crg : LiteXModule
        Makes the clock.
    sdram_phy, sdram_module
        Of LiteDRAM.
    serial_phy
        Of the bridge: LiteX's UART, or its stand-in in the simulator.
    """

    def __init__(self, platform, clock, *, source, crg, sdram_phy, sdram_module, serial_phy):
        SoCMini.__init__(self, platform, clock, ident="OpenDPU", ident_version=False)
        self.crg = crg
        self.sdrphy = sdram_phy
        # Without the cache of the bus: the DPU's ports would not see what it holds.
        self.add_sdram("sdram", phy=self.sdrphy, module=sdram_module, l2_cache_size=0)
        self.bridge_phy = serial_phy
        self.bridge = UARTBone(serial_phy, clock)
        self.bus.add_master("bridge", self.bridge.wishbone)
        self._add_dpu(source)

    def _add_dpu(self, source):
        self.platform.add_source(str(source))
        lite_channels = {
            name: ([s for s in signals if s in ("addr", "prot", "data", "strb", "resp")], forward)
            for name, (signals, forward) in _CHANNELS.items()}
        control = axi.AXILiteInterface(data_width=32, address_width=32)
        pins = _pins(control, "s_axi_control", lite_channels, master=False)
        for channel in ("aw", "ar"):
            address = getattr(control, channel).addr
            pins[f"i_s_axi_control_{channel}addr"] = address[:REGISTERS_SIZE.bit_length() - 1]
        for prefix, width in _MASTERS.items():
            bus = axi.AXIInterface(data_width=width, address_width=32, id_width=1)
            reads_only = width == 32
            channels = {name: description for name, description in _CHANNELS.items()
                        if name in ("ar", "r") or not reads_only}
            pins |= _pins(bus, prefix, channels, master=True)
            port = self.sdram.crossbar.get_port(data_width=width)
            self.submodules += LiteDRAMAXI2Native(
                bus, port, base_address=self.bus.regions["main_ram"].origin)
        self.specials += Instance(
            verilog.TOP, i_aclk=ClockSignal(), i_aresetn=~ResetSignal(), **pins)
        self.bus.add_slave("dpu", control, SoCRegion(
            origin=REGISTERS, size=REGISTERS_SIZE, cached=False))

    def description(self):
        """Return what a host needs to know of the system, JSON-ready; after it is finalized."""
        base = self.csr_regions["sdram"].origin
        offsets, address = {}, base
        for csr in self.csr_regions["sdram"].obj:
            offsets[csr.name] = address
            address += 4 * ((csr.size + 31) // 32)
        ram = self.bus.regions["main_ram"]
        sequence, _ = get_sdram_phy_init_sequence(
            self.sdrphy.settings, self.sdram.controller.settings.timing)
        return {
            "clock": int(self.sys_clk_freq),
            "registers": REGISTERS,
            "memory": {"address": ram.origin, "size": ram.size},
            "sdram": {
                "registers": {
                    "control": offsets["dfii_control"],
                    "command": offsets["dfii_pi0_command"],
                    "issue": offsets["dfii_pi0_command_issue"],
                    "address": offsets["dfii_pi0_address"],
                    "bank": offsets["dfii_pi0_baddress"]},
                "sequence": [
                    {"register": _DFI_REGISTERS[command.partition("_")[2].partition("_")[0]],
                     "value": sum(1 << _DFI_BITS[part] for part in command.split("|")),
                     "address": a, "bank": bank, "delay": delay}
                    for _, a, bank, command, delay in sequence]}}
