# SPDX-License-Identifier: Apache-2.0
"""Selection of values by a number, without a decoder."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2


def choose(index, values):
    """Return the value at ``index``, two at a time: multiplexers of LUTs.

    Parameters
    ----------
    index : value
        Its lowest bits choose first. Bits beyond those that the values need do not count.
    values : sequence of values
        As many as there are; beyond them the last one comes again, or one before it.
    """
    for bit in index:
        values = [Mux(bit, *pair[::-1]) if len(pair) == 2 else pair[0]
                  for pair in (values[n:n + 2] for n in range(0, len(values), 2))]
    return values[0]


class Multiplexers(wiring.Component):
    """Values chosen by the same number from inputs that they have in common.

    Up to four ways are one LUT of six inputs a bit. Synthesis finds that in a module that has
    nothing else; among other logic it shares halves of neighbours in LUTs of three, and takes two
    of them.

    Parameters
    ----------
    width : :class:`int`
        Of an input.
    ways : sequence of sequences of int
        For each output, the inputs it may have.

    Members
    -------
    i : ``In(width).array(inputs)``
        Inputs.
    index : ``In``
        Which of its inputs every output has.
    o : ``Out(width).array(outputs)``
        Outputs.
    """

    def __init__(self, *, width, ways):
        self._ways = ways
        super().__init__({
            "i": In(width).array(1 + max(max(inputs) for inputs in ways)),
            "index": In(ceil_log2(max(len(inputs) for inputs in ways))),
            "o": Out(width).array(len(ways)),
        })

    def elaborate(self, platform):
        m = Module()
        for n, inputs in enumerate(self._ways):
            m.d.comb += self.o[n].eq(choose(self.index, [self.i[k] for k in inputs]))
        return m
