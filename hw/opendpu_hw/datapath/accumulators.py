# SPDX-License-Identifier: Apache-2.0
"""Sums of one output channel in plain multiplications, quick to simulate."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from opendpu_arch import latency

#: Width of a sum of products.
SUM_WIDTH = 31


def sum_members(target, *, operands=None):
    """Return the members of what sums up one output channel, portable or made of DSP blocks.

    There are as many rows of ``operands`` as pixels, if nothing else is said.
    """
    pixels, inputs = target.pixel_parallel, target.input_channel_parallel
    return {
        "x": In(signed(8)).array(operands or pixels, inputs), "w": In(signed(8)).array(inputs),
        "step": In(1), "first": In(1), "complete": In(1), "take": In(1),
        "sum": Out(signed(SUM_WIDTH)).array(pixels),
    }


class Accumulators(wiring.Component):
    """PP dot products of ICP elements a step, and their sums over steps.

    A sum is complete a few cycles after the operands of its last step and then waits: it comes out
    when a cascade of DSP blocks would have it, so that all forms of the array keep the same time.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP and ICP.
    registered : :class:`bool`
        Whether each product has a register. What comes out, and when, does not depend on it.

    Members
    -------
    x : ``In(signed(8)).array(PP, ICP)``
        Inputs, a row a pixel; held while no step is made. One signal an element, not a vector:
        simulators turn that into vector instructions.
    w : ``In(signed(8)).array(ICP)``
        Weights.
    step, first : ``In(1)``
        The operands are a step's; it starts a new sum.
    complete : ``In(1)``
        The cycle after a column's last step.
    take : ``In(1)``
        :func:`opendpu_arch.latency.conv_sum` cycles after that step.
    sum : ``Out(signed(SUM_WIDTH)).array(PP)``
        With ``take`` the sums of the even pixels, in the cycle after that those of the odd ones.
    """

    def __init__(self, target, *, registered=False):
        self._target, self._registered = target, registered
        super().__init__(sum_members(target))

    def elaborate(self, platform):
        m = Module()
        pixels, inputs = self._target.pixel_parallel, self._target.input_channel_parallel
        depth = 1 << ((latency.conv_sum(self._target) + 1) // 2).bit_length()
        put = Signal(range(depth))
        get = Signal(range(depth))
        step, first, ended = self.step, self.first, self.complete
        if self._registered:        # sums of products come a cycle later
            step = Signal()
            first = Signal()
            ended = Signal()
            m.d.sync += [step.eq(self.step), first.eq(self.first), ended.eq(self.complete)]
        add = Signal()
        anew = Signal()
        complete = Signal()
        m.d.sync += [add.eq(step), anew.eq(first), complete.eq(ended)]
        with m.If(complete):
            m.d.sync += put.eq(put + 1)
        second = Signal()
        m.d.sync += second.eq(self.take)
        with m.If(second):
            m.d.sync += get.eq(get + 1)
        for p in range(pixels):
            terms = [self.x[p][i] * self.w[i] for i in range(inputs)]
            if self._registered:
                products = [Signal(signed(16), name=f"product{p}_{i}", reset_less=True)
                            for i in range(inputs)]
                m.d.sync += [product.eq(term)
                             for product, term in zip(products, terms, strict=True)]
                terms = products
            while len(terms) > 1:
                pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)]
                terms = pairs + terms[len(pairs) * 2:]
            # 32 bits, though one is not needed: simulators then have nothing to mask.
            dot = Signal(signed(32), name=f"dot{p}", reset_less=True)
            acc = Signal(signed(32), name=f"acc{p}", reset_less=True)
            with m.If(step):
                m.d.sync += dot.eq(terms[0])
            with m.If(add):
                m.d.sync += acc.eq(Mux(anew, 0, acc) + dot)
            memory = Memory(shape=signed(SUM_WIDTH), depth=depth, init=[])
            m.submodules[f"waiting{p}"] = memory
            write = memory.write_port()
            read = memory.read_port(domain="comb")
            m.d.comb += [write.en.eq(complete), write.addr.eq(put), write.data.eq(acc),
                         read.addr.eq(get), self.sum[p].eq(read.data)]
        return m
