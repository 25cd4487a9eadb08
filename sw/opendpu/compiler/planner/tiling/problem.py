# SPDX-License-Identifier: Apache-2.0
"""What a tiling of a layer is, and what the candidates of all layer kinds are found with."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from opendpu.compiler.banks import Region
from opendpu.compiler.banks.layout import Layout, address_groups
from opendpu.compiler.layers import ComputeLayer, Feature, Layer, Window, channel_groups
from opendpu.compiler.limits import ADDRESS_GROUPS
from opendpu.compiler.network import Network
from opendpu.compiler.plan import LoopNest
from opendpu_arch.target import Target

KEPT = 256
"""Sizes of layers whose input's candidates are remembered."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stream:
    """Words that a moving part of a feature map needs: address groups, rows a bank, row words."""

    capacity: int
    stride: int
    row_words: int

    @property
    def words(self) -> int:
        """Words a bank."""
        return self.capacity * self.stride * self.row_words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tiling:
    """One way to cut a layer: loops, streams (none: on chip whole), and its cost in cycles.

    ``tile`` is what the results of a convolution with an epilogue need until they are combined;
    an output that is not on chip whole takes the same words.
    """

    nest: LoopNest
    sources: tuple[Stream | None, ...]
    output: Stream | None
    cycles: int
    tile: Stream | None = None
    alternate: Stream | None = None
    """Takes turns with the stream of the first operand, in another bank group if possible."""
    passes_through: bool = False
    """What is read from DDR takes the words of the output."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TilingProblem:
    """A layer to cut, and what is known around it."""

    layer: Layer
    network: Network
    target: Target
    whole: Mapping[str, Region]
    saved: Collection[str] = ()
    """Feature maps that go to DDR although they are on chip whole."""

    @functools.cached_property
    def window(self) -> Window:
        """The window of the layer; one pixel for element-wise layers."""
        layer = self.layer
        found = layer.sliding_window(layer.operands[0]) if layer.operands else None
        return found or Window()

    @functools.cached_property
    def out(self) -> Feature:
        """The result."""
        return self.network.features[self.layer.output]


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputShape:
    """How a streamed input lies in the banks, whatever its columns."""

    rows: int
    """Output rows an instruction makes."""
    stride: int
    """Input rows a bank."""
    least: int
    """Address groups that the rows of one instruction need."""
    advance: int
    """Address groups from one instruction's rows to the next one's."""
    total: int
    """Address groups of all rows."""

    def capacities(self) -> list[int]:
        """Return the address groups to try, the most first."""
        wanted = (self.least + extra * self.advance for extra in (0, 1, 2))
        return sorted(
            {min(self.total, capacity) for capacity in wanted} | {self.total}, reverse=True
        )

    def overlaps(self, capacity: int) -> bool:
        """Tell whether the next rows can be loaded while these are in use."""
        return capacity >= min(self.total, self.least + self.advance)


Tilings = Callable[[TilingProblem, Any], Iterable[Tiling]]
"""Returns the candidates for a layer of one kind, which is the second argument, cheapest first."""


def cheapest_first(tilings: Iterable[Tiling]) -> list[Tiling]:
    """Return candidates in the order of their cycles, equal ones as they are."""
    return sorted(tilings, key=lambda tiling: tiling.cycles)


def splits(total: int) -> Iterator[int]:
    """Yield tile sizes from ``total`` down to 1, in ever smaller steps."""
    last, parts = 0, 1
    while last != 1:
        size = -(-total // parts)
        if size != last:
            yield size
        last = size
        parts += max(1, parts // 4)


@functools.lru_cache(maxsize=KEPT)
def input_shapes(
    target: Target, window: Window, source_height: int, out_height: int, most: int,
    rows_per_bank: int,
) -> tuple[InputShape, ...]:  # fmt: skip
    """Return the candidates for streaming an input, with ``most`` rows an instruction first.

    ``rows_per_bank`` is the most of its rows that may share a bank. A single row can be read
    wherever its input is, so it is also tried with the fewest input rows a bank: large windows do
    not fit otherwise.
    """
    stored = min(out_height * window.stride_h + window.kernel_h, source_height + window.pad_top)
    found, rows = [], min(most, out_height)
    while rows >= 1:
        strides = dict.fromkeys([window.stride_h])
        if rows == 1:
            strides |= dict.fromkeys(range(1, rows_per_bank + 1))
        for stride in strides:
            if stride > rows_per_bank:
                continue
            least = _touched(target, window, source_height, out_height, stride, rows)
            if least is not None:
                found.append(
                    InputShape(
                        rows=rows, stride=stride, least=least,
                        advance=-(-rows * window.stride_h // (stride * target.pixel_parallel)),
                        total=max(least, address_groups(target, stride, stored)),
                    )
                )  # fmt: skip
                if stride != window.stride_h:
                    break
        rows = rows // 2 if rows > 1 else 0
    return tuple(found)


def _touched(
    target: Target, window: Window, source_height: int, out_height: int, stride: int, rows: int
) -> int | None:
    """Return the most address groups of real rows that an instruction touches, if that works."""
    region = Region(
        bank_group=0, base=0, words=0, stride=stride, capacity=1, first_row=-window.pad_top
    )
    layout = Layout(target=target, region=region, columns=1, groups=1)
    most = 1
    for row in range(0, out_height, rows):
        many = min(rows, out_height - row)
        top = row * window.stride_h - window.pad_top
        height = (many - 1) * window.stride_h + window.kernel_h
        if layout.groups_touched(top, height) > ADDRESS_GROUPS:
            return None
        first, last = max(0, top), min(source_height, top + height) - 1
        most = max(most, layout.groups_touched(first, max(1, last - first + 1)))
    return most


def groups_with_biases(problem: TilingProblem, layer: ComputeLayer) -> int:
    """Return the channel groups whose biases, or records, are on chip at a time."""
    target, features = problem.target, problem.network.features
    groups = channel_groups(features[layer.output], target)
    words = layer.weight_words(features, target).bias
    return groups if words <= target.bank_depth else target.bank_depth * groups // words


def read_columns(window: Window, source: Feature, columns: int) -> int:
    """Return the input columns that ``columns`` output columns need at most."""
    return min(source.width, (columns - 1) * window.stride_w + window.kernel_w)
