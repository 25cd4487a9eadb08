# SPDX-License-Identifier: Apache-2.0
"""Hardware views of the contract: instructions, their fields, address registers, faults."""

from types import SimpleNamespace

from amaranth.hdl import unsigned
from amaranth.lib import data, stream

#: Words of the longest instruction.
INSTRUCTION_WORDS = 6

#: An instruction as it travels: raw words, unused ones zero.
instruction_shape = data.ArrayLayout(unsigned(32), INSTRUCTION_WORDS)

#: A stream of instructions.
InstructionStream = stream.Signature(instruction_shape)

#: The address registers: base address, and size in bytes or 0 for unlimited.
segments_shape = data.ArrayLayout(data.StructLayout({"base": 40, "size": 32}), 8)

#: Why an engine stopped: cause is an :class:`opendpu_arch.regs.Fault`, addr a byte address.
fault_shape = data.StructLayout({"valid": 1, "cause": 8, "addr": 40})


def fields_of(instruction, words):
    """Slice raw words by the fields of a contract record.

    Parameters
    ----------
    instruction : type of :class:`opendpu_arch.isa.Instruction`
        The format.
    words : sequence of 32-bit values
        Raw words of the instruction.

    Returns
    -------
    namespace
        One value a field, raw: a ``minus_one`` field holds its value less one.
    """
    return SimpleNamespace(**{
        f.name: words[f.word][f.low:f.high + 1] for f in instruction.bit_fields()})
