# SPDX-License-Identifier: Apache-2.0
"""Candidates for a dilated convolution whose input rows are gathered."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.banks.reach import can_write
from opendpu.compiler.layers import DilatedConvLayer, Feature
from opendpu.compiler.layers.cost import LATENCY, PORTS, TILE_OVERHEAD, conv_cycles, transfer_cycles
from opendpu.compiler.layers.gather import RowBlock, kernel_rows, row_blocks
from opendpu.compiler.layers.gather_columns import ColumnTile, column_tiles, least_slots
from opendpu.compiler.limits import CONV_REACH, MAX_COLUMNS, MAX_PIXEL_JUMP
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

    def kernel_rows_of(self, taken: Sequence[RowBlock]) -> int:
        """Return the kernel rows that a pass loads; those of depthwise kernels, few, are all."""
        return self.layer.window.kernel_h if self.layer.depthwise else len(kernel_rows(taken))

    @property
    def can_trim(self) -> bool:
        """Whether kernel columns can be loaded by themselves."""
        height, width = self.layer.window.kernel_h, self.layer.window.kernel_w
        far = width * self.layer.weights.shape[3] > MAX_PIXEL_JUMP
        return width > 1 and (height == 1 or not far) and not self.layer.depthwise

    def load_cycles(self, rows: int, columns: int) -> int:
        """Return the cycles to load a part of the kernel for all blocks."""
        width, channels = self.layer.window.kernel_w, self.layer.weights.shape[3]
        loads = [(rows * columns, channels)]
        if columns < width and rows > 1:
            loads = columns * [(rows, width * channels)]
        parallel = self.problem.target.channel_parallel
        return self.problem.out.channels * sum(
            transfer_cycles(pixels, channels, jump, parallel) for pixels, jump in loads
        )


def _kernel_columns(tiles: Iterable[ColumnTile]) -> set[range]:
    """Return the kernel columns of all instructions, each part of a kernel once."""
    return {run.taps for tile in tiles for run in tile.runs}


@dataclasses.dataclass(frozen=True)
class _Weights:
    """The parts of a kernel that are loaded."""

    words: int
    """Words of a block, as many as are needed at a time."""
    cycles: int
    """Cycles to load them for all blocks, as often as it takes."""
    first: int
    """Cycles to load those of the first tile and pass for all blocks."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Tiles:
    """Tiles of ``columns`` columns at most, and what all of them cost."""

    tiles: tuple[ColumnTile, ...]
    columns: int
    phase_major: bool
    trimmed: bool
    gathered: int
    """Cycles to load their rows once."""
    compute: int
    """Cycles of the array."""
    weights: Mapping[int, _Weights]
    """By blocks of rows in a pass, the most first."""
    held: _Weights
    """Those of all blocks of output channels, which stay from tile to tile."""


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
    for columns in _columns(layer, out.width):
        for phase_major, trimmed in _orders(work, columns):
            tiles = column_tiles(
                layer, source.width, out.width, columns, phase_major=phase_major, trimmed=trimmed
            )
            if trimmed and len(_kernel_columns(tiles)) == 1:
                continue  # nothing meets padding
            tiling = _tiling(work, tiles, columns, phase_major=phase_major, trimmed=trimmed)
            for streams in _streams(work, tiles):
                yield from _passes(work, tiling, streams)


def _columns(layer: DilatedConvLayer, width: int) -> list[int]:
    """Return the columns that a tile can have, those of the longer phases among them."""
    short, longer = divmod(width, layer.phases)
    sizes = [*splits(min(width, MAX_COLUMNS)), longer * (short + 1)]
    return [size for size in dict.fromkeys(sizes) if 0 < size <= MAX_COLUMNS]


def _orders(work: _Work, columns: int) -> Iterator[tuple[bool, bool]]:
    """Yield how instructions make a tile of columns: phase by phase, trimmed."""
    out = work.problem.out
    ways = (False, True) if work.can_trim else (False,)
    slots = least_slots(work.layer, work.source.width, out.width, columns)
    if slots * work.groups_in <= work.problem.target.bank_depth:  # else no stream holds it
        yield from ((False, trimmed) for trimmed in ways)
    if work.layer.phases > 1:
        yield from ((True, trimmed) for trimmed in ways)


