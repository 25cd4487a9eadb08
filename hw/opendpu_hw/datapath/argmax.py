# SPDX-License-Identifier: Apache-2.0
"""The largest of a pixel's bytes, and where it is."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.bus.fields import FieldStream


def word_fields(lanes, info):
    """``count`` signed bytes of a pixel; ``first`` and ``last`` word of it; ``info`` goes along."""
    return {"data": 8 * lanes, "count": 5, "first": 1, "last": 1, "info": info}


def result_fields(info):
    """``index``, modulo 256, and ``value`` of the largest byte of a pixel."""
    return {"index": 8, "value": 8, "info": info}


class Argmax(wiring.Component):
    """Find the largest signed byte of every pixel, the first of equal ones.

    Takes a word a cycle. A pixel's result is valid :attr:`LATENCY` cycles after its last word.

    Parameters
    ----------
    lanes : :class:`int`
        Bytes of a word.
    info : :class:`int`
        Width of what is passed from a pixel's last word to its result.

    Members
    -------
    i : ``In(FieldStream(word_fields(lanes, info)))``
        Words.
    o : ``Out(FieldStream(result_fields(info)))``
        A pixel's result.
    busy : ``Out(1)``
        A word or a result is inside.
    clear : ``In(1)``
        Forget everything.
    """

    LATENCY = 2

    def __init__(self, *, lanes, info):
        self._lanes = lanes
        super().__init__({
            "i": In(FieldStream(word_fields(lanes, info))),
            "o": Out(FieldStream(result_fields(info))),
            "busy": Out(1), "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        word = self.i
        advance = Signal()
        m.d.comb += [advance.eq(~self.o.valid | self.o.ready), self.i.ready.eq(advance)]

        # Stage 1: the best of the word. Keys order by value, then lowest index: the value with its
        # sign turned, above the index turned. Key 0 stands for bytes past the count.
        keys = []
        for i in range(self._lanes):
            key = Signal(12, name=f"key_{i}")
            value = word.data[8 * i:8 * i + 8] ^ 0x80
            m.d.comb += key.eq(Mux(word.count > i, Cat(Const(15 - i, 4), value), 0))
            keys.append(key)
        level = 0
        while len(keys) > 1:
            pairs = []
            for i in range(0, len(keys) - 1, 2):
                key = Signal(12, name=f"key_{level}_{i}")
                m.d.comb += key.eq(Mux(keys[i] > keys[i + 1], keys[i], keys[i + 1]))
                pairs.append(key)
            keys = pairs + keys[len(pairs) * 2:]
            level += 1
        valid = Signal()
        m.d.comb += self.busy.eq(valid | self.o.valid)
        stage_value = Signal(8)             # sign turned
        stage_place = Signal(4)             # in its word
        stage_base = Signal(8)
        stage_first = Signal()
        stage_last = Signal()
        stage_info = Signal.like(word.info)
        base = Signal(8)                    # index of the next word's first byte in its pixel
        this_base = Signal(8)
        m.d.comb += this_base.eq(Mux(word.first, 0, base))
        with m.If(advance):
            m.d.sync += valid.eq(self.i.valid)
            with m.If(self.i.valid):
                m.d.sync += [
                    stage_value.eq(keys[0][4:]), stage_place.eq((~keys[0])[:4]),
                    stage_base.eq(this_base),
                    stage_first.eq(word.first), stage_last.eq(word.last), stage_info.eq(word.info),
                    base.eq(this_base + self._lanes),
                ]

        # Stage 2: the best of the pixel so far, in the output register.
        best = Signal(8)
        m.d.comb += self.o.value.eq(best ^ 0x80)
        with m.If(advance):
            m.d.sync += self.o.valid.eq(valid & stage_last)
            with m.If(valid):
                with m.If(stage_first | (stage_value > best)):
                    m.d.sync += [best.eq(stage_value), self.o.index.eq(stage_base + stage_place)]
                m.d.sync += self.o.info.eq(stage_info)
        with m.If(self.clear):
            m.d.sync += [valid.eq(0), self.o.valid.eq(0)]
        return m
