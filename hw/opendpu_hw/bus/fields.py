# SPDX-License-Identifier: Apache-2.0
"""Streams of named fields, each a signal of its own, and queues of them.

A payload struct is one wide signal, which simulators assemble and take apart every cycle; fields of
at most 64 bits cost them next to nothing.
"""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out, Signature

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
        put, get = Signal(range(self._depth)), Signal(range(self._depth))
        take, give = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(self.level != self._depth),
            self.o.valid.eq(self.level != 0),
            take.eq(self.i.valid & self.i.ready),
            give.eq(self.o.valid & self.o.ready),
        ]
        for number, names in enumerate(self._chunks()):
            width = sum(self._fields[n] for n in names)
            m.submodules[f"store_{number}"] = store = memory.Memory(
                shape=unsigned(width), depth=self._depth, init=[])
            writer, reader = store.write_port(), store.read_port(domain="comb")
            m.d.comb += [
                writer.addr.eq(put), writer.en.eq(take),
                writer.data.eq(Cat(getattr(self.i, n) for n in names)),
                reader.addr.eq(get),
                Cat(getattr(self.o, n) for n in names).eq(reader.data),
            ]
        with m.If(take):
            m.d.sync += put.eq(put + 1)
        with m.If(give):
            m.d.sync += get.eq(get + 1)
        m.d.sync += self.level.eq(self.level + take - give)
        with m.If(self.clear):
            m.d.sync += [put.eq(0), get.eq(0), self.level.eq(0)]
        return m
