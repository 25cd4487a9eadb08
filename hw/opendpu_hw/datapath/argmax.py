# SPDX-License-Identifier: Apache-2.0
"""The largest of a pixel's bytes, and where it is."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.bus.fields import FieldStream

#: Width of a byte's place in its word.
_PLACE = 4


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

    def takes(self, ready):
        """Return ``i.ready`` if ``o.ready`` is ``ready``: an expression of registers besides."""
        return ~self.o.valid | ready

    def elaborate(self, platform):
        m = Module()
        word = self.i
        advance = Signal()
        m.d.comb += [advance.eq(self.takes(self.o.ready)), self.i.ready.eq(advance)]

        # Stage 1: the best of each half of the word: value, place, whether it is there. Bytes past
        # the count are the last ones, so of equal ones the first is always there.
        bests = [(word.data[8 * i:8 * i + 8].as_signed(), Const(i, _PLACE), word.count > i)
                 for i in range(self._lanes)]
        while len(bests) > 2:
            bests = _halve(m, bests)
        valid = Signal()
        m.d.comb += self.busy.eq(valid | self.o.valid)
        halves = [
            (Signal(signed(8), name=f"half_{i}_value"), Signal(_PLACE, name=f"half_{i}_place"),
             Signal(name=f"half_{i}_there")) for i in range(len(bests))]
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
                    *(Cat(*kept).eq(Cat(*best))
                      for kept, best in zip(halves, bests, strict=True)),
                    stage_base.eq(this_base),
                    stage_first.eq(word.first), stage_last.eq(word.last), stage_info.eq(word.info),
                    base.eq(this_base + self._lanes),
                ]

        # Stage 2: the best of the word; the best of the pixel so far, in the output register.
        # Both halves are compared with that at once.
        best = Signal(signed(8))
        words = [(*half, half[0] > best) for half in halves]
        (value, place, _, above), = _halve(m, words) if len(words) == 2 else words
        m.d.comb += self.o.value.eq(best)
        with m.If(advance):
            m.d.sync += self.o.valid.eq(valid & stage_last)
            with m.If(valid):
                with m.If(stage_first | above):
                    m.d.sync += [best.eq(value), self.o.index.eq(stage_base + place)]
                m.d.sync += self.o.info.eq(stage_info)
        with m.If(self.clear):
            m.d.sync += [valid.eq(0), self.o.valid.eq(0)]
        return m


def _halve(m, bests):
    """Return the better of each two (value, place, whether it is there), the first of equals.

    What else they have is that of the better one.
    """
    pairs = []
    for i in range(0, len(bests) - 1, 2):
        (value_0, place_0, there_0, *more_0), (value_1, place_1, there_1, *more_1) = bests[i:i + 2]
        later = Signal()
        value = Signal(signed(8))
        place = Signal(_PLACE)
        m.d.comb += [
            later.eq((value_1 > value_0) & there_1), value.eq(Mux(later, value_1, value_0)),
            place.eq(Mux(later, place_1, place_0)),
        ]
        more = (Mux(later, one, other) for one, other in zip(more_1, more_0, strict=True))
        pairs.append((value, place, there_0, *more))
    return pairs + bests[2 * len(pairs):]
