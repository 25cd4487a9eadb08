# SPDX-License-Identifier: Apache-2.0
"""What layers of the CONV engine have in common, however their input lies in the banks."""

import abc
import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from opendpu.compiler.layers.cost import conv_cycles, conv_steps, transfer_cycles
from opendpu.compiler.layers.feature import Int8Array, Window
from opendpu.compiler.layers.layer import (
    ComputeLayer,
    Features,
    StripeCycles,
    WeightWords,
    channel_groups,
)
from opendpu.compiler.layers.requantization import Requantization, bias_words
from opendpu.compiler.limits import CONV_REACH, Reach
from opendpu_arch.isa import ActType, Engine
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelPart:
    """What a block of output channels meets of a kernel."""

    window: Window
    """Its rows and columns."""
    group: int
    """The first input channel group."""
    groups: int

    @property
    def taps(self) -> int:
        """Weight words: kernel rows, columns and input channel groups."""
        return self.window.kernel_h * self.window.kernel_w * self.groups

    def agrees(self, other: "KernelPart") -> bool:
        """Tell whether it is ``other`` but for the first input channel group."""
        return self.groups == other.groups and self.window == other.window


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockWeights:
    """Where the weights of one block of output channels are in a constant of their layer."""

    offset: int
    shape: tuple[int, int, int, int]
    """OHWI, dense."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayLayer(ComputeLayer):
    """A layer of the multiplier array.

    ``bias`` one int8 an output channel, ``shifts`` a byte of SHIFT each where they need some; then
    the instructions have the smallest shifts.
    """

    ENGINE: ClassVar[Engine | None] = Engine.CONV
    REACH: ClassVar[Reach] = CONV_REACH

    source: str
    window: Window
    bias: npt.NDArray[Any]
    shift_cut: int
    shift_bias: int
    shifts: Int8Array | None = None
    act_type: ActType = ActType.NONE
    requantization: Requantization | None = None
    """How results are made by records of the extension ``scaled``; ``bias`` has then what
    :data:`CHANNEL` says of each output channel."""
    depthwise: bool = False
    """Each block of output channels meets the channel group of the same number alone: weights have
    the inputs of one channel group."""

    @property
    @abc.abstractmethod
    def weights_shape(self) -> tuple[int, int, int, int]:
        """Output channels, kernel rows and columns, input channels."""

    def groups_read(self, features: Features, target: Target) -> int:
        """Return the input channel groups of an output channel."""
        return 1 if self.depthwise else channel_groups(features[self.source], target)

    @property
    def operands(self) -> tuple[str, ...]:
        """Its input."""
        return (self.source,)

    def sliding_window(self, name: str) -> Window | None:
        """Return the kernel's window over the input."""
        return self.window if name == self.source else None

    def row_parallel(self, target: Target) -> int:
        """Return the rows of the array."""
        return target.pixel_parallel

    def blocks(self, features: Features, target: Target) -> int:
        """Return the blocks of output channels."""
        return -(-features[self.output].channels // target.output_channel_parallel)

    def kernel_part(self, block: int, groups: int) -> KernelPart:
        """Return what a block of output channels meets of an input of ``groups`` groups."""
        if self.depthwise:
            return KernelPart(window=self.window, group=block, groups=1)
        return KernelPart(window=self.window, group=0, groups=groups)

    def block_weights(self, block: int) -> BlockWeights | None:
        """Return where a block's weights are; none where blocks of one shape follow each other."""
        return None

    def taps(self, features: Features, target: Target) -> int:
        """Return the weight words of a block, at most."""
        kernel = self.window.kernel_h * self.window.kernel_w
        return kernel * self.groups_read(features, target)

    def column_cycles(self, features: Features, target: Target) -> int:
        """Return the cycles from a column to the next: its taps, or what the multipliers take."""
        return self.cycles_of_taps(self.taps(features, target), target)

    def blocks_cycles(
        self, features: Features, target: Target, columns: int, rows_per_bank: int = 1
    ) -> int:  # fmt: skip
        """Return the cycles of all blocks, in as many rows as an instruction makes."""
        steps = self.column_cycles(features, target)
        interval = self.write_cycles(rows_per_bank)
        return self.blocks(features, target) * conv_cycles(columns, steps, interval)

    def groups_a_pass(self, features: Features, target: Target, columns: int) -> int:
        """Return all blocks."""
        return self.blocks(features, target)

    def weight_words(self, features: Features, target: Target) -> WeightWords:
        """Return the words of weights and biases."""
        return WeightWords(
            conv=self.taps(features, target) * self.blocks(features, target),
            bias=bias_words(channel_groups(features[self.output], target), self.requantization),
        )

    def weight_cycles(self, target: Target) -> int:
        """Return the cycles to load the weights, a LOAD a lane."""
        outputs, height, width, inputs = self.weights_shape
        return outputs * transfer_cycles(height * width, inputs, inputs, target.channel_parallel)

    def stripe_cycles(
        self, features: Features, target: Target, *, rows: int, columns: int, groups: int,
        rows_per_bank: int,
    ) -> StripeCycles:  # fmt: skip
        """Return the cycles of all blocks."""
        cycles = self.blocks_cycles(features, target, columns, rows_per_bank)
        return StripeCycles(engine=cycles, passes=-(-self.blocks(features, target) // groups))

    def row_cycles(self, features: Features, target: Target) -> int:
        """Return the cycles of a whole row, for all output channels."""
        cycles = conv_cycles(features[self.output].width, self._steps(target))
        return channel_groups(features[self.output], target) * cycles

    def single_row_cycles(self, features: Features, target: Target) -> int:
        """Return the steps lost when every instruction makes a single row.

        What columns of a single step wait for each other is left out: such layers wait for DDR.
        """
        out = features[self.output]
        lost = out.height - -(-out.height // self.row_parallel(target))
        return lost * channel_groups(out, target) * conv_steps(out.width, self._steps(target))

    def _steps(self, target: Target) -> int:
        taps = max(math.prod(self.weights_shape[1:]) // target.channel_parallel, 1)
        return self.cycles_of_taps(taps, target)

    def write_cycles(self, rows_per_bank: int) -> int:
        """Return the cycles that the write of a column takes, if so many of its rows share a bank.

        A table is looked up in one more: no other column is written in it.
        """
        return rows_per_bank + (self.table is not None)

    def cycles_of_taps(self, taps: int, target: Target) -> int:
        """Return the cycles from a column to the next, if each has so many taps."""
        return taps if self.requantization is None else max(taps, target.pixel_parallel)

    def broken_rules(self, features: Features) -> Iterator[tuple[str, str]]:
        """Check the kernel, and the number of biases."""
        outputs, *kernel, _ = self.weights_shape
        if kernel != [self.window.kernel_h, self.window.kernel_w]:
            yield "kernel-of-weights", f"weights have {tuple(kernel)}"
        for name, values in self.per_channel.items():
            if values.size != outputs:
                yield (
                    f"{name}-per-output",
                    f"{values.size} values for {outputs} output channels",
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelLayer(ArrayLayer):
    """A convolution with trained ``weights``, OHWI."""

    weights: Int8Array

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """Output channels, kernel rows and columns, input channels."""
        outputs, height, width, inputs = map(int, self.weights.shape)
        return outputs, height, width, inputs

    @property
    def constants(self) -> Mapping[str, Int8Array]:
        """Bias and shifts or records, weights and the table."""
        own = self.per_channel
        if self.requantization is not None:
            sums = self.weights.sum(axis=(1, 2, 3), dtype=np.int64)
            own = {"bias": self.requantization.records(self.bias, sums)}
        return {**own, "weights": self.weights, **self.tables}


def diagonal_weights(weights: Int8Array, parallel: int) -> Int8Array:
    """Return HWC weights of a depthwise convolution as OHWI ones of one channel group."""
    height, width, channels = weights.shape
    made = np.zeros((channels, height, width, parallel), dtype=np.int8)
    every = np.arange(channels)
    made[every, :, :, every % parallel] = np.moveaxis(weights, 2, 0)
    return made
