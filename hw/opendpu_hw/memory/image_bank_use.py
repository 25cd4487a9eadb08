# SPDX-License-Identifier: Apache-2.0
"""Who uses an image bank in a cycle, and which of its ports."""

from amaranth.hdl import Cat, Mux, Signal

from opendpu_hw.datapath.multiplexer import Multiplexers, choose


class ImageBankUse:
    """Arbitration of one image bank's ports, see :class:`opendpu_hw.memory.banks.Banks`.

    Parameters
    ----------
    m : :class:`amaranth.hdl.Module`
        Gets the logic.
    number : :class:`int`
        The bank's id.
    conv_reads, conv_writes, misc_reads, misc_writes, load_writes, save_reads : value
        Who asks for it. ``conv_reads`` is of the whole group.

    Attributes
    ----------
    misc_write_refused, misc_read_refused, load_refused, save_refused : value
        Who asks in vain.
    """

    def __init__(self, m, number, *, conv_reads, conv_writes, misc_reads, misc_writes,
                 load_writes, save_reads):
        self._number = number

        def named(name, value):
            signal = Signal(name=f"{name}_{number}")
            m.d.comb += signal.eq(value)
            return signal

        self._conv_reads = conv_reads
        self._conv_writes = named("conv_write", conv_writes)
        self._misc_writes = named("misc_write", misc_writes)
        self._misc_reads = named("misc_read", misc_reads)
        self._load_writes = named("load", load_writes)
        self._save_reads = named("save", save_reads)
        self._computed = named("computed", self._conv_writes | self._misc_writes)
        self._write = named("write", self._computed | self._load_writes)
        self._misc_on_b = named("misc_on_b", self._misc_reads & conv_reads)
        # SAVE: port A unless CONV or MISC has it, else port B unless written or MISC's
        taken = named("taken", (conv_reads & (self._write | self._misc_on_b))
                      | (~conv_reads & self._misc_reads & self._write))

        self.misc_write_refused = self._conv_writes & self._misc_writes
        self.misc_read_refused = self._misc_reads & conv_reads & self._write
        self.load_refused = self._load_writes & self._computed
        self.save_refused = self._save_reads & taken

    def connect(self, m, bank, ports, b, load, save):
        """Give the bank what its users want of it.

        Parameters
        ----------
        bank : component
            The bank.
        ports : :class:`opendpu_hw.memory.banks.Banks`
            Ports of CONV and MISC, in which the bank has number ``b`` of its group.
        load, save : ``BankWrite``, ``BankRead``
            Channels of LOAD and SAVE that the bank belongs to.
        """
        conv_read, conv_write = ports.conv_read, ports.conv_write
        misc_read, misc_write = ports.misc_read, ports.misc_write
        write, misc_on_b = self._write, self._misc_on_b
        save_on_b = self._conv_reads | self._misc_reads
        # Which of three sources a port has, in two bits: a LUT a bit of address or data.
        # Who writes counts as one of those that use port B.
        writer = Cat(~self._conv_writes, ~self._computed)
        a_reader = Cat(~self._conv_reads, ~save_on_b)
        b_user = Cat(~write & misc_on_b, ~write & ~misc_on_b)

        word = self._written_word(m, ports, b, load)
        written = self._address(
            m, writer, "written", conv_write.addr[b], misc_write.addr[b], load.addr)
        m.d.comb += [
            bank.a_en.eq(save_on_b | self._save_reads),
            bank.a_addr.eq(self._address(
                m, a_reader, "read_on_a", conv_read.addr[b], misc_read.addr[b], save.addr)),
            bank.b_write.eq(self._conv_writes | (self._misc_writes & misc_write.ready)
                            | (self._load_writes & ~self._computed)),
            bank.b_en.eq(misc_on_b | (self._save_reads & save_on_b)),
            bank.b_wdata.eq(word),
            bank.b_addr.eq(self._address(
                m, b_user, "on_b", written, misc_read.addr[b], save.addr)),
        ]

    def _written_word(self, m, ports, b, load):
        """Return the word of whoever writes."""
        conv_write, misc_write = ports.conv_write, ports.misc_write
        m.submodules[f"word{self._number}"] = word = Multiplexers(
            width=len(load.data), ways=[range(4)])
        banks = len(conv_write.mask)
        far = conv_write.data[(b + banks // 2) % banks]
        m.d.comb += [
            word.index.eq(
                Cat(Mux(self._conv_writes, conv_write.far[b], ~self._misc_writes),
                    ~self._conv_writes)),
            *(i.eq(value) for i, value in zip(
                word.i, (conv_write.data[b], far, misc_write.data[b], load.data), strict=True)),
        ]
        return word.o[0]

    def _address(self, m, which, name, *addresses):
        """Return the address that ``which`` chooses; two bits for up to three."""
        chosen = Signal(len(addresses[0]), name=f"{name}_{self._number}")
        select = Signal(2, name=f"{name}_{self._number}_of")
        m.d.comb += [select.eq(which), chosen.eq(choose(select, addresses))]
        return chosen
