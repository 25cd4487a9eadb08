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
        target = self._target
        banks, groups = target.pixel_parallel, target.bank_groups
        conv_read, conv_write = self.conv_read, self.conv_write
        misc_read, misc_write = self.misc_read, self.misc_write
        saves = (self.save0, self.save1)

        write_clash, read_clash = [], []        # banks that refuse MISC
        load_clash, save_clash = ([], []), ([], [])
        image = []
        for g in range(groups):
            conv_reads = Signal(name=f"conv_reads{g}")
            misc_reads, misc_writes = Signal(name=f"misc_reads{g}"), Signal(name=f"misc_writes{g}")
            conv_writes = Signal(name=f"conv_writes{g}")
            m.d.comb += [
                conv_reads.eq(conv_read.en & (conv_read.group == g)),
                misc_reads.eq(misc_read.valid & (misc_read.group == g)),
                misc_writes.eq(misc_write.valid & (misc_write.group == g)),
                conv_writes.eq(conv_write.group == g),
            ]
            for b in range(banks):
                number = g * banks + b
                bank = (self._ultra_bank() if number < self._ultra_ram else
                        Bank(**self._size, registered=latency.BANK_READ > 1, vendor=self._vendor))
                m.submodules[f"image{number}"] = bank
                image.append(bank)

                def request(value, name, number=number):
                    signal = Signal(name=f"{name}_{number}")
                    m.d.comb += signal.eq(value)
                    return signal

                c_write = request(conv_writes & conv_write.mask[b], "conv_write")
                m_write = request(misc_writes & misc_write.mask[b], "misc_write")
                m_read = request(misc_reads & misc_read.mask[b], "misc_read")
                load, loads_here = self._load_of(number)
                l_write = request(loads_here, "load")
                save = saves[number % 2]
                s_read = request(save.valid & (save.bank_id[1:] == number // 2), "save")
                computed = request(c_write | m_write, "computed")
                write = request(computed | l_write, "write")

                write_clash.append(c_write & m_write)
                read_clash.append(m_read & conv_reads & write)
                load_clash[number % 2].append(l_write & computed)
                # SAVE: port A unless CONV or MISC has it, else port B unless written or MISC's
                m_on_b = request(m_read & conv_reads, "misc_on_b")
                taken = request((conv_reads & (write | m_on_b)) | (~conv_reads & m_read & write),
                                "taken")
                save_clash[number % 2].append(s_read & taken)

                s_on_b = conv_reads | m_read
                # Which of three sources a port has, in two bits: a LUT a bit of address or data.
                # Who writes counts as one of those that use port B.
                writer = Cat(~c_write, ~computed)
                a_reader = Cat(~conv_reads, ~s_on_b)
                b_user = Cat(~write & m_on_b, ~write & ~m_on_b)

                def request_of(which, name, width, *values):
                    chosen, select = Signal(width, name=name), Signal(2, name=f"{name}_of")
                    m.d.comb += [select.eq(which), chosen.eq(choose(select, values))]
                    return chosen

                m.submodules[f"word{number}"] = word = Multiplexers(
                    width=len(bank.b_wdata), ways=[range(4)])
                far = conv_write.data[(b + banks // 2) % banks]
                m.d.comb += [
                    word.index.eq(Cat(Mux(c_write, conv_write.far[b], ~m_write), ~c_write)),
                    *(i.eq(value) for i, value in zip(
                        word.i, (conv_write.data[b], far, misc_write.data[b], load.data),
                        strict=True)),
                ]
                a = len(bank.a_addr)
                written = request_of(
                    writer, f"written_{number}", a, conv_write.addr[b], misc_write.addr[b],
                    load.addr)
                m.d.comb += [
                    bank.a_en.eq(s_on_b | s_read),
                    bank.a_addr.eq(request_of(
                        a_reader, f"read_on_a_{number}", a, conv_read.addr[b], misc_read.addr[b],
                        save.addr)),
                    bank.b_write.eq(c_write | (m_write & misc_write.ready)
                                    | (l_write & ~computed)),
                    bank.b_en.eq(m_on_b | (s_read & s_on_b)),
                    bank.b_wdata.eq(word.o[0]),
                    bank.b_addr.eq(request_of(
                        b_user, f"on_b_{number}", a, written, misc_read.addr[b], save.addr)),
                ]

        m.d.comb += [
            misc_write.ready.eq(~Cat(write_clash).any()),
            misc_read.ready.eq(~Cat(read_clash).any()),
            *(port.ready.eq(~Cat(clash).any()) for port, clash in zip(
                (self.load0, self.load1, *saves), (*load_clash, *save_clash), strict=True)),
        ]

        # -- data back to the readers -------------------------------------------------------------
        def when_answered(value, name):
            for n in range(latency.BANK_READ):
                later = Signal(len(value), name=f"{name}_{n}", reset_less=True)
                m.d.sync += later.eq(value)
                value = later
            return value

        conv_group = when_answered(conv_read.group, "conv_group")
        conv_turn = when_answered(conv_read.turn, "conv_turn")
        misc_group = when_answered(misc_read.group, "misc_group")
        misc_on_b = when_answered(
            conv_read.en & (conv_read.group == misc_read.group), "misc_on_b")
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
        for i, save in enumerate(saves):
            number = save.bank_id[1:ceil_log2(target.image_banks)]      # among those of the channel
            conv_there = conv_read.en & (conv_read.group == save.bank_id[ceil_log2(banks):])
            misc_there = Array([
                misc_read.valid & (misc_read.group == n // banks) & misc_read.mask[n % banks]
                for n in range(i, target.image_banks, 2)])[number]
            bank_id = when_answered(number, f"save{i}_bank")
            on_b = when_answered(conv_there | misc_there, f"save{i}_on_b")
            m.d.comb += save.data.eq(choose(Cat(on_b, bank_id), _answers(image[i::2])))

    def _parameter_banks(self, m):
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


def _answers(banks):
    """Return what port A and port B of every bank answer, in this order."""
    return [data for bank in banks for data in (bank.a_data, bank.b_data)]
