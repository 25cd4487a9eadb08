# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations on the misc engine."""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from opendpu.compiler.layers.cost import misc_cycles
from opendpu.compiler.layers.feature import Int8Array
from opendpu.compiler.layers.layer import Features, WeightWords, channel_groups
from opendpu.compiler.layers.misc import MiscLayer
from opendpu.compiler.layers.requantization import Requantization, bias_words
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
    requantization: Requantization | None = None
    """How results are made by records of the extension ``scaled``, of terms of the inputs."""
    bias: npt.NDArray[np.void] | None = None
    """What :data:`CHANNEL` has of each channel, then."""
    terms: tuple[npt.NDArray[np.int32], ...] = ()
    """What each byte of an input counts, 256 an input, then."""

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
        """The table, records and terms, if there are any."""
        found = dict(self.tables)
        if self.requantization is not None:
            assert self.bias is not None
            found["bias"] = self.requantization.records(self.bias)
            for number, terms in enumerate(self.terms):
                found[f"terms{number}"] = terms.astype("<i4").view(np.int8)
        return found

    def instruction_cycles(self, columns: int, groups: int, rows_per_bank: int = 1) -> int:
        """Return the cycles of an ELEW."""
        interval = 1 if self.requantization is None else self.requantization.interval
        return misc_cycles(columns, groups, max(len(self.sources), interval))

    def weight_words(self, features: Features, target: Target) -> WeightWords:
        """Return the words of records; there are no others."""
        if self.requantization is None:
            return WeightWords()
        groups = channel_groups(features[self.output], target)
        return WeightWords(bias=bias_words(groups, self.requantization))

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
