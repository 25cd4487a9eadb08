# SPDX-License-Identifier: Apache-2.0
"""Cycles of all candidates for a convolution.

There are thousands for a layer, and networks have many layers of the same sizes: they are found in
arrays, once for all layers that are equal in what counts.
"""

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from opendpu.compiler.banks.reach import walks_round
from opendpu.compiler.layers import Feature, Window
from opendpu.compiler.layers.cost import (
    LATENCY,
    TILE_OVERHEAD,
    conv_cycles,
    misc_cycles,
    transfer_cycles,
)
from opendpu.compiler.limits import MAX_COLUMNS, Reach
from opendpu.compiler.planner.tiling.problem import (
    InputShape,
    input_shapes,
    read_columns,
    splits,
)
from opendpu_arch.target import Target

ROW_PASSES = (1, 2, 3, 4, 6, 8)
"""Instructions' rows that are tried as a pass over all output channels."""
BUFFERS = (2, 1)
"""Tiles of results that can be in their circular buffer."""
KEPT = 128
"""Sizes of layers whose candidates are remembered."""

Int64Array = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpilogueSizes:
    """What counts of the operation behind a convolution."""

    operands: int
    streamed: int
    """Operands beside the results of the convolution that come from DDR."""
    groups: int
    """Channel groups whose biases, or records, are on chip at a time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvSizes:
    """What the candidates of a convolution, and their cycles, depend on."""

    target: Target
    window: Window
    reach: Reach
    source: Feature
    """Without its name, as the result."""
    out: Feature
    groups_in: int
    taps: int
    """Weight words of a block of output channels."""
    steps: int
    """Cycles of a column."""
    blocks: int
    """Blocks of output channels."""
    weight_cycles: int
    """Cycles to load the weights of a block."""
    row_cycles: tuple[int, ...]
    """Cycles of all blocks, in as many rows as an instruction makes, for the columns of
    :func:`splits`."""
    streamed: bool
    """The input comes from DDR."""
    on_chip: bool
    """The result stays on chip whole."""
    saved: bool
    """It goes to DDR."""
    epilogue: EpilogueSizes | None

    def words(self, columns: int) -> int:
        """Return the words of an input row for so many output columns."""
        return read_columns(self.window, self.source, columns) * self.groups_in


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A way to cut a convolution."""

    shape: InputShape
    columns: int
    capacity: int
    """Address groups of the input's circular buffer, if it comes from DDR."""
    groups: int
    row_pass: int
    buffers: int
    """Tiles of results that their circular buffer holds, if they are not on chip whole."""
    cycles: int


@dataclasses.dataclass(frozen=True)
class ConvTable:
    """The candidates for a convolution, cheapest first."""

    shapes: tuple[InputShape, ...]
    rows: npt.NDArray[np.int32]
    """A row each: number of the shape, columns, capacity, groups, row pass, buffers."""
    cycles: Int64Array

    def candidates(self, columns: int | None = None) -> Iterator[Candidate]:
        """Yield all; or those with so many columns, if there are some."""
        chosen = np.arange(self.cycles.size)
        if columns is not None:
            wide = np.flatnonzero(self.rows[:, 1] == columns)
            chosen = wide if wide.size else chosen
        for place in chosen.tolist():
            shape, columns, capacity, groups, row_pass, buffers = self.rows[place].tolist()
            yield Candidate(
                shape=self.shapes[shape], columns=columns, capacity=capacity, groups=groups,
                row_pass=row_pass, buffers=buffers, cycles=int(self.cycles[place]),
            )  # fmt: skip


@functools.lru_cache(maxsize=KEPT)
def table(sizes: ConvSizes) -> ConvTable:
    """Return the candidates for a convolution of some sizes; none where no kernel fits."""
    shapes = _shapes(sizes) if sizes.taps <= sizes.target.bank_depth else ()
    rows, cycles = [np.empty((0, 6), np.int32)], [np.empty(0, np.int64)]
    for number, shape in enumerate(shapes):
        nests = _nests(sizes, shape)
        every = splits(min(sizes.out.width, MAX_COLUMNS))
        for columns, compute in zip(every, sizes.row_cycles, strict=True):
            if walks_round(sizes.window, sizes.target, columns, sizes.groups_in):
                continue
            groups, row_pass = nests[:, nests[0] * columns <= sizes.target.bank_depth]
            for capacity in _capacities(sizes, shape, columns):
                block = _Block(sizes, shape, columns, capacity, groups, row_pass, compute)
                buffers, found = block.cycles()
                made = np.empty((groups.size, buffers.size, 6), np.int32)
                made[..., :3] = number, columns, capacity
                made[..., 3], made[..., 4] = groups[:, np.newaxis], row_pass[:, np.newaxis]
                made[..., 5] = buffers
                rows.append(made.reshape(-1, 6))
                cycles.append(found.ravel())
    total = np.concatenate(cycles)
    order = np.argsort(total, kind="stable")
    return ConvTable(shapes, np.concatenate(rows)[order], total[order])


def _shapes(sizes: ConvSizes) -> tuple[InputShape, ...]:
    """Return how the input can lie in the banks."""
    most = sizes.target.pixel_parallel
    if not sizes.streamed:
        return (InputShape(rows=most, stride=1, least=1, advance=1, total=1),)
    return input_shapes(
        sizes.target, sizes.window, sizes.source.height, sizes.out.height, most,
        sizes.reach.rows_per_bank,
    )  # fmt: skip


