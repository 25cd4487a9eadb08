# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions that the misc engine and the array share."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import ClassVar

from opendpu.compiler.layers.alu import AluLayer
from opendpu.compiler.layers.array import diagonal_weights
from opendpu.compiler.layers.conv import ConvLayer
from opendpu.compiler.layers.cost import conv_cycles
from opendpu.compiler.layers.feature import Int8Array
from opendpu.compiler.layers.layer import Features, StripeCycles, WeightWords, channel_groups
from opendpu.compiler.limits import CONV_REACH, MISC_REACH, Reach
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target


def array_layer(layer: AluLayer, name: str, parallel: int) -> ConvLayer:
    """Return a depthwise convolution as a layer of an array with words of ``parallel`` channels."""
    assert layer.weights is not None and layer.bias is not None
    return ConvLayer(
        name=name, output=layer.output, op=layer.op, source=layer.source, window=layer.window,
        weights=diagonal_weights(layer.weights, parallel), bias=layer.bias,
        shifts=layer.shifts, shift_cut=layer.shift_cut, shift_bias=layer.shift_bias,
        act_type=layer.act_type, requantization=layer.requantization, depthwise=True,
        table=layer.table,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedDepthwiseLayer(AluLayer):
    """Depthwise convolution of which a cascade makes the last channel groups on the array.

    Both engines work on the same rows, as many as the array makes at a time. Where it fits in no
    cascade, the layer is one of the misc engine.
    """

    CASCADES_ALONE: ClassVar[bool] = True

    REACH: ClassVar[Reach] = Reach(
        rows_per_bank=min(CONV_REACH.rows_per_bank, MISC_REACH.rows_per_bank),
        row_jump=min(CONV_REACH.row_jump, MISC_REACH.row_jump),
    )

    array_groups: int
    """Channel groups that the array makes."""
    parallel: int
    """Channels of a bank word."""

    @functools.cached_property
    def array(self) -> ConvLayer:
        """The same as a layer of the array."""
        return array_layer(self, f"{self.name}/array", self.parallel)

    @property
    def misc_groups(self) -> int:
        """Channel groups that the misc engine makes."""
        assert self.weights is not None
        channels = int(self.weights.shape[2])
        return -(-channels // self.parallel) - self.array_groups

    @property
    def constants(self) -> Mapping[str, Int8Array]:
        """Those of the misc engine, and those of the array under its name."""
        of_array = {f"array/{name}": values for name, values in self.array.constants.items()}
        return {**super().constants, **of_array}

    def stripe_rows(self, target: Target) -> int:
        """Return the rows of the array."""
        return target.pixel_parallel

    def stripe_cycles(
        self, features: Features, target: Target, *, rows: int, columns: int, groups: int,
        rows_per_bank: int,
    ) -> StripeCycles:  # fmt: skip
        """Return the cycles of both engines."""
        times = -(-rows // target.alu_pixel_parallel)
        misc = self.passes_cycles(self.misc_groups, groups, columns, rows_per_bank)
        steps = self.array.column_cycles(features, target)
        array = self.array_groups * conv_cycles(
            columns, steps, self.array.write_cycles(rows_per_bank)
        )
        return StripeCycles(
            engine=times * misc, beside=array, passes=-(-self.misc_groups // groups)
        )

    def engine_cycles(self, features: Features, target: Target) -> Mapping[Engine, int]:
        """Return the cycles of both engines."""
        out = features[self.output]
        steps = self.array.column_cycles(features, target)
        array = -(-out.height // target.pixel_parallel) * self.array_groups
        return {
            Engine.CONV: array * conv_cycles(out.width, steps),
            Engine.MISC: -(-out.height // self.row_parallel(target))
            * self.instruction_cycles(out.width, self.misc_groups),
        }

    def weight_words(self, features: Features, target: Target) -> WeightWords:
        """Return the words of weights and biases for both engines."""
        taps = self.window.kernel_h * self.window.kernel_w
        bias = 2 * channel_groups(features[self.output], target)
        return WeightWords(conv=taps * self.array_groups, alu=taps * self.misc_groups, bias=bias)

    def weight_cycles(self, target: Target) -> int:
        """Return the cycles to load the weights of both engines."""
        blocks = self.array_groups + self.misc_groups
        array = self.array.weight_cycles(target) * self.array_groups // blocks
        return super().weight_cycles(target) + array
