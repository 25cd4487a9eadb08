# SPDX-License-Identifier: Apache-2.0
"""Tables of the extension ``table``: loaded when an instruction first needs them, kept as long as
there are slots."""

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.emitter.recorder import Recorder
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.layers.layer import ComputeLayer
from opendpu.compiler.plan import WEIGHTS_REG
from opendpu_arch.isa import Load
from opendpu_arch.table import SLOT_WORDS, WORD_BYTES


def table_of(recorder: Recorder, layer: ComputeLayer) -> tuple[int, tuple[BankAccess, ...]]:
    """Return the field ``table`` of a layer's instructions, and what they read of the table memory.

    The LOAD comes before them, unless the table is in its slot still.
    """
    if layer.table is None:
        return 0, ()
    address = recorder.plan.constants[f"{layer.name}/table"]
    slot, held = recorder.tables.take(address)
    word, bank = slot * SLOT_WORDS, recorder.target.table_bank
    if not held:
        recorder.add(
            Load(
                bank_id=bank, bank_addr=word, jump_read=WORD_BYTES, jump_write=1,
                channel=WORD_BYTES, length=SLOT_WORDS, reg_id=WEIGHTS_REG, ddr_addr=address,
            ),
            (BankAccess(True, bank, 1, word, SLOT_WORDS),),
            transfer_cycles(
                SLOT_WORDS, WORD_BYTES, WORD_BYTES, recorder.target.channel_parallel
            ),
        )  # fmt: skip
    return slot + 1, (BankAccess(False, bank, 1, word, SLOT_WORDS),)
