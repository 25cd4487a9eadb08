# SPDX-License-Identifier: Apache-2.0
"""Tables of 256 entries: those of the extension ``table``, and terms of ``scaled``.

They are loaded when an instruction first needs them, and kept as long as there are slots.
"""

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.emitter.recorder import Recorder, Slots
from opendpu.compiler.layers import ComputeLayer
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.plan import WEIGHTS_REG
from opendpu_arch import table
from opendpu_arch.isa import Load
from opendpu_arch.scaled import SLOT_TERMS, TERM_BYTES


def table_of(recorder: Recorder, layer: ComputeLayer) -> tuple[int, tuple[BankAccess, ...]]:
    """Return the field ``table`` of a layer's instructions, and what they read of the table memory.

    The LOAD comes before them, unless the table is in its slot still.
    """
    if layer.table is None:
        return 0, ()
    bank, name = recorder.target.table_bank, f"{layer.name}/table"
    slot, read = _loaded(
        recorder, recorder.tables, name, bank, words=table.SLOT_WORDS, size=table.WORD_BYTES
    )
    return slot + 1, (read,)


def term_of(recorder: Recorder, layer: str, number: int) -> tuple[int, BankAccess]:
    """Return the slot of an input's terms and what is read there; they are loaded before."""
    bank, name = recorder.target.term_bank, f"{layer}/terms{number}"
    return _loaded(recorder, recorder.terms, name, bank, words=SLOT_TERMS, size=TERM_BYTES)


def _loaded(
    recorder: Recorder, slots: Slots, name: str, bank: int, *, words: int, size: int
) -> tuple[int, BankAccess]:
    """Return the slot of a constant of ``words`` words with ``size`` bytes, and the read of it."""
    address = recorder.plan.constants[name]
    slot, held = slots.take(address)
    word = slot * words
    if not held:
        recorder.add(
            Load(
                bank_id=bank, bank_addr=word, jump_read=size, jump_write=1,
                channel=size, length=words, reg_id=WEIGHTS_REG, ddr_addr=address,
            ),
            (BankAccess(True, bank, 1, word, words),),
            transfer_cycles(words, size, size, recorder.target.channel_parallel),
        )  # fmt: skip
    return slot, BankAccess(False, bank, 1, word, words)
