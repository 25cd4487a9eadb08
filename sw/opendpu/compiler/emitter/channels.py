# SPDX-License-Identifier: Apache-2.0
"""What every output channel has of its own: biases, and what stands beside them in other banks.

All of it is at the same word of its bank, which instructions name once.
"""

from collections.abc import Iterator

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.emitter.recorder import Recorder
from opendpu.compiler.emitter.records import Records
from opendpu.compiler.layers import AluLayer, ArrayLayer
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.plan import WEIGHTS_REG
from opendpu_arch.isa import Load
from opendpu_arch.target import Target


def bank_of(target: Target, name: str) -> int:
    """Return the bank that holds a constant of :attr:`ComputeLayer.per_channel`."""
    return {"bias": target.bias_bank, "shifts": target.shift_bank}[name]


class ChannelConstants:
    """The constants of a layer's output channels, loaded when it is made, a LOAD each.

    Parameters
    ----------
    recorder
        Gets the commands.
    layer
        Name of the layer.
    names
        Its constants that have a byte for each output channel.
    channels
        How many channels.
    """

    def __init__(
        self, recorder: Recorder, layer: str, names: tuple[str, ...], channels: int
    ) -> None:
        target = self._target = recorder.target
        self._banks = [bank_of(target, name) for name in names]
        words = -(-channels // target.channel_parallel)
        self._word = recorder.biases.take(words) if names else 0
        for name, bank in zip(names, self._banks, strict=True):
            recorder.add(
                Load(
                    bank_id=bank, bank_addr=self._word, jump_read=channels, jump_write=words,
                    channel=channels, length=1, reg_id=WEIGHTS_REG,
                    ddr_addr=recorder.plan.constants[f"{layer}/{name}"],
                ),
                (BankAccess(True, bank, 1, self._word, words),),
                transfer_cycles(1, channels, channels, target.channel_parallel),
            )  # fmt: skip

    def word(self, group: int, groups: int = 1) -> int:
        """Return the word of the first of some channel groups; 0 where there are no constants."""
        return (self._word + group) % self._target.bank_depth if self._banks else 0

    def accesses(self, group: int, groups: int) -> Iterator[BankAccess]:
        """Yield what an instruction reads for some channel groups."""
        for bank in self._banks:
            yield BankAccess(False, bank, 1, self.word(group), groups)


def channel_constants(
    recorder: Recorder, layer: ArrayLayer | AluLayer, channels: int
) -> ChannelConstants | Records:
    """Return what the output channels of a layer have: biases and shifts, or records."""
    if layer.requantization is not None:
        return Records(recorder, layer.name, channels)
    return ChannelConstants(recorder, layer.name, tuple(layer.per_channel), channels)
