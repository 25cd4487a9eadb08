# SPDX-License-Identifier: Apache-2.0
"""Byte shifts and masks, in pieces of 32 and 64 bits."""

from amaranth.hdl import Cat, Const, Mux, Signal

#: Bytes of a mask.
MASK_BYTES = 8


def pieces(value, count):
    """Cut a value into ``count`` 32-bit pieces, the last ones filled with zeros."""
    return [
        Cat(part, Const(0, 32 - len(part))) if len(part) < 32 else part
        for part in (value[32 * i:32 * i + 32] for i in range(count))]


def shift_down(m, parts, amount, count, *, name):
    """Return ``count`` pieces from byte ``amount`` (0 to 15) of ``parts`` on.

    ``parts`` are 32-bit pieces; beyond the last comes the first again.
    """
    def level(source, step, bit, length, tag):
        result = []
        for i in range(length):
            piece = Signal(32, name=f"{name}_{tag}_{i}")
            m.d.comb += piece.eq(Mux(
                bit, source[(i + step) % len(source)], source[i % len(source)]))
            result.append(piece)
        return result

    wraps = len(parts) <= count
    by_8 = level(parts, 2, amount[3], len(parts) if wraps else count + 2, "by_8")
    by_4 = level(by_8, 1, amount[2], len(parts) if wraps else count + 1, "by_4")
    result = []
    for i in range(count):
        piece = Signal(32, name=f"{name}_{i}")
        pair = Cat(by_4[i], by_4[(i + 1) % len(by_4)])
        m.d.comb += piece.eq(pair >> Cat(Const(0, 3), amount[:2]))
        result.append(piece)
    return result


def masks(m, count, number, *, name):
    """Return ``number`` 64-bit masks whose lowest ``count`` bytes together, 0 to 31, are ones."""
    result = []
    for i in range(number):
        missing = Signal(4, name=f"{name}_missing_{i}")     # bytes of this mask that are zero
        mask = Signal(64, name=f"{name}_{i}")
        low, high = MASK_BYTES * i, MASK_BYTES * i + MASK_BYTES
        m.d.comb += [
            missing.eq(Mux(count >= high, 0, Mux(count > low, high - count, MASK_BYTES))),
            mask.eq(Const(2**64 - 1, 64) >> Cat(Const(0, 3), missing)),
        ]
        result.append(mask)
    return result
