# SPDX-License-Identifier: Apache-2.0
"""Values that compiler passes hand on; frozen, without logic."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch.isa import ActType, AluMode, ElewType, Instruction

Int8Array = npt.NDArray[np.int8]

WEIGHTS_REG = 0
"""Address register of the weights and biases."""
WORKSPACE_REG = 1
"""Address register of feature maps that go through DDR between layers."""
INPUT_REG = 2
"""Address register of the inputs."""
OUTPUT_REG = 3
"""Address register of the outputs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """A feature map: ``height`` x ``width`` pixels of ``channels`` int8 values."""

    name: str
    height: int
    width: int
    channels: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """A sliding window: sizes, steps and zero padding, in rows and columns."""

    kernel_h: int = 1
    kernel_w: int = 1
    stride_h: int = 1
    stride_w: int = 1
    pad_top: int = 0
    pad_left: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class AluLayer:
    """Depthwise convolution, pooling or activation on the misc engine; ``weights`` HWC or none."""

    name: str
    source: str
    output: str
    window: Window
    mode: AluMode
    weights: Int8Array | None = None
    bias: Int8Array | None = None
    shift_cut: int = 0
    shift_bias: int = 0
    multi_factor: int = 0
    shift_prelu_p: int = 0
    shift_prelu_n: int = 0
    act_type: ActType = ActType.NONE


@dataclasses.dataclass(frozen=True, kw_only=True)
class EltwiseLayer:
    """Element-wise operation on one to four feature maps of one shape."""

    name: str
    sources: tuple[str, ...]
    output: str
    shift_read: tuple[int, ...]
    shift_write: int
    kind: ElewType = ElewType.ADD
    relu: bool = False


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
class ConvLayer:
    """Convolution on the CONV engine; ``weights`` OHWI, ``bias`` one int8 an output channel.

    ``output`` is what leaves the layer: the result of the epilogue where there is one.
    """

    name: str
    source: str
    output: str
    window: Window
    weights: Int8Array
    bias: Int8Array
    shift_cut: int
    shift_bias: int
    act_type: ActType = ActType.NONE
    epilogue: Epilogue | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DilatedConvLayer(ConvLayer):
    """Convolution whose taps are apart; LOAD gathers the rows that each output row needs.

    ``window`` counts taps, not what lies between them; its padding is negative where taps that only
    meet padding have been left out. The input is always read from DDR.
    """

    dilation_h: int
    dilation_w: int


class Reduction(enum.Enum):
    """What a SAVE can make of the channels of a pixel: the first largest one, or its value."""

    INDEX = "index"
    VALUE = "value"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MoveLayer:
    """A copy by LOAD and SAVE, without arithmetic; the result is always in DDR.

    Pixels are repeated below and beside each other, or become one byte each. Without ``source``
    every byte is ``value``.
    """

    name: str
    source: str | None
    output: str
    repeat_h: int = 1
    repeat_w: int = 1
    reduction: Reduction | None = None
    value: int | None = None


ComputeLayer = ConvLayer | AluLayer | EltwiseLayer
Layer = ComputeLayer | MoveLayer


