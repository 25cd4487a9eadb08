# SPDX-License-Identifier: Apache-2.0
"""A network with every decision made; frozen, without logic."""

import dataclasses
from collections.abc import Mapping

from opendpu.compiler.banks import Region
from opendpu.compiler.layers import Layer
from opendpu.compiler.network import LayerRange, Network

WEIGHTS_REG = 0
"""Address register of the weights and biases."""
WORKSPACE_REG = 1
"""Address register of feature maps that go through DDR between layers."""
INPUT_REG = 2
"""Address register of the inputs."""
OUTPUT_REG = 3
"""Address register of the outputs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """Where a feature map is in DDR: byte address in a segment, bytes between rows and pixels."""

    reg_id: int
    address: int
    row_bytes: int
    pixel_bytes: int
    lead: int | None = None
    """Bytes of the first pixel in front of its row, where pixels overlap; else none."""
    padding: int = 0
    """What is beside rows then."""
    repeat_h: int = 1
    repeat_w: int = 1
    """How often every pixel stands below and beside itself; only to be loaded."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopNest:
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
    trimmed: bool = False
    """Instructions of a dilated kernel have the kernel columns that meet the input, no others."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerPlan:
    """A layer with its loops and its places on chip."""

    layer: Layer
    nest: LoopNest
    sources: tuple[Region, ...]
    output: Region
    tile: Region | None = None
    """Where the results of a convolution wait for its epilogue."""
    alternate: Region | None = None
    """Takes turns with the region of the first operand, in another bank group if possible."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CascadePlan:
    """Consecutive layers that run together, stripes of rows of each in turn.

    ``tiles`` says, for every tile of columns, first column and columns of each feature map;
    ``issue_order`` is that of the stripes within a tile: (layer number, first row, rows).
    """

    layers: LayerRange
    tiles: tuple[Mapping[str, tuple[int, int]], ...]
    issue_order: tuple[tuple[int, int, int], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A network with every decision made."""

    network: Network
    layers: tuple[LayerPlan, ...]
    cascades: tuple[CascadePlan, ...] = ()
    """Layers of no cascade run one after the other."""
    memory: Mapping[str, Memory]
    """Feature maps that live (also) in DDR."""
    constants: Mapping[str, int]
    """Byte address in the weight segment of ``<layer>/weights`` and ``<layer>/bias``."""
    segment_bytes: Mapping[int, int]
    blob: bytes
