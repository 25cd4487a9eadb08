# SPDX-License-Identifier: Apache-2.0
"""Copies of SCALE (extension ``scaled``): a channel's parts of all records, and what is common."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import ceil_log2

from opendpu_arch import scaled

_WORD_BITS = ceil_log2(scaled.RECORD_STRIDE)
_SHIFT_BITS = ceil_log2(scaled.MAX_SHIFT + 1)

#: What a record has for one channel.
CHANNEL_SHAPE = data.StructLayout({
    "bias": data.ArrayLayout(unsigned(8), 4), "multiplier": data.ArrayLayout(unsigned(8), 4)})


#: What a record has for all channels.
COMMON_SHAPE = data.StructLayout({"zero": 8, "low": 8, "high": 8, "once": 1})


def shifts_shape(target):
    """Return the layout of the shifts of a record's channels."""
    return data.ArrayLayout(unsigned(_SHIFT_BITS), target.channel_parallel)


def record_bits(target):
    """Return the width of a record's number."""
    return ceil_log2(scaled.records(target.bank_depth))


class RecordWrite(Signature):
    """One word a cycle into every copy, never refused.

    ``words`` says which of a record's it is, a bit each; none is high where nothing is written.
    """

    def __init__(self, target):
        super().__init__({
            "words": Out(scaled.RECORD_WORDS), "record": Out(record_bits(target)),
            "data": Out(8 * target.channel_parallel)})


def words_of(addr, valid):
    """Return which word of a record is written, a bit each."""
    return Cat(valid & (addr[:_WORD_BITS] == n) for n in range(scaled.RECORD_WORDS))


def record_of(addr):
    """Return the number of the record of a word."""
    return addr[_WORD_BITS:]


class ChannelRam(wiring.Component):
    """Biases and multipliers of one channel.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives the number of records.
    lane : :class:`int`
        The channel's byte of a word.

    Members
    -------
    write : ``In(RecordWrite)``
        A word that is written appears to reads from the next cycle on.
    en, record : ``In(1)``, ``In``
        Read a record.
    channel : ``Out(CHANNEL_SHAPE)``
        It, one cycle later, until the next read.
    """

    def __init__(self, target, lane):
        self._target, self._lane = target, lane
        super().__init__({
            "write": In(RecordWrite(target)), "en": In(1), "record": In(record_bits(target)),
            "channel": Out(CHANNEL_SHAPE)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = Memory(
            shape=unsigned(CHANNEL_SHAPE.size), depth=1 << record_bits(self._target), init=[])
        read = ram.read_port()
        write = ram.write_port(granularity=8)
        byte = self.write.data.word_select(self._lane, 8)
        m.d.comb += [
            read.en.eq(self.en), read.addr.eq(self.record),
            self.channel.as_value().eq(read.data),
            write.addr.eq(self.write.record),
            write.data.eq(byte.replicate(CHANNEL_SHAPE.size // 8)),
            write.en.eq(self.write.words[:CHANNEL_SHAPE.size // 8]),
        ]
        return m


class CommonRam(wiring.Component):
    """What all channels of a record have in common, and their shifts: one block RAM for both.

    They are words of their own there, read one after the other.

    Members
    -------
    write, record : as :class:`ChannelRam` has them
    en : ``In(1)``
        Read a record; not in the next cycle again.
    common : ``Out(COMMON_SHAPE)``
        Its common part, one cycle later, for a cycle.
    shifts : ``Out(shifts_shape)``
        Its shifts, two cycles later, for a cycle.
    """

    def __init__(self, target):
        self._target = target
        super().__init__({
            "write": In(RecordWrite(target)), "en": In(1), "record": In(record_bits(target)),
            "common": Out(COMMON_SHAPE), "shifts": Out(shifts_shape(target))})

    def elaborate(self, platform):
        m = Module()
        lanes = self._target.channel_parallel
        # Of a lane's byte what either word needs: no multiplexer.
        widths = [8 if n < scaled.COMMON_BYTES - 1 else _SHIFT_BITS for n in range(lanes)]
        m.submodules.ram = ram = Memory(
            shape=unsigned(sum(widths)), depth=2 << record_bits(self._target), init=[])
        read = ram.read_port()
        write = ram.write_port()
        then = Signal()
        record = Signal.like(self.record, reset_less=True)
        m.d.sync += [then.eq(self.en), record.eq(self.record)]
        words = [self.write.words[n] for n in (scaled.SHIFT_WORD, scaled.COMMON_WORD)]
        m.d.comb += [
            read.en.eq(self.en | then),
            read.addr.eq(Cat(self.en, Mux(self.en, self.record, record))),
            write.en.eq(Cat(words).any()), write.addr.eq(Cat(words[1], self.write.record)),
            write.data.eq(Cat(self.write.data.word_select(n, 8)[:width]
                              for n, width in enumerate(widths))),
        ]
        starts = [sum(widths[:n]) for n in range(lanes)]
        m.d.comb += [
            self.common.as_value().eq(Cat(read.data[:starts[3]], read.data[starts[3]])),
            self.shifts.as_value().eq(Cat(read.data[at:at + _SHIFT_BITS] for at in starts)),
        ]
        return m
