# SPDX-License-Identifier: Apache-2.0
"""Instructions of the misc engine for element-wise sums and products."""

from opendpu_arch.bits import bits
from opendpu_arch.isa.codes import Engine, Opcode
from opendpu_arch.isa.instruction import TABLE, Instruction


class ElewInit(Instruction):
    """Describe one input of the ELEW that follows."""

    OPCODE = Opcode.ELEWINIT
    ENGINE = Engine.MISC
    WORDS = 3

    bank_id_in: int = bits(0, 19, 14, doc="Bank of the first input row.")
    share_pp: int = bits(0, 13, 13, doc="1: every output row reads the same input row.")
    jump_bank: int = bits(1, 31, 29, minus_one=True, doc="Banks between two input rows.")
    id: int = bits(1, 28, 27, doc="Which input this describes.")
    jump_read_endl: int = bits(
        1, 26, 14, minus_one=True, doc="Words between two rows that live in one bank, input side."
    )
    bank_addr_in: int = bits(
        1, 13, 0, doc="Word of input row 0, padding counted, until the banks wrap."
    )
    shift_read: int = bits(2, 15, 12, doc="Right shift of this input.")
    jump_read: int = bits(2, 11, 0, doc="Words between two pixels of a row; 0 repeats one pixel.")
    term: int = bits(
        2,
        16,
        16,
        extension="scaled",
        doc="Slot of TERM whose entries stand for its bytes under scaled.",
    )
    bank_addr_scale: int = bits(
        2, 31, 20, extension="scaled", doc="First record in SCALE; of input 0 only."
    )


class Elew(Instruction):
    """Element-wise sum or product of two to four inputs."""

    OPCODE = Opcode.ELEW
    ENGINE = Engine.MISC
    WORDS = 3

    bank_id_out: int = bits(0, 19, 14, doc="Bank of the first output row.")
    elew_type: int = bits(0, 13, 12, doc="Operation (`ElewType`).")
    act_type: int = bits(0, 11, 11, doc="0 none, 1 RELU.")
    length: int = bits(0, 10, 0, minus_one=True, doc="Output columns.")
    valid_pixel_parallel: int = bits(
        1, 31, 29, minus_one=True, doc="Output rows this instruction makes."
    )
    num: int = bits(1, 28, 27, minus_one=True, doc="Number of inputs.")
    jump_write_endl: int = bits(
        1, 26, 14, minus_one=True, doc="Words between two rows that live in one bank, output side."
    )
    bank_addr_out: int = bits(1, 13, 0, doc="Word of the first output row.")
    channel_group: int = bits(2, 24, 17, minus_one=True, doc="Groups of CP channels.")
    shift_write: int = bits(
        2, 16, 12, doc="n < 16: left shift of the result by n; 16 + n: right shift by n."
    )
    jump_write: int = bits(
        2, 11, 0, minus_one=True, doc="Words between two pixels of a row, output side."
    )
    table: int = bits(2, 31, 28, extension="table", doc=TABLE)
    scaled: int = bits(
        2,
        27,
        27,
        extension="scaled",
        doc="1: inputs are terms, results are made by records in SCALE.",
    )
