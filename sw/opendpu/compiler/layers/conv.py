# SPDX-License-Identifier: Apache-2.0
"""Convolutions on the CONV engine, with the element-wise operation that may follow on chip."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import ClassVar

from opendpu.compiler.layers.cost import conv_cycles, misc_cycles, transfer_cycles
from opendpu.compiler.layers.eltwise import EltwiseLayer
from opendpu.compiler.layers.feature import Int8Array, Window
from opendpu.compiler.layers.layer import (
    ComputeLayer,
    Features,
    StripeCycles,
    WeightWords,
    channel_groups,
)
from opendpu.compiler.layers.misc import window_rules
from opendpu.compiler.limits import CONV_REACH, Reach
from opendpu_arch.isa import ActType, Engine
from opendpu_arch.target import Target

TILE_SHARE = 4
"""A convolution's results wait for their epilogue in at most this part of a bank."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epilogue:
    """Element-wise operation on the results of a convolution while they are still on chip."""

    layer: EltwiseLayer
    tile: str
    """The convolution's own result, one of the operands; it is nowhere whole."""

    @property
    def others(self) -> tuple[str, ...]:
        """The other operands."""
        return tuple(name for name in self.layer.sources if name != self.tile)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvLayer(ComputeLayer):
    """Convolution on the CONV engine; ``weights`` OHWI, ``bias`` one int8 an output channel.

    ``output`` is what leaves the layer: the result of the epilogue where there is one.
    """

    ENGINE: ClassVar[Engine | None] = Engine.CONV
    REACH: ClassVar[Reach] = CONV_REACH
    TAKES_EPILOGUE: ClassVar[bool] = True
    """It can run with the element-wise operation behind it."""

    source: str
    window: Window
    weights: Int8Array
    bias: Int8Array
    shift_cut: int
    shift_bias: int
    act_type: ActType = ActType.NONE
    epilogue: Epilogue | None = None

    @property
    def operands(self) -> tuple[str, ...]:
        """Its input, then the other operands of the epilogue."""
        return (self.source, *(self.epilogue.others if self.epilogue else ()))

    @property
    def label(self) -> str:
        """Conv, and what the epilogue does."""
        return "conv" if self.epilogue is None else f"conv, {self.epilogue.layer.kind.name}"

    @property
    def intermediate(self) -> str | None:
        """The result of the convolution, where an epilogue takes it up."""
        return None if self.epilogue is None else self.epilogue.tile

    @property
    def ends_in_elew(self) -> bool:
        """Whether there is an epilogue."""
        return self.epilogue is not None

    @property
    def in_place_operands(self) -> tuple[str, ...]:
        """The other operands of the epilogue, unless the convolution reads them too."""
        return tuple(name for name in self.operands[1:] if name != self.source)

    @property
    def constants(self) -> Mapping[str, Int8Array]:
        """Bias and weights."""
        return {"bias": self.bias, "weights": self.weights}

    def sliding_window(self, name: str) -> Window | None:
        """Return the kernel's window over the input."""
        return self.window if name == self.source else None

    def row_parallel(self, target: Target) -> int:
        """Return the rows of the array."""
        return target.pixel_parallel

    def blocks(self, features: Features, target: Target) -> int:
        """Return the blocks of output channels."""
        return -(-features[self.output].channels // target.output_channel_parallel)

    def taps(self, features: Features, target: Target) -> int:
        """Return the weight words of a block: kernel rows, columns and input channel groups."""
        inputs = features[self.source].channels
        kernel = self.window.kernel_h * self.window.kernel_w
        return kernel * -(-inputs // target.input_channel_parallel)

    def groups_a_pass(self, features: Features, target: Target, columns: int) -> int:
        """Return the blocks that are made before the epilogue takes them."""
        blocks = self.blocks(features, target)
        if self.epilogue is None:
            return blocks
        most = max(1, target.bank_depth // TILE_SHARE // (2 * columns))
        return -(-blocks // -(-blocks // most))

    def weight_words(self, features: Features, target: Target) -> WeightWords:
        """Return the words of weights and biases."""
        return WeightWords(
            conv=self.taps(features, target) * self.blocks(features, target),
            bias=channel_groups(features[self.output], target),
        )

    def weight_cycles(self, target: Target) -> int:
        """Return the cycles to load the weights, a LOAD a lane."""
        outputs, height, width, inputs = map(int, self.weights.shape)
        return outputs * transfer_cycles(height * width, inputs, inputs, target.channel_parallel)

    def stripe_cycles(
        self, features: Features, target: Target, *, rows: int, columns: int, groups: int,
        rows_per_bank: int,
    ) -> StripeCycles:  # fmt: skip
        """Return the cycles of all blocks, and of the epilogue behind every pass."""
        blocks = self.blocks(features, target)
        after, passes = 0, -(-blocks // groups)
        if self.epilogue is not None:
            times = -(-rows // target.alu_pixel_parallel)
            after = passes * times * misc_cycles(columns, groups, len(self.epilogue.layer.sources))
        cycles = conv_cycles(columns, self.taps(features, target), rows_per_bank)
        return StripeCycles(engine=blocks * cycles, epilogue=after, passes=passes)

    def row_cycles(self, features: Features, target: Target) -> int:
        """Return the cycles of a whole row, for all output channels."""
        out = features[self.output]
        taps = max(self.weights.size // out.channels // target.channel_parallel, 1)
        return channel_groups(out, target) * conv_cycles(out.width, taps)

    def broken_rules(self, features: Features) -> Iterator[tuple[str, str]]:
        """Check padding, the kernel, and the number of biases."""
        yield from window_rules(self.window)
        yield from self._constant_rules()

    def _constant_rules(self) -> Iterator[tuple[str, str]]:
        kernel = self.weights.shape[1:3]
        if kernel != (self.window.kernel_h, self.window.kernel_w):
            yield "kernel-of-weights", f"weights have {kernel}"
        if self.bias.size != self.weights.shape[0]:
            yield (
                "bias-per-output",
                f"{self.bias.size} biases for {self.weights.shape[0]} output channels",
            )
