# SPDX-License-Identifier: Apache-2.0
"""One output channel of the convolution array: PP dot products, accumulators, requantization."""

from amaranth.hdl import Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_hw.datapath.requantize import (
    ACC_WIDTH,
    SCALED_WIDTH,
    SHIFT_WIDTH,
    activate,
    scale,
    with_bias,
)


class Lane(wiring.Component):
    """PP pixels of one output channel.

    A step takes the PP × ICP inputs ``x`` and the ICP weights ``w`` in the cycle ``step`` is high.
    ``first`` starts a new sum, the sum is complete in ``acc`` the cycle after the last step; there
    ``capture`` adds the bias; the cycle after, ``shift`` scales and rounds; the cycle after that,
    ``finish`` applies the activation and saturates into ``y``.

    Equal to :func:`opendpu_arch.numerics.conv_requantize` while the sum fits 31 bits, which every
    kernel that fits the weight banks does.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        Gives PP and ICP.

    Members
    -------
    x : ``In(signed(8)).array(PP, ICP)``
        Inputs, a row a pixel; held while no step is made. One signal an element, not a vector:
        simulators turn that into vector instructions.
    w : ``In(signed(8)).array(ICP)``
        Weights.
    step, first, capture, shift, finish : ``In(1)``
        The stages, see above.
    bias, shift_bias : ``In(signed(8))``, ``In(6)``
        Valid with ``capture``.
    shift_cut, shift_act : ``In(6)``, ``In(4)``
        Valid with ``shift``.
    act : ``In(4)``
        Valid with ``finish``.
    y : ``Out(signed(8)).array(PP)``
        Results, held until the next ``finish``.
    """

    def __init__(self, target):
        self._pixels = target.pixel_parallel
        self._inputs = target.input_channel_parallel
        super().__init__({
            "x": In(signed(8)).array(self._pixels, self._inputs),
            "w": In(signed(8)).array(self._inputs),
            "step": In(1), "first": In(1), "capture": In(1), "shift": In(1),
            "finish": In(1),
            "bias": In(signed(8)), "shift_bias": In(SHIFT_WIDTH),
            "shift_cut": In(SHIFT_WIDTH), "shift_act": In(unsigned(4)), "act": In(unsigned(4)),
            "y": Out(signed(8)).array(self._pixels),
        })

    def elaborate(self, platform):
        m = Module()
        offset = Signal(signed(ACC_WIDTH))
        m.d.comb += offset.eq((self.bias << self.shift_bias)[:ACC_WIDTH].as_signed())
        for p in range(self._pixels):
            terms = [self.x[p][i] * self.w[i] for i in range(self._inputs)]
            while len(terms) > 1:
                pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)]
                terms = pairs + terms[len(pairs) * 2:]
            acc = Signal(signed(ACC_WIDTH), name=f"acc{p}", reset_less=True)
            biased = Signal(signed(ACC_WIDTH), name=f"biased{p}", reset_less=True)
            rounded = Signal(signed(SCALED_WIDTH), name=f"rounded{p}", reset_less=True)
            with m.If(self.step):
                m.d.sync += acc.eq((Mux(self.first, 0, acc) + terms[0])[:ACC_WIDTH])
            with m.If(self.capture):
                m.d.sync += biased.eq(with_bias(acc, offset))
            with m.If(self.shift):
                m.d.sync += rounded.eq(scale(biased, self.shift_cut, self.shift_act))
            with m.If(self.finish):
                m.d.sync += self.y[p].eq(activate(rounded, self.act))
        return m
