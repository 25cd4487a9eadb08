# SPDX-License-Identifier: Apache-2.0
"""UltraScale+'s DSP block as far as the DPU uses it: W + Z + (A + D) · B, Z + A · B or A:B + C."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Signal

#: Width of the block's sum.
SUM_WIDTH = 48
_PRODUCT, _JOINED = 0b0101, 0b0011      # X and Y are the product, or A:B and zero
_Z = {None: 0b000, "pcin": 0b001, "c": 0b011}
_SHIFTED, _W_OF_C = 0b101, 0b11
#: Bits by which a cascade may be shifted right.
CASCADE_SHIFT = 17
_ENABLES = ("CEA1", "CEA2", "CEAD", "CEALUMODE", "CEB1", "CEB2", "CEC", "CECARRYIN", "CECTRL",
            "CED", "CEINMODE", "CEM", "CEP")
_RESETS = ("RSTA", "RSTALLCARRYIN", "RSTALUMODE", "RSTB", "RSTC", "RSTCTRL", "RSTD", "RSTINMODE",
           "RSTM", "RSTP")


def dsp48e2(total, *, a, b, d=None, pcin=None, c=None, operands, sum_register=True, last,
            enable=None, alone=None, product=None, c_enable=None, without_a=None, without_d=None,
            domain="sync", a_registers=1, b_registers=2, again=None, newest_b=None,
            operand_enables=None, shifted=False, less=None, d_for_a=None, joined=False,
            c_alone=None):
    """Return the primitive.

    Parameters
    ----------
    total : :class:`Signal` of 48 bits
        Gets P where this is the ``last`` block of a cascade, PCOUT otherwise.
    a, b, d : values
        Up to 27 bits, 18 bits, 27 bits; without ``d`` there is no pre-adder.
    pcin, c : values of 48 bits
        What is added.
    operands : :class:`bool`
        Whether operands and the pre-adder's sum have registers: A ``a_registers``, B
        ``b_registers``, D one.
    sum_register : :class:`bool`
        Whether P has one. The product always does.
    enable : pair of values
        When product and sum are taken; always, by default.
    alone : value
        While this is high ``pcin`` is not added; by default it always is.
    product : :class:`Signal` of 48 bits
        Gets P of a block that is not the ``last`` one.
    c_enable : value
        When C is taken into its register; by default it has none.
    without_a, without_d : values
        While this is high the pre-adder takes that operand for zero; by default it never does.
    domain : :class:`str`
        Of its clock.
    a_registers, b_registers : :class:`int`
        One or two.
    again : value
        While this was high a cycle before, P is added too; by default it never is.
    newest_b : value
        While this was high a cycle before, the first of B's registers counts, else the second.
    operand_enables : :class:`dict` of :class:`str` to value
        When ``CEA2``, ``CEB1``, ``CEB2``, ``CED`` and ``CEAD`` let their registers take; by default
        they always do.
    shifted : :class:`bool`
        Whether ``pcin`` is shifted right by :data:`CASCADE_SHIFT`.
    less : value
        While this was high a cycle before, one is subtracted; not where ``c`` meets ``pcin``.
    d_for_a : value
        While this was high a cycle before, the pre-adder has ``d`` alone, otherwise ``a`` alone.
    joined : :class:`bool`
        There is no product: ``a`` (30 bits) above ``b`` is added to ``c``.
    c_alone : value
        While this is high ``c`` counts and the product does not, otherwise it is the other way
        round. ``alone`` has to be high then, too.
    """
    one, zero = Const(1, 1), Const(0, 1)
    z = "pcin" if pcin is not None else "c" if c is not None else None
    w = _W_OF_C if c is not None and pcin is not None else 0
    if c_alone is not None:
        z, w = "pcin" if pcin is not None else None, 0
    of_product, of_sum = enable or (one, one)
    register, a_registers, b_registers = (
        (1, a_registers, b_registers) if operands else (0, 0, 0))
    mode = Const(
        (_JOINED if joined else _PRODUCT) | (_SHIFTED if shifted else _Z[z]) << 4 | w << 7, 9)
    if alone is not None:
        mode = Cat(mode[:4], ~alone, Const(0, 4))
    if again is not None:
        mode = Cat(mode[:7], again, Const(0, 1))
    if less is not None:
        mode = Cat(mode[:8], less)
    if c_alone is not None:
        mode = Cat(~c_alone, zero, ~c_alone, zero, mode[4:7], c_alone.replicate(2))
    of_operands = Const(0, 5)
    if d is not None:
        a_gate, d_gate = (zero if gate is None else gate for gate in (without_a, without_d))
        of_operands = Cat(zero, a_gate, ~d_gate, Const(0, 2))
    if d_for_a is not None:
        of_operands = Cat(zero, d_for_a, d_for_a, Const(0, 2))
    if newest_b is not None:
        of_operands = Cat(of_operands[:4], newest_b)
    gated = without_a is not None or without_d is not None
    ports = {
        "A": a, "B": b, "D": Const(0, 27) if d is None else d,
        "C": Const(0, SUM_WIDTH) if c is None else c,
        "PCIN": Const(0, SUM_WIDTH) if pcin is None else pcin,
        "OPMODE": mode, "ALUMODE": Const(0, 4),
        "INMODE": of_operands, "CARRYINSEL": Const(0, 3),
        "CARRYIN": zero, "CLK": ClockSignal(domain), **dict.fromkeys(_ENABLES, one),
        **dict.fromkeys(_RESETS, zero), "CEM": of_product, "CEP": of_sum,
        "CEC": one if c_enable is None else c_enable, **(operand_enables or {}),
    }
    parameters = {
        "AMULTSEL": "A" if d is None else "AD", "BMULTSEL": "B", "PREADDINSEL": "A",
        "USE_MULT": "NONE" if joined else "MULTIPLY", "A_INPUT": "DIRECT", "B_INPUT": "DIRECT",
        "USE_SIMD": "ONE48", **({} if less is None else {"RND": Const(-1, SUM_WIDTH)}),
        "AREG": a_registers, "ACASCREG": a_registers, "DREG": register, "ADREG": register,
        "BREG": b_registers, "BCASCREG": b_registers,
        "MREG": int(not joined), "PREG": int(sum_register),
        "CREG": int(c is None or c_enable is not None), "INMODEREG": int(not gated),
        "OPMODEREG": int(alone is None and c_alone is None),
        "ALUMODEREG": 1, "CARRYINREG": 1, "CARRYINSELREG": 1,
    }
    fabric, cascade = (total, None) if last else (product, total)
    outputs = {
        "P": Signal(SUM_WIDTH, name="unused_p") if fabric is None else fabric,
        "PCOUT": Signal(SUM_WIDTH, name="unused_pcout") if cascade is None else cascade,
    }
    return Instance(
        "DSP48E2", **{f"p_{name}": value for name, value in parameters.items()},
        **{f"i_{name}": value for name, value in ports.items()},
        **{f"o_{name}": value for name, value in outputs.items()})