def sources_of(layer: Layer) -> tuple[str, ...]:
    """Return the names of the feature maps that ``layer`` reads; a window's input is first."""
    if isinstance(layer, EltwiseLayer):
        return layer.sources
    if isinstance(layer, ConvLayer) and layer.epilogue is not None:
        return (layer.source, *layer.epilogue.others)
    return () if layer.source is None else (layer.source,)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """Where a feature map is in DDR: byte address in a segment, bytes between rows and pixels."""

    reg_id: int
    address: int
    row_bytes: int
    pixel_bytes: int
    lead: int | None = None
    """Bytes of the first pixel in front of its row, where pixels overlap; else none."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alias:
    """Bytes of feature map ``holder``, counted as if that had no gaps.

    Offset of the first pixel, and bytes from a pixel to the next one in its row and to the one
    below. Any of them may leave gaps, for reading and for writing: slices, the phases of a larger
    map, its inside without a border.
    """

    holder: str
    offset: int
    pixel_bytes: int
    row_bytes: int
    overlapping: bool = False
    """Pixels overlap, and some hang over the ends of their rows."""


def root_of(aliases: Mapping[str, Alias], name: str) -> str:
    """Return the feature map whose bytes ``name`` is part of."""
    while name in aliases:
        name = aliases[name].holder
    return name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """What one DPU subgraph computes: layers in order, feature maps by name.

    ``aliases`` says which feature maps are bytes of another one: reshapes and concatenations that
    cost nothing.
    """

    features: Mapping[str, Feature]
    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    aliases: Mapping[str, Alias] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Region:
    """Words of an image bank group that hold a feature map or a moving part of it.

    Row ``r`` is the ``k``-th stored row, ``k = r - first_row``; ``stride`` consecutive rows share a
    bank, ``ring`` address groups follow each other and then start again.
    """

    bank_group: int
    base: int
    words: int
    stride: int
    ring: int
    first_row: int = 0
    whole: bool = False
    """The region holds the whole feature map until its last reader."""


@dataclasses.dataclass(frozen=True)
class Span:
    """From one layer to another, by number, both included."""

    first: int
    last: int

    def overlaps(self, other: "Span") -> bool:
        """Tell whether both cover some layer."""
        return self.first <= other.last and other.first <= self.last


@dataclasses.dataclass(frozen=True, kw_only=True)
class Banks:
    """Feature maps that stay on chip whole, and during which layers.

    ``streamed`` holds (layer number, feature map) where a layer reads from DDR all the same,
    because it needs the rows in other banks.
    """

    regions: Mapping[str, Region]
    spans: Mapping[str, Span]
    streamed: frozenset[tuple[int, str]] = frozenset()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nest:
    """Loop bounds of a layer: output columns and channel groups a tile, rows and rows a pass."""

    columns: int
    rows: int
    """Rows an instruction makes at most."""
    row_pass: int
    """Output rows after which the next block of output channels is started."""
    groups: int
    """Channel groups a tile (misc engine) or output channel blocks a pass (CONV)."""
    phase_major: bool = False
    """Columns of a dilated kernel are counted phase by phase, see :mod:`gather`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerPlan:
    """A layer with its loops and its places on chip."""

    layer: Layer
    nest: Nest
    sources: tuple[Region, ...]
    output: Region
    tile: Region | None = None
    """Where the results of a convolution wait for its epilogue."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chain:
    """Layers ``first`` to ``last`` that run together, some rows of each in turn.

    ``tiles`` says, for every tile of columns, first column and columns of each feature map;
    ``turns`` is the order within a tile: (layer number, first row, rows).
    """

    first: int
    last: int
    tiles: tuple[Mapping[str, tuple[int, int]], ...]
    turns: tuple[tuple[int, int, int], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A network with every decision made."""

    network: Network
    layers: tuple[LayerPlan, ...]
    chains: tuple[Chain, ...] = ()
    """Layers of no chain run one after the other."""
    memory: Mapping[str, Memory]
    """Feature maps that live (also) in DDR."""
    constants: Mapping[str, int]
    """Byte address in the weight segment of ``<layer>/weights`` and ``<layer>/bias``."""
    segment_bytes: Mapping[int, int]
    blob: bytes


@dataclasses.dataclass(frozen=True)
class BankAccess:
    """Words ``low .. low + count`` (modulo the depth) of banks ``bank .. bank + banks``."""

    write: bool
    bank: int
    banks: int
    low: int
    count: int


@dataclasses.dataclass(frozen=True)
class MemoryAccess:
    """Bytes ``low .. high`` of a DDR segment."""

    write: bool
    reg_id: int
    low: int
    high: int


@dataclasses.dataclass(frozen=True)
class Step:
    """An instruction without tokens, what it touches, and a guess of its cycles."""

    instruction: Instruction
    accesses: tuple[BankAccess | MemoryAccess, ...]
    cycles: int
    layer: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """A program and what the cost model expects of it."""

    instructions: tuple[Instruction, ...]
    cycles: int
    busy_cycles: dict[str, int]
    layers: tuple[str, ...]
    """Layer of every instruction; none for END."""
    start: tuple[int, ...]
    """Cycle in which every instruction is expected to start."""
    end: tuple[int, ...]
    """Cycle in which it is expected to be done."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """A compiled network: what was decided, and the instructions."""

    plan: Plan
    schedule: Schedule


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """Ops that run on one device, in order; constants go with their users.

    What a plug-in has taken has a ``name`` and attributes of its own.
    """

    device: str
    nodes: tuple[str, ...]
    name: str = ""
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Partition:
    """The parts in an order in which they can run, and reasons by op that is on the CPU."""

    parts: tuple[Part, ...]
    reasons: Mapping[str, str]
