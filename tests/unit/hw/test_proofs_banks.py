# SPDX-License-Identifier: Apache-2.0
"""Proofs about who gets a bank, and that a DSP block makes two products."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from proof import Refuted, check, mutated, prove

from opendpu_arch.target import Target
from opendpu_hw.datapath import cascades, packed_multiply
from opendpu_hw.memory import banks, image_bank_use
from opendpu_hw.memory.ports import BankRead, BankWrite, ConvRead, ConvWrite, RowRead, RowWrite


class Ports(wiring.Component):
    """A bank does no more than its two ports can, one write among it; who is alone is served."""

    def __init__(self, module):
        self._target = target = Target.from_name("B64")
        self._dut = module.Banks(target)
        super().__init__({
            "which": In(6), "conv_read": In(ConvRead(target)), "conv_write": In(ConvWrite(target)),
            "misc_read": In(RowRead(target)), "misc_write": In(RowWrite(target)),
            "load0": In(BankWrite(target)), "load1": In(BankWrite(target)),
            "save0": In(BankRead(target)), "save1": In(BankRead(target)),
        })  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        target = self._target
        m.submodules.dut = dut = self._dut
        ports = {name: getattr(self, name) for name in self.signature.members if name != "which"}
        for name, port in ports.items():
            wiring.connect(m, wiring.flipped(port), getattr(dut, name))
        banks_ = target.pixel_parallel
        place, group = self.which[: banks_.bit_length() - 1], self.which[banks_.bit_length() - 1 :]

        def row(port, asks):
            return asks & (port.group == group) & port.mask.bit_select(place, 1)

        c, r = self.conv_write, self.misc_read
        asks = {"conv": row(c, 1), "misc": row(self.misc_write, self.misc_write.valid)}
        asks |= {p: ports[p].valid & (ports[p].bank_id == self.which) for p in ("load0", "load1")}
        writes = [asks["conv"], asks["misc"] & self.misc_write.ready] + [
            asks[p] & ports[p].ready for p in ("load0", "load1")
        ]
        reads = [self.conv_read.en & (self.conv_read.group == group), row(r, r.valid & r.ready)] + [
            p.valid & p.ready & (p.bank_id == self.which) for p in (self.save0, self.save1)
        ]
        m.d.comb += [
            Assume(self.which < target.image_banks),
            *(
                Assume(ports[p].bank_id[0] == int(p[-1]))
                for p in ("load0", "load1", "save0", "save1")
            ),
            Assert(sum(writes) <= 1), Assert(sum(writes) + sum(reads) <= 2),
        ]  # fmt: skip
        asking = {
            "misc_read": r.valid, "misc_write": self.misc_write.valid,
            **{p: ports[p].valid for p in ("load0", "load1", "save0", "save1")},
        }  # fmt: skip
        others = ~self.conv_read.en & ~c.mask.any()
        for name, valid in asking.items():
            rest = Cat(v for other, v in asking.items() if other != name)
            m.d.comb += Assert(~(others & valid & ~rest.any()) | ports[name].ready)
        return m


def test_ports_of_banks(monkeypatch):
    def ports(module):
        monkeypatch.setattr(banks, "ImageBankUse", module.ImageBankUse)
        return Ports(banks)

    faults = [
        (
            "self.load_refused = self._load_writes & self._computed",
            "self.load_refused = self._load_writes & self._conv_writes",
        ),
        (
            "self.save_refused = self._save_reads & taken",
            "self.save_refused = self._save_reads & taken & ~self._misc_on_b",
        ),
        (
            "self.misc_read_refused = self._misc_reads & conv_reads & self._write",
            "self.misc_read_refused = self._misc_reads & conv_reads & self._conv_writes",
        ),
        (
            "self.misc_write_refused = self._conv_writes & self._misc_writes",
            "self.misc_write_refused = self._misc_writes",
        ),
    ]
    check(ports, image_bank_use, faults, cycles=1, memories=False)


class TwoProducts(wiring.Component):
    """What a DSP block gives are two products; the sums of a cascade are both sums."""

    high: In(8)
    low: In(8)

    def __init__(self, module, *, weight):
        self._weight = weight
        self._dut = module.PackedMultiplyAdd(first=True, last=True)
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self._dut
        begun = Signal(5)
        high, low = Signal(signed(8)), Signal(signed(8))
        m.d.sync += begun.eq(begun << 1 | 1)
        with m.If(~begun[0]):
            m.d.sync += [high.eq(self.high), low.eq(self.low)]
        products = ((high * self._weight) << packed_multiply.FIELD) + low * self._weight
        m.d.comb += [
            dut.high.eq(self.high), dut.low.eq(self.low), dut.weight.eq(self._weight),
            Assert(~(begun[3] & ~begun[4]) | (dut.total == products)),
        ]  # fmt: skip
        return m


@pytest.mark.parametrize("weight", [0, 1, 64, 85, 127])
def test_a_block_makes_two_products(weight):
    """Negative weights take the solver minutes each; test_array.py draws them."""
    prove(TwoProducts(packed_multiply, weight=weight), cycles=5)


def test_a_block_that_makes_one_is_found():
    wrong = mutated(packed_multiply, "(a << FIELD) + d", "(a << FIELD) | d[:8]")
    with pytest.raises(Refuted):
        prove(TwoProducts(wrong, weight=85), cycles=5)


class Unpacked(wiring.Component):
    """Sums of up to eight products, both at their limits, come apart."""

    high: In(19)
    low: In(19)

    def __init__(self, module):
        self._unpack = module.unpack
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        low, high = self.low.as_signed(), self.high.as_signed()
        total = Signal(48)
        m.d.comb += total.eq((high << packed_multiply.FIELD) + low)
        least, most = -8 * 128 * 127, 8 * 128 * 128
        found_low, found_high, borrow = self._unpack(total)
        m.d.comb += [
            *(Assume((value >= least) & (value <= most)) for value in (low, high)),
            Assert(found_low == low), Assert(found_high + borrow == high),
        ]  # fmt: skip
        return m


def test_sums_of_eight_come_apart():
    check(Unpacked, cascades, [("& total[FIELD - 8:FIELD - 1].any()", "")])
