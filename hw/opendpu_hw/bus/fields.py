# SPDX-License-Identifier: Apache-2.0
"""Streams of named fields, each a signal of its own, and queues of them.

A payload struct is one wide signal, which simulators assemble and take apart every cycle; fields of
at most 64 bits cost them next to nothing.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out, Signature

from opendpu_hw.bus.level import next_level

#: Fields are stored together up to this width.
_CHUNK = 64


class FieldStream(Signature):
    """A stream whose payload members are beside ``valid`` and ``ready``.

    Parameters
    ----------
    fields : dict of name to width
        The payload.
    """

    def __init__(self, fields):
        self.fields = dict(fields)
        super().__init__(
            {"valid": Out(1), "ready": In(1), **{n: Out(w) for n, w in self.fields.items()}})


class FieldSkid(wiring.Component):
    """A register whose ``i.ready`` does not depend on ``o.ready``: a second one takes what comes.

    Parameters
    ----------
    fields : dict of name to width
        What an entry has.

    Members
    -------
    i, o : ``In(FieldStream(fields))``, ``Out(FieldStream(fields))``
        An entry is at ``o`` the cycle after it was at ``i``, at the earliest. All of ``o`` and
        ``i.ready`` are registers.
    clear : ``In(1)``
        Forget everything.
    """

    def __init__(self, fields):
        self._fields = dict(fields)
        super().__init__({
            "i": In(FieldStream(fields)), "o": Out(FieldStream(fields)), "clear": In(1)})

    def elaborate(self, platform):
        m = Module()
        waits = Signal()
        free = Signal()
        m.d.comb += [free.eq(~self.o.valid | self.o.ready), self.i.ready.eq(~waits)]
        with m.If(free):
            m.d.sync += [self.o.valid.eq(waits | self.i.valid), waits.eq(0)]
        with m.Elif(self.i.valid):
            m.d.sync += waits.eq(1)
        for name, width in self._fields.items():
            spare = Signal(width, name=f"spare_{name}", reset_less=True)
            with m.If(free):
                m.d.sync += getattr(self.o, name).eq(Mux(waits, spare, getattr(self.i, name)))
            with m.If(~waits):
                m.d.sync += spare.eq(getattr(self.i, name))
        with m.If(self.clear):
            m.d.sync += [self.o.valid.eq(0), waits.eq(0)]
        return m


class FieldQueue(wiring.Component):
    """A first-in first-out queue.

    Parameters
    ----------
    fields : dict of name to width
        What an entry has.
    depth : :class:`int`
        Most entries, a power of two.

    Members
    -------
    i, o : ``In(FieldStream(fields))``, ``Out(FieldStream(fields))``
        An entry is at ``o`` one cycle after it was at ``i``, at the earliest.
    level : ``Out(range(depth + 1))``
        Entries.
    clear : ``In(1)``
        Forget everything.
    """

    def __init__(self, fields, *, depth):
        self._fields = dict(fields)
        self._depth = depth
        super().__init__({
            "i": In(FieldStream(fields)), "o": Out(FieldStream(fields)),
            "level": Out(range(depth + 1)), "clear": In(1)})

    def _chunks(self):
        """Names of the fields that are stored together."""
        chunks, width = [], _CHUNK
        for name, bits in self._fields.items():
            if width + bits > _CHUNK:
                chunks.append([])
                width = 0
            chunks[-1].append(name)
            width += bits
        return chunks

    def elaborate(self, platform):
        if self._depth < 2 or self._depth & (self._depth - 1):
            raise ValueError(f"depth is {self._depth}, but must be a power of two above 1")
        m = Module()
        put = Signal(range(self._depth))
        get = Signal(range(self._depth))
        take = Signal()
        give = Signal()
        m.d.comb += [
            self.i.ready.eq(~self.level[-1]),       # the depth is a power of two
            take.eq(self.i.valid & self.i.ready),
            give.eq(self.o.valid & self.o.ready),
        ]
        for number, names in enumerate(self._chunks()):
            width = sum(self._fields[n] for n in names)
            store = memory.Memory(shape=unsigned(width), depth=self._depth, init=[])
            m.submodules[f"store_{number}"] = store
            writer = store.write_port()
            reader = store.read_port(domain="comb")
            m.d.comb += [
                # While there is room, taken or not: whether an entry comes is known late.
                writer.addr.eq(put), writer.en.eq(self.i.ready),
                writer.data.eq(Cat(getattr(self.i, n) for n in names)),
                reader.addr.eq(get),
                Cat(getattr(self.o, n) for n in names).eq(reader.data),
            ]
        with m.If(take):
            m.d.sync += put.eq(put + 1)
        with m.If(give):
            m.d.sync += get.eq(get + 1)
        # What is there next is a function of as few signals as its level is: ``valid`` a register.
        m.d.sync += [
            self.level.eq(next_level(self.level, take, give)),
            self.o.valid.eq(take | self.level[1:].any() | (self.level[0] & ~give)),
        ]
        with m.If(self.clear):
            m.d.sync += [put.eq(0), get.eq(0), self.level.eq(0), self.o.valid.eq(0)]
        return m
