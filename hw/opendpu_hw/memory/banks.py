# SPDX-License-Identifier: Apache-2.0
"""All banks of a DPU and the arbitration of their ports."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_hw.datapath.multiplexer import Multiplexers, choose
from opendpu_hw.memory.bank import Bank
from opendpu_hw.memory.image_bank_use import ImageBankUse
from opendpu_hw.memory.ports import (
    BankRead,
    BankWrite,
    BiasRead,
    ConvRead,
    ConvWrite,
    ParameterRead,
    RowRead,
    RowWrite,
)
from opendpu_hw.memory.record_ram import RecordWrite, record_of, words_of
from opendpu_hw.memory.table_ram import TableWrite
from opendpu_hw.memory.ultra_bank import UltraBank


class Banks(wiring.Component):
    """Image banks, CONVW, DWCONVW and BIAS with everyone who uses them.

    Who gets a port of an image bank, first come last:

    * Port A reads: CONV (a whole group, never refused), then MISC, SAVE.
    * Port B writes: CONV (never refused), MISC, LOAD; when nobody writes a bank, port B serves the
      reads that CONV has pushed off port A.

    Parameter banks have one read and one write port; CONV comes before MISC at BIAS. Even banks
    belong to channel 0 of LOAD and of SAVE, odd ones to channel 1.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Which banks there are.
    ultra_ram : :class:`int`
        Banks with smaller ids are in UltraRAM: image banks come first, then CONVW. Others cannot
        be. All of them keep the same time.
    vendor : :class:`str` or None
        See :class:`opendpu_hw.memory.bank.Bank` and
        :class:`opendpu_hw.memory.ultra_bank.UltraBank`.
    weights_late : :class:`int`
        How many cycles later than image words CONV gets its weights.

    Members
    -------
    conv_read, conv_write, conv_bias, misc_read, misc_write, misc_weights, misc_bias,
    load0, load1, save0, save1
        The engines' ports, see :mod:`opendpu_hw.memory.ports`.
    tables : ``Out(TableWrite)``
        With the extension ``table``: what LOAD writes to TABLE, a cycle later.
    records, terms : ``Out(RecordWrite)``, ``Out(TableWrite)``
        With the extension ``scaled``: what LOAD writes to SCALE and TERM, a cycle later.
    """

    def __init__(self, target, *, ultra_ram=0, vendor=None, weights_late=0):
        self._target, self._ultra_ram, self._vendor = target, ultra_ram, vendor
        self._weights_late = weights_late
        super().__init__({
            "conv_read": In(ConvRead(target)), "conv_write": In(ConvWrite(target)),
            "conv_bias": In(BiasRead(target)),
            "misc_read": In(RowRead(target)), "misc_write": In(RowWrite(target)),
            "misc_weights": In(ParameterRead(target)), "misc_bias": In(BiasRead(target)),
            "load0": In(BankWrite(target)), "load1": In(BankWrite(target)),
            "save0": In(BankRead(target)), "save1": In(BankRead(target)),
            **({"tables": Out(TableWrite())} if Extension.TABLE in target.extensions else {}),
            **({"records": Out(RecordWrite(target)), "terms": Out(TableWrite())}
               if Extension.SCALED in target.extensions else {}),
        })

    def elaborate(self, platform):
        m = Module()
        self._image_banks(m)
        self._parameter_banks(m)
        target = self._target
        if Extension.TABLE in target.extensions:
            self._copies(m, self.tables, target.table_bank)
        if Extension.SCALED in target.extensions:
            self._records(m)
            self._copies(m, self.terms, target.term_bank)
        return m

    def _image_banks(self, m):
        """Build the image banks and connect them with their users."""
        target = self._target
        banks = target.pixel_parallel
        image, uses = [], []
        for g in range(target.bank_groups):
            conv_reads, conv_writes, misc_reads, misc_writes = self._users_of_group(m, g)
            for b in range(banks):
                number = g * banks + b
                bank = (self._ultra_bank() if number < self._ultra_ram else
                        Bank(**self._size, registered=latency.BANK_READ > 1, vendor=self._vendor))
                m.submodules[f"image{number}"] = bank
                load, load_writes = self._load_of(number)
                save = (self.save0, self.save1)[number % 2]
                use = ImageBankUse(
                    m, number, conv_reads=conv_reads,
                    conv_writes=conv_writes & self.conv_write.mask[b],
                    misc_reads=misc_reads & self.misc_read.mask[b],
                    misc_writes=misc_writes & self.misc_write.mask[b],
                    load_writes=load_writes,
                    save_reads=save.valid & (save.bank_id[1:] == number // 2))
                use.connect(m, bank, self, b, load, save)
                image.append(bank)
                uses.append(use)
        m.d.comb += [
            self.misc_write.ready.eq(~Cat(use.misc_write_refused for use in uses).any()),
            self.misc_read.ready.eq(~Cat(use.misc_read_refused for use in uses).any()),
            *(load.ready.eq(~Cat(use.load_refused for use in uses[i::2]).any())
              for i, load in enumerate((self.load0, self.load1))),
            *(save.ready.eq(~Cat(use.save_refused for use in uses[i::2]).any())
              for i, save in enumerate((self.save0, self.save1))),
        ]
        self._answer_rows(m, image)
        self._answer_save(m, image)

    def _users_of_group(self, m, g):
        """Return whether CONV reads and writes a bank group, and MISC."""
        conv_reads = Signal(name=f"conv_reads{g}")
        misc_reads, misc_writes = Signal(name=f"misc_reads{g}"), Signal(name=f"misc_writes{g}")
        conv_writes = Signal(name=f"conv_writes{g}")
        m.d.comb += [
            conv_reads.eq(self.conv_read.en & (self.conv_read.group == g)),
            misc_reads.eq(self.misc_read.valid & (self.misc_read.group == g)),
            misc_writes.eq(self.misc_write.valid & (self.misc_write.group == g)),
            conv_writes.eq(self.conv_write.group == g),
        ]
        return conv_reads, conv_writes, misc_reads, misc_writes

    def _answer_rows(self, m, image):
        """Give CONV and MISC the words that they have read."""
        target, conv_read, misc_read = self._target, self.conv_read, self.misc_read
        banks, groups = target.pixel_parallel, target.bank_groups
        conv_group = _when_answered(m, conv_read.group, "conv_group")
        conv_turn = _when_answered(m, conv_read.turn, "conv_turn")
        misc_group = _when_answered(m, misc_read.group, "misc_group")
        misc_on_b = _when_answered(
            m, conv_read.en & (conv_read.group == misc_read.group), "misc_on_b")
        m.submodules.conv_data = conv_data = Multiplexers(
            width=8 * target.channel_parallel,
            ways=[[g * banks + (b + turn) % banks for g in range(groups) for turn in range(2)]
                  for b in range(banks)])
        m.d.comb += [
            conv_data.index.eq(Cat(conv_turn, conv_group)),
            *(i.eq(bank.a_data) for i, bank in zip(conv_data.i, image, strict=True)),
        ]
        for b in range(banks):
            m.d.comb += [
                conv_read.data[b].eq(conv_data.o[b]),
                misc_read.data[b].eq(choose(Cat(misc_on_b, misc_group), _answers(image[b::banks]))),
            ]

    def _answer_save(self, m, image):
        """Give the channels of SAVE the words that they have read."""
        target, conv_read, misc_read = self._target, self.conv_read, self.misc_read
        banks = target.pixel_parallel
        for i, save in enumerate((self.save0, self.save1)):
            number = save.bank_id[1:ceil_log2(target.image_banks)]      # among those of the channel
            conv_there = conv_read.en & (conv_read.group == save.bank_id[ceil_log2(banks):])
            misc_there = Array([
                misc_read.valid & (misc_read.group == n // banks) & misc_read.mask[n % banks]
                for n in range(i, target.image_banks, 2)])[number]
            bank_id = _when_answered(m, number, f"save{i}_bank")
            on_b = _when_answered(m, conv_there | misc_there, f"save{i}_on_b")
            m.d.comb += save.data.eq(choose(Cat(on_b, bank_id), _answers(image[i::2])))

    def _parameter_banks(self, m):
        """Build CONVW, DWCONVW, BIAS and SHIFT and connect them with their users."""
        target = self._target
        lanes = target.output_channel_parallel

        def parameter_bank(name, number):
            bank = (self._ultra_bank() if number < self._ultra_ram else
                    Bank(**self._size, second_port=False))
            m.submodules[name] = bank
            load, here = self._load_of(number)
            m.d.comb += [
                bank.b_write.eq(here), bank.b_addr.eq(load.addr), bank.b_wdata.eq(load.data),
            ]
            return bank

        # Weights in block RAM have no register: they are read later, to be there with those in
        # UltraRAM.
        reads = [(self.conv_read.en, self.conv_read.weight_addr)]
        for n in range(latency.BANK_READ - 1 + self._weights_late):
            later_en = Signal(name=f"weight_en_{n}")
            later_addr = Signal.like(reads[-1][1], name=f"weight_addr_{n}", reset_less=True)
            m.d.sync += [later_en.eq(reads[-1][0]), later_addr.eq(reads[-1][1])]
            reads.append((later_en, later_addr))
        for lane in range(lanes):
            number = target.convw_base + lane
            bank = parameter_bank(f"convw{lane}", number)
            en, addr = reads[self._weights_late] if number < self._ultra_ram else reads[-1]
            m.d.comb += [
                bank.a_en.eq(en), bank.a_addr.eq(addr),
                self.conv_read.weights[lane].eq(bank.a_data),
            ]
        bank = parameter_bank("dwconvw", target.dwconvw_bank)
        m.d.comb += [
            self.misc_weights.ready.eq(1), bank.a_en.eq(self.misc_weights.valid),
            bank.a_addr.eq(self.misc_weights.addr), self.misc_weights.data.eq(bank.a_data),
        ]
        bank = parameter_bank("bias", target.bias_bank)
        conv, misc = self.conv_bias, self.misc_bias
        m.d.comb += [
            conv.ready.eq(1), misc.ready.eq(~conv.valid),
            bank.a_en.eq(conv.valid | misc.valid),
            bank.a_addr.eq(Mux(conv.valid, conv.addr, misc.addr)),
            conv.data.eq(bank.a_data), misc.data.eq(bank.a_data),
        ]
        if Extension.CHANNEL in target.extensions:
            shifts = parameter_bank("shift", target.shift_bank)
            m.d.comb += [
                shifts.a_en.eq(bank.a_en), shifts.a_addr.eq(bank.a_addr),
                conv.shifts.eq(shifts.a_data), misc.shifts.eq(shifts.a_data),
            ]

    @property
    def _size(self):
        """Words of a bank, and their bits."""
        return {"depth": self._target.bank_depth, "width": 8 * self._target.channel_parallel}

    def _ultra_bank(self):
        return UltraBank(**self._size, vendor=self._vendor)

    def _copies(self, m, copies, bank_id):
        """Give copies of a bank what LOAD writes to it."""
        load, here = self._load_of(bank_id)
        m.d.sync += copies.valid.eq(here)
        for name in ("addr", "data"):
            to = getattr(copies, name)
            m.d.sync += to.eq(getattr(load, name)[:len(to)])

    def _records(self, m):
        """Give copies of SCALE what is written, with its word decoded once for all."""
        load, here = self._load_of(self._target.scale_bank)
        m.d.sync += [
            self.records.words.eq(words_of(load.addr, here)),
            self.records.record.eq(record_of(load.addr)), self.records.data.eq(load.data),
        ]

    def _load_of(self, number):
        """Return the channel of LOAD that writes a bank, and whether it is about to."""
        load = (self.load0, self.load1)[number % 2]
        return load, load.valid & (load.bank_id[1:] == number // 2)


def _when_answered(m, value, name):
    """Return what a value was when the bank's answer that is there now was asked for."""
    for n in range(latency.BANK_READ):
        later = Signal(len(value), name=f"{name}_{n}", reset_less=True)
        m.d.sync += later.eq(value)
        value = later
    return value


def _answers(banks):
    """Return what port A and port B of every bank answer, in this order."""
    return [data for bank in banks for data in (bank.a_data, bank.b_data)]
