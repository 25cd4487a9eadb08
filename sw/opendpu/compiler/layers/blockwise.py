# SPDX-License-Identifier: Apache-2.0
"""Convolutions of whose kernel each block of output channels meets a part."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from opendpu.compiler.layers.array import BlockWeights, KernelPart
from opendpu.compiler.layers.conv import ConvLayer
from opendpu.compiler.layers.cost import conv_cycles, transfer_cycles
from opendpu.compiler.layers.feature import Int8Array, Window
from opendpu.compiler.layers.layer import Features, WeightWords
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockwiseConvLayer(ConvLayer):
    """Convolution whose instructions leave out kernel columns and input channel groups of zeros.

    A block of output channels has one instruction, which can have a kernel of its own. ``weights``
    are those of the whole kernel.
    """

    WHOLE_KERNEL: ClassVar[bool] = False

    parallel: int
    """Channels of a bank word, and of a block of output channels."""
    parts: tuple[KernelPart, ...]
    """What each block meets."""

    def kernel_part(self, block: int, groups: int) -> KernelPart:
        """Return what a block meets."""
        return self.parts[block]

    def _weights_of(self, block: int) -> Int8Array:
        """Return the weights that a block meets."""
        part = self.parts[block]
        column = self.window.pad_left - part.window.pad_left
        channel = part.group * self.parallel
        return self.weights[
            block * self.parallel : (block + 1) * self.parallel, :,
            column : column + part.window.kernel_w,
            channel : channel + part.groups * self.parallel,
        ]  # fmt: skip

    @functools.cached_property
    def _offsets(self) -> tuple[int, ...]:
        """Where the weights of each block begin."""
        sizes = [self._weights_of(block).size for block in range(len(self.parts))]
        return tuple(int(end) - size for end, size in zip(np.cumsum(sizes), sizes, strict=True))

    def block_weights(self, block: int) -> BlockWeights:
        """Return where the weights that a block meets are."""
        outputs, height, width, inputs = map(int, self._weights_of(block).shape)
        return BlockWeights(offset=self._offsets[block], shape=(outputs, height, width, inputs))

    @property
    def constants(self) -> Mapping[str, Int8Array]:
        """Those of the convolution; the weights that each block meets, block after block."""
        met = [self._weights_of(block).ravel() for block in range(len(self.parts))]
        return {**super().constants, "weights": np.concatenate(met)}

    def taps(self, features: Features, target: Target) -> int:
        """Return the weight words of the block that has most."""
        return max(part.taps for part in self.parts)

    def blocks_cycles(
        self, features: Features, target: Target, columns: int, rows_per_bank: int = 1
    ) -> int:  # fmt: skip
        """Return the cycles of all blocks, each with its own taps."""
        return sum(
            conv_cycles(
                columns, self.cycles_of_taps(part.taps, target), self.write_cycles(rows_per_bank)
            )
            for part in self.parts
        )

    def row_cycles(self, features: Features, target: Target) -> int:
        """Return the cycles of a whole row, for all output channels."""
        return self.blocks_cycles(features, target, features[self.output].width)

    def weight_cycles(self, target: Target) -> int:
        """Return the cycles to load the weights, a LOAD a lane."""
        shapes = [self.block_weights(block).shape for block in range(len(self.parts))]
        return sum(
            outputs * transfer_cycles(height * width, inputs, inputs, target.channel_parallel)
            for outputs, height, width, inputs in shapes
        )

    def weight_words(self, features: Features, target: Target) -> WeightWords:
        """Return the words of weights and biases."""
        words = sum(part.taps for part in self.parts)
        return dataclasses.replace(super().weight_words(features, target), conv=words)


def kernel_parts(
    met: npt.NDArray[np.bool_], window: Window, parallel: int
) -> tuple[KernelPart, ...]:  # fmt: skip
    """Return what each block of ``parallel`` output channels meets of a kernel.

    ``met`` tells, OHWI, which weights there are. No part is narrower than the kernel of an output
    channel, so that padding reaches no further than an instruction can say.
    """
    starts = np.arange(0, met.shape[3], parallel)
    found = []
    for first in range(0, len(met), parallel):
        block = met[first : first + parallel]
        columns = np.flatnonzero(block.any(axis=(0, 1, 3)))
        groups = np.flatnonzero(np.logical_or.reduceat(block.any(axis=(0, 1, 2)), starts))
        own = dataclasses.replace(
            window, kernel_w=int(np.ptp(columns)) + 1, pad_left=window.pad_left - int(columns[0])
        )
        found.append(KernelPart(window=own, group=int(groups[0]), groups=int(np.ptp(groups)) + 1))
    return tuple(found)
