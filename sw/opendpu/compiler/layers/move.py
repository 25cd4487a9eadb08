# SPDX-License-Identifier: Apache-2.0
"""Copies by LOAD and SAVE."""

import dataclasses
import enum
from collections.abc import Iterator

from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.layers.feature import Feature
from opendpu.compiler.layers.layer import Features, Layer
from opendpu_arch.target import Target


class Reduction(enum.Enum):
    """What a SAVE can make of the channels of a pixel: the first largest one, or its value."""

    INDEX = "index"
    VALUE = "value"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MoveLayer(Layer):
    """A copy by LOAD and SAVE, without arithmetic; the result is always in DDR.

    Pixels are repeated below and beside each other, or become one byte each. Without ``source``
    every byte is ``value``.
    """

    source: str | None
    repeat_h: int = 1
    repeat_w: int = 1
    reduction: Reduction | None = None
    value: int | None = None

    @property
    def operands(self) -> tuple[str, ...]:
        """What it copies, if it does."""
        return () if self.source is None else (self.source,)

    @property
    def only_repeats(self) -> bool:
        """Whether all that it does is to repeat pixels."""
        again = (self.repeat_h, self.repeat_w) != (1, 1)
        return self.source is not None and self.reduction is None and again

    @property
    def label(self) -> str:
        """A move."""
        return "move"

    def apart_cycles(self, source: Feature, target: Target) -> int:
        """Return the cycles lost where pixels are saved from the banks, not side by side.

        A pixel that is repeated in its row is then as many bursts.
        """
        parallel, channels = target.channel_parallel, source.channels
        across = self.repeat_w
        apart = across * transfer_cycles(source.width, channels, across * channels, parallel)
        dense = transfer_cycles(across * source.width, channels, channels, parallel)
        return self.repeat_h * source.height * (apart - dense) if across > 1 else 0

    def broken_rules(self, features: Features) -> Iterator[tuple[str, str]]:
        """Check that a copy has as many pixels as it should, and a filler its byte."""
        out = features[self.output]
        if self.source is None:
            if self.value is None or not -128 <= self.value <= 127:
                yield "value-of-fill", f"it writes {self.value}"
            return
        source = features[self.source]
        channels = source.channels if self.reduction is None else 1
        wanted = (source.height * self.repeat_h, source.width * self.repeat_w, channels)
        if (out.height, out.width, out.channels) != wanted:
            made = (out.height, out.width, out.channels)
            yield "shape-of-move", f"it makes {wanted}, not {made}"
