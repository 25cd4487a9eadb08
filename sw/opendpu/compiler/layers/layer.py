# SPDX-License-Identifier: Apache-2.0
"""What every layer kind says about itself; a kind is a subclass and a row of ``LAYER_KINDS``."""

import abc
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from opendpu.compiler.layers.feature import Feature, Int8Array, Window
from opendpu.compiler.limits import MISC_REACH, Reach
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target

PER_CHANNEL = ("bias", "shifts")
"""Fields of layers with weights that have a byte for each output channel."""

Features = Mapping[str, Feature]
"""Feature maps by name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightWords:
    """Words a bank that the constants of a layer take, by kind of bank."""

    conv: int = 0
    alu: int = 0
    bias: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class StripeCycles:
    """Cycles of the instructions that make some rows of a result."""

    engine: int
    """Of the layer's engine."""
    epilogue: int = 0
    """Of the misc engine behind a convolution."""
    beside: int = 0
    """Of the array at the same time, for a layer of the misc engine."""
    passes: int = 1
    """Tiles of channels in which the misc engine follows."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layer(abc.ABC):
    """One operation of the DPU that makes the feature map ``output``."""

    name: str
    output: str
    op: str = ""
    """The op of the graph that the layer was lowered from; none where there is no graph."""

    ENGINE: ClassVar[Engine | None] = None
    """What computes it; none where it is only loaded and saved."""
    REACH: ClassVar[Reach] = MISC_REACH
    """How far its instructions reach."""
    IN_CASCADES: ClassVar[bool] = False
    """It can run together with its neighbours, stripe by stripe."""
    CASCADES_ALONE: ClassVar[bool] = False
    """It runs as a cascade of its own where it is in no other: stripe by stripe it takes less."""
    LOADS_AHEAD: ClassVar[bool] = False
    """It had better have words of its own beside the layer before, so that its operands come while
    that one computes."""

    @property
    @abc.abstractmethod
    def operands(self) -> tuple[str, ...]:
        """The feature maps that it reads; the one under a sliding window is first."""

    @property
    @abc.abstractmethod
    def label(self) -> str:
        """The operation in a word or two, for people."""

    @property
    def intermediate(self) -> str | None:
        """The result of a convolution that only its epilogue reads; it is nowhere whole."""
        return None

    @property
    def ends_in_elew(self) -> bool:
        """Whether ELEW writes the result, which reaches one row a bank."""
        return False

    @property
    def in_place_operands(self) -> tuple[str, ...]:
        """Operands whose words the result can take: each is read before it is written."""
        return ()

    @property
    def inner(self) -> "tuple[Layer, ...]":
        """Layers that run as parts of this one, with constants of their own."""
        return ()

    @property
    def constants(self) -> Mapping[str, Int8Array]:
        """Weights and biases by what they are called in the weight segment, in its order."""
        return {}

    def sliding_window(self, name: str) -> Window | None:
        """Return the window over an operand; none where a pixel is read for its own place."""
        return None

    @property
    def columns_a_pixel(self) -> int:
        """How many columns of the result a column of the first operand makes, without a window."""
        return 1

    def repeats(self, name: str) -> bool:
        """Tell whether an operand is a single pixel that stands at every place."""
        return False

    def reads_from_ddr(self, name: str) -> bool:
        """Tell whether an operand has to come from DDR, even if it is on chip too."""
        return False

    def preferred_rows_per_bank(self, name: str) -> int:
        """Return the layout of an operand that is read at full speed."""
        window = self.sliding_window(name)
        return 1 if window is None else window.stride_h

    def broken_rules(self, features: Features) -> Iterator[tuple[str, str]]:
        """Yield (rule, what is wrong) where the layer cannot be what it says."""
        yield from ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComputeLayer(Layer):
    """A layer with arithmetic: its instructions make some rows of the result at a time."""

    IN_CASCADES: ClassVar[bool] = True

    table: Int8Array | None = None
    """What the result's bytes go through, 256 entries; needs the extension ``table``."""

    @property
    def per_channel(self) -> Mapping[str, Int8Array]:
        """Constants with a byte for each output channel, by field: some of ``PER_CHANNEL``."""
        every = {name: getattr(self, name, None) for name in PER_CHANNEL}
        return {name: values for name, values in every.items() if values is not None}

    @property
    def tables(self) -> Mapping[str, Int8Array]:
        """The table as a constant, where there is one."""
        return {} if self.table is None else {"table": self.table}

    @abc.abstractmethod
    def row_parallel(self, target: Target) -> int:
        """Return the output rows that one instruction makes."""

    @abc.abstractmethod
    def groups_a_pass(self, features: Features, target: Target, columns: int) -> int:
        """Return how much of the channels rows of ``columns`` are made of at a time, in a cascade.

        In blocks of output channels for CONV, in channel groups for the misc engine.
        """

    @abc.abstractmethod
    def weight_words(self, features: Features, target: Target) -> WeightWords:
        """Return what the constants take in their banks."""

    @abc.abstractmethod
    def stripe_cycles(
        self, features: Features, target: Target, *, rows: int, columns: int, groups: int,
        rows_per_bank: int,
    ) -> StripeCycles:  # fmt: skip
        """Return what a stripe costs: ``rows`` rows of all channels, ``groups`` a pass."""

    @abc.abstractmethod
    def row_cycles(self, features: Features, target: Target) -> int:
        """Return the cycles of the instructions that make as many rows as they can at a time."""

    def total_cycles(self, features: Features, target: Target) -> int:
        """Return the cycles of the instructions that make all rows."""
        times = -(-features[self.output].height // self.row_parallel(target))
        return times * self.row_cycles(features, target)

    def stripe_rows(self, target: Target) -> int:
        """Return the rows that are made at a time in a cascade."""
        return self.row_parallel(target)

    def engine_cycles(self, features: Features, target: Target) -> Mapping[Engine, int]:
        """Return the cycles of the instructions that make all rows in a cascade, by engine."""
        return {} if self.ENGINE is None else {self.ENGINE: self.total_cycles(features, target)}

    @property
    def max_output_groups(self) -> int | None:
        """Channel groups of a result that an instruction makes at most, if that is a limit."""
        return None

    def weight_cycles(self, target: Target) -> int:
        """Return the cycles to load the weights."""
        return 0

    def single_row_cycles(self, features: Features, target: Target) -> int:
        """Return the cycles lost when every instruction makes a single row."""
        height = features[self.output].height
        lost = height - -(-height // self.row_parallel(target))
        return lost * self.row_cycles(features, target)


def fields_of(layer: "Layer", kind: "type[Layer] | None" = None) -> dict[str, Any]:
    """Return the fields of a layer, or those that ``kind`` has, to make one of another kind."""
    return {field.name: getattr(layer, field.name) for field in dataclasses.fields(kind or layer)}


def channel_groups(feature: Feature, target: Target) -> int:
    """Return the words of a pixel: channel groups."""
    return -(-feature.channels // target.channel_parallel)
