# SPDX-License-Identifier: Apache-2.0
"""Instances of DP16KD, the block RAM of ECP5, as a bank has them."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Signal

#: Address bits of a block, which count single bits but for the ninth of each byte.
ADDRESS_WIDTH = 14
#: Words of a port's width, ninth bits included.
_WIDTHS = {1 << 14: 1, 1 << 13: 2, 1 << 12: 4, 1 << 11: 9, 1 << 10: 18}
#: Data pins of a port.
_PINS = 18


def width_for(depth):
    """Return how many bits of words a block has for so many of them, or None for too many."""
    return next((_WIDTHS[words] for words in sorted(_WIDTHS) if depth <= words), None)


def add_blocks(m, bank, *, depth, width, registered):
    """Make a :class:`opendpu_hw.memory.bank.Bank` with two ports of blocks, beside each other.

    Parameters
    ----------
    m : :class:`amaranth.hdl.Module`
        Gets the instances ``block_0``, ``block_1``, …
    bank
        The ports: members of a bank.
    depth, width, registered
        As a bank has them; :func:`width_for` ``(depth)`` is not None.
    """
    bits = width_for(depth)
    for low in range(0, width, bits):
        part = slice(low, min(low + bits, width))
        instance = _block(
            bits, registered,
            a=(bank.a_en, Const(0, 1), bank.a_addr, Const(0, 1), bank.a_data[part]),
            b=(bank.b_en | bank.b_write, bank.b_write, bank.b_addr, bank.b_wdata[part],
               bank.b_data[part]))
        m.submodules[f"block_{low // bits}"] = instance


def _block(bits, registered, **ports):
    """Return an instance; of each port: enable, write enable, address, data in, data out.

    A port that writes answers with the word that was there. What the other port answers that reads
    the same word in this cycle is not defined.
    """
    connected, parameters = {}, {
        "RESETMODE": "SYNC", "ASYNC_RESET_RELEASE": "SYNC", "GSR": "AUTO"}
    for name, (en, write, addr, given, taken) in ports.items():
        port = name.upper()
        # A port of 18 bits enables its bytes by the two lowest bits of the address.
        below = Const(3, 2) if bits == _PINS else Const(0, 0)
        place = Cat(below, Const(0, bits.bit_length() - 1 - len(below)), addr)
        place = Cat(place, Const(0, ADDRESS_WIDTH - len(place)))
        data = Cat(given, Const(0, _PINS - len(given)))
        answer = Signal(_PINS, name=f"answer_{name}")
        parameters |= {
            f"DATA_WIDTH_{port}": bits, f"CLK{port}MUX": f"CLK{port}",
            f"REGMODE_{port}": "OUTREG" if registered else "NOREG",
            f"WRITEMODE_{port}": "READBEFOREWRITE", f"CSDECODE_{port}": "0b000"}
        connected |= {
            f"i_CLK{port}": ClockSignal(), f"i_CE{port}": en, f"i_OCE{port}": Const(1, 1),
            f"i_WE{port}": write, f"i_RST{port}": Const(0, 1),
            **{f"i_CS{port}{i}": Const(0, 1) for i in range(3)},
            **{f"i_AD{port}{i}": place[i] for i in range(ADDRESS_WIDTH)},
            **{f"i_DI{port}{i}": data[i] for i in range(_PINS)},
            **{f"o_DO{port}{i}": taken[i] if i < len(taken) else answer[i] for i in range(_PINS)}}
    return Instance("DP16KD", **{f"p_{name}": value for name, value in parameters.items()},
                    **connected)
