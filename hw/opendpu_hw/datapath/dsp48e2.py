# SPDX-License-Identifier: Apache-2.0
"""UltraScale+'s DSP block as far as the DPU uses it: Z + (A + D) · B or Z + A · B."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Signal

#: Width of the block's sum.
SUM_WIDTH = 48
_PRODUCT = 0b0101                       # X and Y are the product
_Z = {None: 0b000, "pcin": 0b001, "c": 0b011}
_ENABLES = ("CEA1", "CEA2", "CEAD", "CEALUMODE", "CEB1", "CEB2", "CEC", "CECARRYIN", "CECTRL",
            "CED", "CEINMODE", "CEM", "CEP")
_RESETS = ("RSTA", "RSTALLCARRYIN", "RSTALUMODE", "RSTB", "RSTC", "RSTCTRL", "RSTD", "RSTINMODE",
           "RSTM", "RSTP")


def dsp48e2(total, *, a, b, d=None, pcin=None, c=None, operands, sum_register=True, last,
            enable=None, alone=None, product=None, c_enable=None, without_a=None, without_d=None,
            domain="sync", b_registers=2, again=None, newest_b=None,
            operand_enables=None):
    """Return the primitive.

    Parameters
    ----------
    total : :class:`Signal` of 48 bits
        Gets P where this is the ``last`` block of a cascade, PCOUT otherwise.
    a, b, d : values
        Up to 27 bits, 18 bits, 27 bits; without ``d`` there is no pre-adder.
    pcin, c : values of 48 bits
        What is added; at most one of them.
    operands : :class:`bool`
        Whether operands and the pre-adder's sum have registers: A and D one, B ``b_registers``.
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
    b_registers : :class:`int`
        One or two.
    again : value
        While this was high a cycle before, P is added too; by default it never is.
    newest_b : value
        While this was high a cycle before, the first of B's registers counts, else the second.
    operand_enables : :class:`dict` of :class:`str` to value
        When ``CEA2``, ``CEB1``, ``CEB2``, ``CED`` and ``CEAD`` let their registers take; by default
        they always do.
    """
    one, zero = Const(1, 1), Const(0, 1)
    z = "pcin" if pcin is not None else "c" if c is not None else None
    of_product, of_sum = enable or (one, one)
    register, b_registers = (1, b_registers) if operands else (0, 0)
    mode = Const(_PRODUCT | _Z[z] << 4, 9)
    if alone is not None:
        mode = Cat(mode[:4], ~alone, Const(0, 4))
    if again is not None:
        mode = Cat(mode[:7], again, Const(0, 1))
    of_operands = Const(0, 5)
    if d is not None:
        a_gate, d_gate = (zero if gate is None else gate for gate in (without_a, without_d))
        of_operands = Cat(zero, a_gate, ~d_gate, Const(0, 2))
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
        "USE_MULT": "MULTIPLY", "A_INPUT": "DIRECT", "B_INPUT": "DIRECT", "USE_SIMD": "ONE48",
        "AREG": register, "ACASCREG": register, "DREG": register, "ADREG": register,
        "BREG": b_registers, "BCASCREG": b_registers, "MREG": 1, "PREG": int(sum_register),
        "CREG": int(c is None or c_enable is not None), "INMODEREG": int(not gated),
        "OPMODEREG": int(alone is None), "ALUMODEREG": 1, "CARRYINREG": 1, "CARRYINSELREG": 1,
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
