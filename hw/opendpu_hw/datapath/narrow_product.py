# SPDX-License-Identifier: Apache-2.0
"""Products with a factor of few bits, which are not worth a DSP block."""

from amaranth.hdl import Mux


def narrow_product(value, factor):
    """Return ``value · factor``, both unsigned: a sum of shifted values, one for each bit.

    ``factor`` is a value of few bits, or an integer. Synthesis puts every ``*`` of more than a few
    bits into a DSP block, however small its other factor.
    """
    if isinstance(factor, int):
        terms = [value << n for n in range(factor.bit_length()) if factor >> n & 1]
    else:
        terms = [Mux(bit, value << n, 0) for n, bit in enumerate(factor)]
    while len(terms) > 1:       # sums of neighbours: as few adders in a row as can be
        terms = [sum(terms[n:n + 2]) for n in range(0, len(terms), 2)]
    return terms[0] if terms else 0
