# SPDX-License-Identifier: Apache-2.0
"""Records of the extension ``scaled``: in their memory as long as there is room."""

from collections.abc import Iterator

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.emitter.recorder import Recorder
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.plan import WEIGHTS_REG
from opendpu_arch.isa import Load
from opendpu_arch.scaled import RECORD_STRIDE, RECORD_WORDS


class Records:
    """The records of a layer, one for each channel group.

    They are loaded when an instruction first needs one, and again where others took their place.
    Where a layer has more than there is room for, they come in blocks of as many.

    Parameters
    ----------
    recorder
        Gets the commands.
    layer
        Name of the layer.
    channels
        How many channels its result has.
    """

    def __init__(self, recorder: Recorder, layer: str, channels: int) -> None:
        self.recorder = recorder
        self.groups = -(-channels // recorder.target.channel_parallel)
        self._address = recorder.plan.constants[f"{layer}/bias"]

    def word(self, group: int, groups: int = 1) -> int:
        """Return the number of the record of a channel group; those of ``groups`` follow it.

        Raises
        ------
        GraphError
            There is no room for so many.
        """
        most = self.recorder.records.depth
        block = range(group // most * most, min(group // most * most + most, self.groups))
        if group + groups > block.stop:
            block = range(group, group + groups)
        key = (self._address, block)
        first = self.recorder.records.held(key)
        if first is None:
            first = self.recorder.records.take(len(block), key)
            self._load(first, block)
        return (first + group - block.start) % most

    def accesses(self, group: int, groups: int) -> Iterator[BankAccess]:
        """Yield what an instruction reads for some channel groups."""
        words = (groups - 1) * RECORD_STRIDE + RECORD_WORDS
        number = self.word(group, groups)
        yield BankAccess(False, self.recorder.target.scale_bank, 1, number * RECORD_STRIDE, words)

    def _load(self, first: int, block: range) -> None:
        target = self.recorder.target
        size = RECORD_WORDS * target.channel_parallel
        word = first * RECORD_STRIDE
        words = (len(block) - 1) * RECORD_STRIDE + RECORD_WORDS
        self.recorder.add(
            Load(
                bank_id=target.scale_bank, bank_addr=word, jump_read=size,
                jump_write=RECORD_STRIDE, channel=size, length=len(block), reg_id=WEIGHTS_REG,
                ddr_addr=self._address + block.start * size,
            ),
            (BankAccess(True, target.scale_bank, 1, word, words),),
            transfer_cycles(len(block), size, size, target.channel_parallel),
        )  # fmt: skip
