# SPDX-License-Identifier: Apache-2.0
"""What layers of the misc engine have in common: channel groups of a result are independent."""

import abc
import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from opendpu.compiler.layers.feature import Window
from opendpu.compiler.layers.layer import ComputeLayer, Features, StripeCycles, channel_groups
from opendpu.compiler.limits import MAX_CHANNEL_GROUPS
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target

MOST_PASSES = 8
"""Passes in which a layer follows one of the array, at most."""
SHORT_PASS = 128
"""Cycles under which a pass costs more than it hides."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MiscLayer(ComputeLayer):
    """A layer of the misc engine."""

    ENGINE: ClassVar[Engine | None] = Engine.MISC

    @abc.abstractmethod
    def instruction_cycles(self, columns: int, groups: int, rows_per_bank: int = 1) -> int:
        """Return the cycles of one instruction that makes so many columns and channel groups."""

    @property
    def max_output_groups(self) -> int | None:
        """Channel groups of an instruction."""
        return MAX_CHANNEL_GROUPS

    def row_parallel(self, target: Target) -> int:
        """Return the rows of the engine."""
        return target.alu_pixel_parallel

    def groups_a_pass(self, features: Features, target: Target, columns: int) -> int:
        """Return all channel groups."""
        return channel_groups(features[self.output], target)

    def groups_behind_array(self, features: Features, target: Target, columns: int) -> int:
        """Return the channel groups that are made at a time where the array makes the input.

        The first ones are made while the array makes the last ones.
        """
        groups = self.groups_a_pass(features, target, columns)
        passes = min(MOST_PASSES, self.instruction_cycles(columns, groups) // SHORT_PASS, groups)
        return -(-groups // max(1, passes))

    def stripe_cycles(
        self, features: Features, target: Target, *, rows: int, columns: int, groups: int,
        rows_per_bank: int,
    ) -> StripeCycles:  # fmt: skip
        """Return the cycles of an instruction for every pass of channel groups."""
        every = channel_groups(features[self.output], target)
        cycles = self.passes_cycles(every, groups, columns, rows_per_bank)
        return StripeCycles(engine=cycles, passes=-(-every // groups))

    def passes_cycles(self, every: int, groups: int, columns: int, rows_per_bank: int) -> int:
        """Return the cycles of ``every`` channel group of some rows, so many ``groups`` a pass."""
        passes, rest = divmod(every, groups)
        cycles = passes * self.instruction_cycles(columns, groups, rows_per_bank)
        return cycles + (self.instruction_cycles(columns, rest, rows_per_bank) if rest else 0)

    def row_cycles(self, features: Features, target: Target) -> int:
        """Return the cycles of a whole row."""
        out = features[self.output]
        return self.instruction_cycles(out.width, channel_groups(out, target))


def window_rules(window: Window) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the padding of a window."""
    if window.pad_top >= window.kernel_h or window.pad_left >= window.kernel_w:
        yield (
            "padding-below-kernel",
            f"padding {window.pad_top}, {window.pad_left}; "
            f"kernel {window.kernel_h}, {window.kernel_w}",
        )