def _fits(problem: TilingProblem) -> Callable[[int, int], bool]:
    """Return what tells whether an instruction can write rows of the result."""
    region = problem.whole.get(problem.layer.output)
    if region is None:
        return lambda row, rows: True
    out = problem.out
    groups = -(-out.channels // problem.target.channel_parallel)
    layout = Layout(target=problem.target, region=region, columns=out.width, groups=groups)
    return functools.partial(can_write, layout, max_jump=CONV_REACH.row_jump)


TURNS = (1, 2, 3, 4, 6, 8)
"""Blocks of rows in a pass that are tried, beside all of them."""
WAITS = 8
"""Part of the cycles that array and LOAD wait for each other, if they take as long."""
Streams = tuple[Stream, Stream | None]
"""Where gathered rows are: one, or two of the same size that take turns."""


def _streams(work: _Work, tiles: tuple[ColumnTile, ...]) -> Iterator[Streams]:
    """Yield what the gathered rows can occupy, the largest first."""
    depth = work.problem.target.bank_depth
    words = max(tile.slots for tile in tiles) * work.groups_in
    if work.kernel_rows > 1 and words > CONV_REACH.row_jump:
        return
    for run in (run for tile in tiles for run in tile.runs):
        walked = (run.count - 1) * work.layer.tap_stride + len(run.taps)
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
    work: _Work, tiles: tuple[ColumnTile, ...], columns: int, *, phase_major: bool, trimmed: bool
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
    compute = sum(
        conv_cycles(run.count, block.taps * len(run.taps) * work.groups_read)
        for tile in tiles
        for run in tile.runs
        for block in work.rows
    )
    most = len(work.rows)
    turns = (most, *(turn for turn in TURNS if turn < most))
    every_tile = [(tile,) for tile in tiles]
    return _Tiles(
        tiles=tiles, columns=columns, phase_major=phase_major, trimmed=trimmed,
        gathered=gathered, compute=compute * work.blocks,
        weights={turn: _weights(work, every_tile, turn) for turn in turns},
        held=_weights(work, [tiles], most),
    )  # fmt: skip


def _passes(work: _Work, tiling: _Tiles, streams: Streams) -> Iterator[Tiling]:
    """Yield the orders of rows and output channels, and the circular buffers of results."""
    problem, depth = work.problem, work.problem.target.bank_depth
    most_rows, columns = problem.target.pixel_parallel, tiling.columns
    for turn, own in tiling.weights.items():
        if own.words > depth:
            continue
        for groups in splits(min(work.blocks, depth // own.words)):
            weights = tiling.held if groups == work.blocks else own
            if weights is tiling.held and turn < len(work.rows):
                continue
            words = groups * max(columns, weights.words)
            if words > depth or not _can_write(work, tiling, groups):
                continue
            nest = LoopNest(
                columns=columns, rows=most_rows, row_pass=turn * most_rows, groups=groups,
                phase_major=tiling.phase_major, trimmed=tiling.trimmed,
            )  # fmt: skip
            for result, saved in _results(problem, nest):
                cycles = _cycles(work, tiling, nest, weights, streams, saved)
                yield Tiling(
                    nest=nest, sources=streams[:1], alternate=streams[1], output=result,
                    cycles=cycles,
                )  # fmt: skip


def _weights(work: _Work, parts: Sequence[tuple[ColumnTile, ...]], turn: int) -> _Weights:
    """Return the weights for passes of ``turn`` blocks of rows.

    Those of a block of output channels are loaded once for the tiles of each of ``parts``.
    """
    passes = [work.rows[n : n + turn] for n in range(0, len(work.rows), turn)]
    words = cycles = 0
    rows = work.kernel_rows_of(passes[0])
    first = sum(work.load_cycles(rows, len(part)) for part in _kernel_columns(parts[0][:1]))
    for tiles in parts:
        columns = [len(part) for part in _kernel_columns(tiles)]
        for taken in passes:
            rows = work.kernel_rows_of(taken)
            words = max(words, rows * sum(columns) * work.groups_read)
            cycles += sum(work.load_cycles(rows, many) for many in columns)
    return _Weights(words, cycles, first)


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
    work: _Work, tiling: _Tiles, nest: LoopNest, weights: _Weights, streams: Streams,
    out_capacity: int,
) -> int:  # fmt: skip
    """Return the cycles that a tiling is expected to take."""
    parallel, tiles = work.problem.target.channel_parallel, len(tiling.tiles)
    turn = nest.row_pass // nest.rows
    passes = -(-work.blocks // nest.groups)
    gathered = tiling.gathered
    held = sum(stream.capacity for stream in streams if stream is not None)
    if passes > 1 and held < turn:
        gathered *= passes
    serial = 0 if held > 1 else gathered
    if passes > 1 and 2 * nest.groups * weights.words > work.problem.target.bank_depth:
        serial += weights.cycles
    total = LATENCY + tiling.gathered // tiles // len(work.rows) + TILE_OVERHEAD * tiles
    total += weights.first // work.blocks
    total += max(tiling.compute + serial, weights.cycles + gathered)
    if not work.layer.depthwise:  # what those wait is in the price of their lanes
        total += _waits(work, tiling, nest, weights, weights.cycles + gathered)
    if out_capacity:
        out = work.problem.out
        channels = min(out.channels, nest.groups * parallel)
        row = transfer_cycles(nest.columns, channels, out.channels, parallel)
        save = tiles * passes * out.height * row
        total += LATENCY + nest.rows * row
        total += save if out_capacity == 1 else max(0, save - tiling.compute)
    return total


def _waits(work: _Work, tiling: _Tiles, nest: LoopNest, weights: _Weights, loaded: int) -> int:
    """Return the cycles that the array waits though LOAD has less to do, or LOAD for the array.

    All blocks of a pass load weights for the first rows. Later both wait for each other, the more
    so the nearer they are to being busy all the time.
    """
    share = nest.groups / work.blocks
    hidden = share * tiling.compute / (len(tiling.tiles) * len(work.rows))
    first = max(0, share * weights.first - hidden - weights.first / work.blocks)
    less, more = sorted((tiling.compute, loaded))
    return round(first + less**3 / (WAITS * more**2))
