# SPDX-License-Identifier: Apache-2.0
"""Selection of a value by a number, without a decoder."""

from amaranth.hdl import Mux


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
