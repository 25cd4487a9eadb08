# SPDX-License-Identifier: Apache-2.0
"""Candidates for a dilated convolution whose input rows are gathered."""

import dataclasses
import functools
from collections.abc import Callable, Iterator

from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.banks.reach import can_write
from opendpu.compiler.layers import DilatedConvLayer, Feature
from opendpu.compiler.layers.cost import LATENCY, PORTS, TILE_OVERHEAD, conv_cycles, transfer_cycles
from opendpu.compiler.layers.gather import (
    ColumnTile,
    RowBlock,
    column_tiles,
    least_slots,
    row_blocks,
)
from opendpu.compiler.limits import CONV_REACH, MAX_COLUMNS
from opendpu.compiler.plan import LoopNest
from opendpu.compiler.planner.tiling.problem import (
    Stream,
    Tiling,
    TilingProblem,
    cheapest_first,
    splits,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Work:
    """What is the same for all tilings of a layer."""

    problem: TilingProblem
    layer: DilatedConvLayer
    source: Feature
    rows: tuple[RowBlock, ...]
    groups_in: int
    groups_read: int
    """Channel groups of the input that an output channel meets."""
    blocks: int
    """Blocks of output channels."""

    @property
    def kernel_rows(self) -> int:
        """The most kernel rows of an instruction."""
        return max(block.taps for block in self.rows)

    @property
    def weight_words(self) -> int:
        """Weight words of a block."""
        return self.layer.window.kernel_h * self.layer.window.kernel_w * self.groups_read

    @property
    def weight_cycles(self) -> int:
        """Cycles to load the weights of all blocks."""
        channels, parallel = self.layer.weights.shape[3], self.problem.target.channel_parallel
        kernel = self.layer.window.kernel_h * self.layer.window.kernel_w
        return self.problem.out.channels * transfer_cycles(kernel, channels, channels, parallel)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Tiles:
    """Tiles of ``columns`` columns at most, and what all of them cost."""

    tiles: tuple[ColumnTile, ...]
    columns: int
    phase_major: bool
    gathered: int
    """Cycles to load their rows once."""
    compute: int
    """Cycles of the array."""


def dilated_tilings(problem: TilingProblem, layer: DilatedConvLayer) -> list[Tiling]:
    """Return tilings of a dilated convolution."""
    return cheapest_first(_every(problem, layer))


def _every(problem: TilingProblem, layer: DilatedConvLayer) -> Iterator[Tiling]:
    target, out = problem.target, problem.out
    source = problem.network.features[layer.source]
    work = _Work(
        problem=problem, layer=layer, source=source,
        rows=row_blocks(
            layer, source.height, out.height, target.pixel_parallel, _fits(problem)
        ),
        groups_in=-(-source.channels // target.channel_parallel),
        groups_read=layer.groups_read(problem.network.features, target),
        blocks=-(-out.channels // target.output_channel_parallel),
    )  # fmt: skip
    if work.weight_words > target.bank_depth:
        return
    for phase_major in (False, True) if layer.phases > 1 else (False,):
        for columns in splits(min(out.width, MAX_COLUMNS)):
            if not phase_major:
                slots = least_slots(layer, source.width, out.width, columns)
                if slots * work.groups_in > target.bank_depth:
                    continue  # no stream holds it
            tiles = column_tiles(layer, source.width, out.width, columns, phase_major=phase_major)
            tiling = _tiling(work, tiles, columns, phase_major=phase_major)
            for streams in _streams(work, tiles):
                yield from _passes(work, tiling, streams)


def _fits(problem: TilingProblem) -> Callable[[int, int], bool]:
    """Return what tells whether an instruction can write rows of the result."""
    region = problem.whole.get(problem.layer.output)
    if region is None:
        return lambda row, rows: True
    out = problem.out
    groups = -(-out.channels // problem.target.channel_parallel)
    layout = Layout(target=problem.target, region=region, columns=out.width, groups=groups)
    return functools.partial(can_write, layout, max_jump=CONV_REACH.row_jump)


Streams = tuple[Stream, Stream | None]
"""Where gathered rows are: one, or two of the same size that take turns."""


def _streams(work: _Work, tiles: tuple[ColumnTile, ...]) -> Iterator[Streams]:
    """Yield what the gathered rows can occupy, the largest first."""
    depth, window = work.problem.target.bank_depth, work.layer.window
    words = max(tile.slots for tile in tiles) * work.groups_in
    if work.kernel_rows > 1 and words > CONV_REACH.row_jump:
        return
    for run in (run for tile in tiles for run in tile.runs):
        walked = (run.count - 1) * work.layer.tap_stride + window.kernel_w
        if run.jump * work.groups_in > CONV_REACH.row_jump:
            return
        if ((walked - 1) * run.jump + 1) * work.groups_in > depth:
            return  # nothing would notice a walk that is wrong, see walks_round
    for capacity in sorted(
        {1, 2, 3, len(work.rows)} & {*range(1, len(work.rows) + 1)}, reverse=True
    ):
        stream = Stream(capacity=capacity, stride=work.kernel_rows, row_words=words)
        if stream.words <= depth:
            yield stream, None
        elif capacity == 2 and stream.words <= 2 * depth and work.problem.target.bank_groups > 1:
            half = dataclasses.replace(stream, capacity=1)
            yield half, half


def _tiling(
    work: _Work, tiles: tuple[ColumnTile, ...], columns: int, *, phase_major: bool
) -> _Tiles:
    """Return tiles with their cycles."""
    channels, parallel = work.source.channels, work.problem.target.channel_parallel
    inputs = [at for block in work.rows for at in block.inputs]
    missing = inputs.count(None)
    gathered = sum(
        (len(inputs) - missing)
        * transfer_cycles(piece.count, channels, piece.step * channels, parallel)
        for tile in tiles
        for piece in tile.pieces
    )
    gathered += missing * sum(tile.slots for tile in tiles) * work.groups_in // PORTS
    steps = work.layer.window.kernel_w * work.groups_read
    compute = sum(
        conv_cycles(run.count, block.taps * steps)
        for tile in tiles
        for run in tile.runs
        for block in work.rows
    )
    return _Tiles(
        tiles=tiles, columns=columns, phase_major=phase_major, gathered=gathered,
        compute=compute * work.blocks,
    )  # fmt: skip


def _passes(work: _Work, tiling: _Tiles, streams: Streams) -> Iterator[Tiling]:
    """Yield the orders of rows and output channels, and the circular buffers of results."""
    problem, depth = work.problem, work.problem.target.bank_depth
    most_rows, columns = problem.target.pixel_parallel, tiling.columns
    for groups in splits(min(work.blocks, depth // work.weight_words)):
        if groups * columns > depth or not _can_write(work, tiling, groups):
            continue
        turns = [len(work.rows)]
        if groups < work.blocks:
            turns += [n for n in (1, 2, 3, 4, 6, 8) if n < len(work.rows)]
        for turn in turns:
            nest = LoopNest(
                columns=columns, rows=most_rows, row_pass=turn * most_rows, groups=groups,
                phase_major=tiling.phase_major,
            )  # fmt: skip
            for result, saved in _results(problem, nest):
                cycles = _cycles(work, tiling, nest, streams, saved)
                yield Tiling(
                    nest=nest, sources=streams[:1], alternate=streams[1], output=result,
                    cycles=cycles,
                )  # fmt: skip


def _results(problem: TilingProblem, nest: LoopNest) -> Iterator[tuple[Stream | None, int]]:
    """Yield the circular buffers of results, and how many tiles of them wait to be saved."""
    output = problem.layer.output
    if output in problem.whole:
        yield None, 2 if output in problem.saved else 0
        return
    for capacity in (2, 1):
        row_words = nest.columns * nest.groups
        yield Stream(capacity=capacity, stride=1, row_words=row_words), capacity


def _can_write(work: _Work, tiling: _Tiles, groups: int) -> bool:
    """Tell whether CONV can write the columns of a run, which are a phase apart."""
    problem = work.problem
    whole = work.layer.output in problem.whole
    if tiling.phase_major and len(tiling.tiles) > 1 and not whole:
        return True  # they lie side by side
    if whole:
        groups = -(-problem.out.channels // problem.target.channel_parallel)
    longest = max(run.count for tile in tiling.tiles for run in tile.runs)
    return longest == 1 or work.layer.phases * groups <= CONV_REACH.row_jump


def _cycles(
    work: _Work, tiling: _Tiles, nest: LoopNest, streams: Streams, out_capacity: int
) -> int:
    """Return the cycles that a tiling is expected to take."""
    parallel, tiles = work.problem.target.channel_parallel, len(tiling.tiles)
    turn = nest.row_pass // nest.rows
    passes, row_passes = -(-work.blocks // nest.groups), -(-len(work.rows) // turn)
    weights = work.weight_cycles * (row_passes * tiles if passes > 1 else 1)
    gathered = tiling.gathered
    held = sum(stream.capacity for stream in streams if stream is not None)
    if passes > 1 and held < turn:
        gathered *= passes
    serial = 0 if held > 1 else gathered
    if passes > 1 and 2 * nest.groups * work.weight_words > work.problem.target.bank_depth:
        serial += weights
    first = LATENCY + work.weight_cycles // work.blocks
    first += tiling.gathered // tiles // len(work.rows)
    total = first + max(tiling.compute + serial, weights + gathered) + TILE_OVERHEAD * tiles
    if out_capacity:
        out = work.problem.out
        channels = min(out.channels, nest.groups * parallel)
        row = transfer_cycles(nest.columns, channels, out.channels, parallel)
        save = tiles * passes * out.height * row
        total += LATENCY + nest.rows * row
        total += save if out_capacity == 1 else max(0, save - tiling.compute)
    return total