def _capacities(sizes: ConvSizes, shape: InputShape, columns: int) -> list[int]:
    """Return the address groups that the circular buffer of the input can have."""
    if not sizes.streamed:
        return [0]
    words = sizes.words(columns)
    if shape.stride > 1 and words > sizes.reach.row_jump:
        return []
    depth = sizes.target.bank_depth
    return [c for c in shape.capacities() if c * shape.stride * words <= depth]


def _nests(sizes: ConvSizes, shape: InputShape) -> Int64Array:
    """Return the blocks of output channels and the rows of a pass, of every order of loops."""
    height, found = sizes.out.height, []
    most = min(sizes.blocks, sizes.target.bank_depth // sizes.taps)
    if sizes.epilogue is not None:
        most = min(most, sizes.epilogue.groups)
    for groups in splits(most):
        found.append((groups, height))
        if groups < sizes.blocks:
            rows = (shape.rows * n for n in ROW_PASSES)
            found += [(groups, row_pass) for row_pass in rows if row_pass < height]
    return np.array(found, np.int64).reshape(-1, 2).T


@dataclasses.dataclass(frozen=True)
class _Block:
    """Candidates that have their columns and their input in common."""

    sizes: ConvSizes
    shape: InputShape
    columns: int
    capacity: int
    groups: Int64Array
    row_pass: Int64Array
    row_cycles: int
    """Those of the array, in as many rows as an instruction makes."""

    @property
    def tiles(self) -> int:
        """Tiles of columns."""
        return -(-self.sizes.out.width // self.columns)

    @property
    def passes(self) -> Int64Array:
        """Passes over the rows."""
        return -(-self.sizes.blocks // self.groups)

    @property
    def transfers(self) -> Int64Array:
        """Cycles to load or save a row of a tile of the results."""
        parallel, channels = self.sizes.target.channel_parallel, self.sizes.out.channels
        found = [
            transfer_cycles(self.columns, min(channels, n * parallel), channels, parallel)
            for n in self.groups.tolist()
        ]
        return np.array(found, np.int64)

    def cycles(self) -> tuple[Int64Array, Int64Array]:
        """Return the numbers of buffers, and the cycles of every candidate with each of them."""
        out, tiles = self.sizes.out, self.tiles
        load, first, waiting = self._load_cycles()
        tight = (self.passes > 1) & (
            2 * self.groups * self.sizes.taps > self.sizes.target.bank_depth
        )
        serial = np.where(tight, load, waiting)
        compute = tiles * -(-out.height // self.shape.rows) * self.row_cycles
        total = first + np.maximum(compute + serial, load) + TILE_OVERHEAD * tiles
        if self.sizes.epilogue is not None:
            return self._with_epilogue(self.sizes.epilogue, total)
        if not self.sizes.saved:
            return np.zeros(1, np.int64), total[:, np.newaxis]
        row = self.transfers
        save = tiles * self.passes * out.height * row
        total += LATENCY + self.shape.rows * row
        every = np.stack([total + np.maximum(0, save - compute), total + save], axis=1)
        if self.sizes.on_chip:
            return np.zeros(1, np.int64), every[:, :1]
        return np.array(BUFFERS), every

    def _load_cycles(self) -> tuple[Int64Array, int, Int64Array]:
        """Return the cycles of all loads, of those before the first result, of those in between.

        Weights and input count; while the last kind runs, the array waits.
        """
        sizes, shape, window, source = self.sizes, self.shape, self.sizes.window, self.sizes.source
        row_passes, several = -(-sizes.out.height // self.row_pass), self.passes > 1
        again = np.where(several, row_passes * self.tiles, 1)
        load = sizes.blocks * sizes.weight_cycles * again
        first = LATENCY + sizes.weight_cycles
        if not sizes.streamed:
            return load, first, np.zeros_like(load)
        needed = read_columns(window, source, self.columns)
        parallel = sizes.target.channel_parallel
        row = transfer_cycles(needed, source.channels, source.channels, parallel)
        in_pass = np.minimum((self.row_pass - 1) * window.stride_h + window.kernel_h, source.height)
        stays = -(-in_pass // (shape.stride * sizes.target.pixel_parallel)) < self.capacity
        every_pass = several & ~stays & (self.capacity < shape.total)
        rows = np.where(every_pass, self.passes * row_passes * in_pass, source.height)
        load = load + self.tiles * rows * row
        first += row * ((shape.rows - 1) * window.stride_h + window.kernel_h)
        moved = self.tiles * rows * row
        return load, first, np.zeros_like(load) if shape.overlaps(self.capacity) else moved

    def _with_epilogue(
        self, epilogue: EpilogueSizes, alone: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return the same with an operation behind; the convolution takes ``alone``.

        Buffers are between the two.
        """
        sizes, shape = self.sizes, self.shape
        times = -(-shape.rows // sizes.target.alu_pixel_parallel)
        misc = times * np.array(
            [misc_cycles(self.columns, n, epilogue.operands) for n in self.groups.tolist()]
        )
        conv = self.groups * conv_cycles(self.columns, sizes.steps)
        tiles = self.tiles * -(-sizes.out.height // shape.rows) * self.passes
        total = alone + misc
        every = [total + tiles * np.maximum(0, misc - conv), total + tiles * misc]
        moved = epilogue.streamed + sizes.saved
        if moved:
            transfer = moved * shape.rows * self.transfers
            every[0] += LATENCY + transfer + tiles * np.maximum(0, transfer - conv)
            every[1] += LATENCY + transfer + tiles * transfer
        return np.array(BUFFERS), np.stack(every, axis=1)
