# SPDX-License-Identifier: Apache-2.0
"""The largest of a pixel's bytes, and where it is."""

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out


def word_shape(lanes, info):
    """``count`` signed bytes of a pixel; ``first`` and ``last`` word of it; ``info`` goes along."""
    return data.StructLayout({
        "data": 8 * lanes, "count": range(lanes + 1), "first": 1, "last": 1, "info": info})


class Argmax(wiring.Component):
    """Find the largest signed byte of every pixel, the first of equal ones.

    Takes a word a cycle. A pixel's result is valid :attr:`LATENCY` cycles after its last word.

    Parameters
    ----------
    lanes : :class:`int`
        Bytes of a word.
    info : shape
        What is passed from a pixel's last word to its result.

    Members
    -------
    i : ``In(stream.Signature(word_shape(lanes, info)))``
        Words.
    o : ``Out(stream)``
        ``index`` (modulo 256), ``value`` and ``info`` of a pixel.
    busy : ``Out(1)``
        A word or a result is inside.
    clear : ``In(1)``
        Forget everything.
    """

    LATENCY = 2

    def __init__(self, *, lanes, info):
        self._lanes = lanes
        super().__init__({
            "i": In(stream.Signature(word_shape(lanes, info))),
            "o": Out(stream.Signature(data.StructLayout(
                {"index": 8, "value": signed(8), "info": info}))),
            "busy": Out(1), "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        word = self.i.payload
        advance = Signal()
        m.d.comb += [advance.eq(~self.o.valid | self.o.ready), self.i.ready.eq(advance)]

        # Stage 1: the best of the word. A byte past the count loses against byte 0, which exists.
        found = []
        for i in range(self._lanes):
            value = word.data[8 * i:8 * i + 8].as_signed()
            found.append((Mux(word.count > i, value, Const(-128, signed(8))), Const(i, 4)))
        level = 0
        while len(found) > 1:
            pairs = []
            for i in range(0, len(found) - 1, 2):
                (value_a, index_a), (value_b, index_b) = found[i:i + 2]
                value = Signal(signed(8), name=f"value_{level}_{i}")
                index = Signal(4, name=f"index_{level}_{i}")
                second = Signal(name=f"second_{level}_{i}")
                m.d.comb += [
                    second.eq(value_b > value_a),
                    value.eq(Mux(second, value_b, value_a)),
                    index.eq(Mux(second, index_b, index_a)),
                ]
                pairs.append((value, index))
            found = pairs + found[len(pairs) * 2:]
            level += 1
        (value, index), = found
        valid = Signal()
        m.d.comb += self.busy.eq(valid | self.o.valid)
        info = word.shape()["info"].shape
        stage = Signal(data.StructLayout(
            {"value": signed(8), "index": 8, "first": 1, "last": 1, "info": info}))
        base = Signal(8)                    # index of the next word's first byte in its pixel
        this_base = Signal(8)
        m.d.comb += this_base.eq(Mux(word.first, 0, base))
        with m.If(advance):
            m.d.sync += valid.eq(self.i.valid)
            with m.If(self.i.valid):
                m.d.sync += [
                    stage.value.eq(value), stage.index.eq(this_base + index),
                    stage.first.eq(word.first), stage.last.eq(word.last), stage.info.eq(word.info),
                    base.eq(this_base + self._lanes),
                ]

        # Stage 2: the best of the pixel so far, in the output register.
        with m.If(advance):
            m.d.sync += self.o.valid.eq(valid & stage.last)
            with m.If(valid):
                with m.If(stage.first | (stage.value > self.o.payload.value)):
                    m.d.sync += [
                        self.o.payload.value.eq(stage.value), self.o.payload.index.eq(stage.index)]
                m.d.sync += self.o.payload.info.eq(stage.info)
        with m.If(self.clear):
            m.d.sync += [valid.eq(0), self.o.valid.eq(0)]
        return m
