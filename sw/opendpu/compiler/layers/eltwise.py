# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations on the misc engine."""

import dataclasses
from collections.abc import Iterator, Mapping

from opendpu.compiler.layers.cost import misc_cycles
from opendpu.compiler.layers.feature import Int8Array
from opendpu.compiler.layers.layer import Features, WeightWords
from opendpu.compiler.layers.misc import MiscLayer
from opendpu_arch.isa import ElewType
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class EltwiseLayer(MiscLayer):
    """Element-wise operation on one to four feature maps of one shape."""

    sources: tuple[str, ...]
    shift_read: tuple[int, ...]
    shift_write: int
    kind: ElewType = ElewType.ADD
    relu: bool = False

    @property
    def operands(self) -> tuple[str, ...]:
        """Its inputs, in order."""
        return self.sources

    @property
    def label(self) -> str:
        """What ELEW does."""
        return self.kind.name.lower()

    @property
    def ends_in_elew(self) -> bool:
        """Always so."""
        return True

    @property
    def constants(self) -> Mapping[str, Int8Array]:
        """The table, if there is one."""
        return self.tables

    def instruction_cycles(self, columns: int, groups: int, rows_per_bank: int = 1) -> int:
        """Return the cycles of an ELEW."""
        return misc_cycles(columns, groups, len(self.sources))

    def weight_words(self, features: Features, target: Target) -> WeightWords:
        """Return none: there are no constants."""
        return WeightWords()

    def broken_rules(self, features: Features) -> Iterator[tuple[str, str]]:
        """Check that every operand has its shift."""
        if len(self.shift_read) != len(self.sources):
            yield (
                "one-shift-a-source",
                f"{len(self.shift_read)} shifts for {len(self.sources)} sources",
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BroadcastLayer(EltwiseLayer):
    """Element-wise operation on a feature map and a single pixel, the last source.

    ELEW reads that pixel for every place, as the gates of squeeze-and-excitation need it.
    """

    def repeats(self, name: str) -> bool:
        """Tell whether it is the pixel."""
        return name == self.sources[-1]

    def broken_rules(self, features: Features) -> Iterator[tuple[str, str]]:
        """Check that there is one pixel, of as many channels as the result."""
        yield from super().broken_rules(features)
        pixel, out = features[self.sources[-1]], features[self.output]
        if (pixel.height, pixel.width, pixel.channels) != (1, 1, out.channels):
            yield "single-pixel", f"{pixel.name} is {pixel}, the result {out}"
