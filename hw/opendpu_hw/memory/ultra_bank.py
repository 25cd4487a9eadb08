# SPDX-License-Identifier: Apache-2.0
"""One RAM bank in UltraRAM."""

from amaranth.hdl import ClockSignal, Const, Instance, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from opendpu_hw.memory.bank import bank_members

#: Words of an UltraRAM, and their bits.
WORDS, BITS = 4096, 72
#: Address bits of the primitive: those above the words' are of cascades.
_ADDRESS_BITS = 23
_BYTES = 9


class UltraBank(wiring.Component):
    """A bank of ``depth`` words as UltraScale+'s UltraRAM has it.

    Port A reads, port B reads or writes. Both answer two cycles later, the second one through the
    output register, and hold their data while they do not read: also while port B writes. Port A
    gets the word as it was before a write of the same cycle, because UltraRAM serves port A first.
    There are no initial contents; UltraRAM begins with zeros.

    Parameters
    ----------
    depth, width : :class:`int`
        Words, and their bits. :data:`WORDS` at most: there are no cascades.
    vendor : :class:`str` or None
        ``xilinx``: URAM288 primitives side by side, :data:`BITS` bits each. None: the same in plain
        registers and a memory.

    Members
    -------
    a_en, a_addr, a_data, b_en, b_write, b_addr, b_wdata, b_data
        As :class:`opendpu_hw.memory.bank.Bank` has them.
    """

    def __init__(self, *, depth, width, vendor=None):
        self._depth, self._width, self._vendor = depth, width, vendor
        super().__init__(bank_members(depth=depth, width=width))

    def elaborate(self, platform):
        m = Module()
        if self._vendor == "xilinx":
            self._primitives(m)
            return m
        m.submodules.ram = ram = Memory(shape=unsigned(self._width), depth=self._depth, init=[])
        read_a, read_b, write_b = ram.read_port(), ram.read_port(), ram.write_port()
        m.d.comb += [
            read_a.en.eq(self.a_en), read_a.addr.eq(self.a_addr),
            read_b.en.eq(self.b_en & ~self.b_write), read_b.addr.eq(self.b_addr),
            write_b.en.eq(self.b_write), write_b.addr.eq(self.b_addr),
            write_b.data.eq(self.b_wdata),
        ]
        m.d.sync += [self.a_data.eq(read_a.data), self.b_data.eq(read_b.data)]
        return m

    def _primitives(self, m):
        """Add the primitives, each with some bits of a word."""
        address = {port: Signal(_ADDRESS_BITS, name=f"{port}_words") for port in "ab"}
        used = Signal()
        m.d.comb += [
            address["a"].eq(self.a_addr), address["b"].eq(self.b_addr),
            used.eq(self.b_en | self.b_write),
        ]
        for number, low in enumerate(range(0, self._width, BITS)):
            word = Signal(BITS, name=f"word{number}")
            out = {port: Signal(BITS, name=f"{port}_out{number}") for port in "ab"}
            bits = slice(low, low + BITS)
            m.d.comb += [
                word.eq(self.b_wdata[bits]),
                self.a_data[bits].eq(out["a"]), self.b_data[bits].eq(out["b"]),
            ]
            m.submodules[f"ultra{number}"] = uram288(
                out["a"], out["b"], a_en=self.a_en, a_addr=address["a"],
                b_en=used, b_write=self.b_write, b_addr=address["b"], b_data=word)


def uram288(a_out, b_out, *, a_en, a_addr, b_en, b_write, b_addr, b_data):
    """Return the primitive: port A reads, port B does both, each with its output register.

    Parameters
    ----------
    a_out, b_out : :class:`Signal` of 72 bits
        Words, two cycles after they were asked for.
    a_en, a_addr : values of 1 and 23 bits
        Port A reads, and what.
    b_en, b_write, b_addr, b_data : values of 1, 1, 23 and 72 bits
        Port B works, and writes.
    """
    zero, one = Const(0, 1), Const(1, 1)
    ports = {"CLK": ClockSignal(), "SLEEP": zero}
    parameters = {"AUTO_SLEEP_LATENCY": 8, "AVG_CONS_INACTIVE_CYCLES": 10,
                  "EN_AUTO_SLEEP_MODE": "FALSE"}
    for port, enable, write, addr, data in (
            ("A", a_en, zero, a_addr, Const(0, BITS)), ("B", b_en, b_write, b_addr, b_data)):
        ports |= {
            f"EN_{port}": enable, f"RDB_WR_{port}": write, f"ADDR_{port}": addr,
            f"DIN_{port}": data, f"BWE_{port}": Const(-1, _BYTES), f"RST_{port}": zero,
            f"OREG_CE_{port}": one, f"OREG_ECC_CE_{port}": one,
            f"INJECT_DBITERR_{port}": zero, f"INJECT_SBITERR_{port}": zero,
        }
        parameters |= {
            f"OREG_{port}": "TRUE", f"OREG_ECC_{port}": "FALSE", f"IREG_PRE_{port}": "FALSE",
            f"BWE_MODE_{port}": "PARITY_INTERLEAVED", f"RST_MODE_{port}": "SYNC",
            f"EN_ECC_RD_{port}": "FALSE", f"EN_ECC_WR_{port}": "FALSE",
            f"USE_EXT_CE_{port}": "FALSE",
        }
    return Instance(
        "URAM288_BASE", **{f"p_{name}": value for name, value in parameters.items()},
        **{f"i_{name}": value for name, value in ports.items()}, o_DOUT_A=a_out, o_DOUT_B=b_out)
