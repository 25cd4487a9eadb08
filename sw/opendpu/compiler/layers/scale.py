# SPDX-License-Identifier: Apache-2.0
"""Products with one factor for each channel, which another layer makes."""

import dataclasses
from collections.abc import Iterator, Mapping

from opendpu.compiler.layers.alu import AluLayer
from opendpu.compiler.layers.feature import Int8Array
from opendpu.compiler.layers.layer import Features, WeightWords, channel_groups
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaleLayer(AluLayer):
    """A feature map times a single pixel, as a depthwise convolution whose weights are the pixel.

    LOAD brings these from where the pixel is in DDR. ELEW would take a step for each operand, this
    takes one in all. Gates of squeeze-and-excitation are such pixels.
    """

    factors: str
    """The pixel."""

    @property
    def operands(self) -> tuple[str, ...]:
        """The feature map, then the pixel."""
        return (self.source, self.factors)

    @property
    def label(self) -> str:
        """A scale."""
        return "scale"

    @property
    def constants(self) -> Mapping[str, Int8Array]:
        """The table, if there is one: weights are no constants here."""
        return self.tables

    def repeats(self, name: str) -> bool:
        """Tell whether it is the pixel."""
        return name == self.factors

    def reads_from_ddr(self, name: str) -> bool:
        """Tell that weights never come from the image banks."""
        return name == self.factors

    def weight_words(self, features: Features, target: Target) -> WeightWords:
        """Return the words of the pixel."""
        return WeightWords(alu=channel_groups(features[self.output], target))

    def weight_cycles(self, target: Target) -> int:
        """Return none: the pixel counts as an operand that is loaded."""
        return 0

    def broken_rules(self, features: Features) -> Iterator[tuple[str, str]]:
        """Check that there is one pixel, of as many channels as the result."""
        yield from super().broken_rules(features)
        pixel, out = features[self.factors], features[self.output]
        if (pixel.height, pixel.width, pixel.channels) != (1, 1, out.channels):
            yield "single-pixel", f"{pixel.name} is {pixel}, the result {out}"
