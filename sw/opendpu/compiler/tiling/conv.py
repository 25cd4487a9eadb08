# SPDX-License-Identifier: Apache-2.0
"""Ways to cut a convolution."""

import dataclasses
from collections.abc import Iterable, Iterator

from opendpu.compiler.cost import (
    LATENCY,
    TILE_OVERHEAD,
    conv_cycles,
    misc_cycles,
    transfer_cycles,
)
from opendpu.compiler.layout import address_groups
from opendpu.compiler.plan import ConvLayer, Feature, Nest
from opendpu.compiler.tiling.cut import (
    MAX_COLUMNS,
    MAX_ROW_WORDS,
    Cut,
    InputShape,
    Problem,
    Stream,
    input_shapes,
    read_columns,
    splits,
    walks_round,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Sizes:
    """Sizes of a convolution in the units of the banks."""

    source: Feature
    groups_in: int
    blocks: int
    """Blocks of output channels."""
    taps: int
    """Weight words of a block."""
    blocks_on_chip: int
    """Blocks whose weights fit the weight banks at a time."""
    weight_cycles: int
    """Cycles to load the weights of a block."""


def conv_cuts(problem: Problem, layer: ConvLayer) -> Iterator[Cut]:
    """Yield the ways to cut a convolution."""
    target, window, out = problem.target, problem.window, problem.out
    source = problem.network.features[layer.source]
    groups_in = -(-source.channels // target.channel_parallel)
    taps = window.kernel_h * window.kernel_w * groups_in
    if taps > target.bank_depth:
        return
    lanes = min(target.output_channel_parallel, out.channels)
    kernel = window.kernel_h * window.kernel_w
    sizes = _Sizes(
        source=source, groups_in=groups_in, taps=taps,
        blocks=-(-out.channels // target.output_channel_parallel),
        blocks_on_chip=target.bank_depth // taps,
        weight_cycles=lanes * transfer_cycles(
            kernel, source.channels, source.channels, target.channel_parallel
        ),
    )  # fmt: skip
    shapes: Iterable[InputShape]
    if layer.source in problem.whole:
        shapes = [InputShape(rows=target.pixel_parallel, stride=1, least=1, advance=1, total=1)]
    else:
        shapes = input_shapes(problem, source, target.pixel_parallel)
    for shape in shapes:
        for columns in splits(min(out.width, MAX_COLUMNS)):
            if walks_round(window, target, columns, groups_in):
                continue
            for stream in _streams(problem, layer, sizes, shape, columns):
                yield from _passes(problem, layer, sizes, shape, columns, stream)


def _streams(
    problem: Problem, layer: ConvLayer, sizes: _Sizes, shape: InputShape, columns: int
) -> Iterator[Stream | None]:
    """Yield what the input can occupy."""
    if layer.source in problem.whole:
        yield None
        return
    words = read_columns(problem.window, sizes.source, columns) * sizes.groups_in
    if shape.stride > 1 and words > MAX_ROW_WORDS:
        return
    for ring in shape.rings():
        stream = Stream(ring=ring, stride=shape.stride, row_words=words)
        if stream.words <= problem.target.bank_depth:
            yield stream


def _passes(
    problem: Problem,
    layer: ConvLayer,
    sizes: _Sizes,
    shape: InputShape,
    columns: int,
    stream: Stream | None,
) -> Iterator[Cut]:
    """Yield the orders of rows and output channels, and the room for results."""
    out = problem.out
    most = min(sizes.blocks, sizes.blocks_on_chip)
    for groups in splits(most):
        if groups * columns > problem.target.bank_depth:
            continue
        row_passes = [out.height]
        if groups < sizes.blocks:
            row_passes += [
                shape.rows * n for n in (1, 2, 3, 4, 6, 8) if shape.rows * n < out.height
            ]
        for row_pass in row_passes:
            nest = Nest(columns=columns, rows=shape.rows, row_pass=row_pass, groups=groups)
            if layer.epilogue is not None:
                alone = _price(problem, layer, sizes, shape, nest, stream, 0)
                for ring in (2, 1):
                    yield _with_epilogue(problem, layer, sizes, shape, nest, stream, ring, alone)
                continue
            if layer.output in problem.whole:
                saved = 2 if layer.output in problem.saved else 0
                cycles = _price(problem, layer, sizes, shape, nest, stream, saved)
                yield Cut(nest=nest, sources=(stream,), output=None, cycles=cycles)
                continue
            for ring in (2, 1):
                result = Stream(ring=ring, stride=1, row_words=columns * groups)
                cycles = _price(problem, layer, sizes, shape, nest, stream, ring)
                yield Cut(nest=nest, sources=(stream,), output=result, cycles=cycles)


def _with_epilogue(
    problem: Problem,
    layer: ConvLayer,
    sizes: _Sizes,
    shape: InputShape,
    nest: Nest,
    stream: Stream | None,
    ring: int,
    cycles: int,
) -> Cut:
    """Return a cut with ``ring`` tiles between a convolution of ``cycles`` and its epilogue."""
    assert layer.epilogue is not None
    target, out = problem.target, problem.out
    tile = Stream(ring=ring, stride=1, row_words=nest.columns * nest.groups)
    others = tuple(None if n in problem.whole else tile for n in layer.epilogue.others)
    operands = len(layer.epilogue.layer.sources)
    chunks = -(-shape.rows // target.alu_pixel_parallel)
    misc = chunks * misc_cycles(nest.columns, nest.groups, operands)
    conv = nest.groups * conv_cycles(nest.columns, sizes.taps)
    tiles = -(-out.height // shape.rows) * -(-sizes.blocks // nest.groups)
    tiles *= -(-out.width // nest.columns)
    cycles += misc + (tiles * misc if ring == 1 else tiles * max(0, misc - conv))
    channels = min(out.channels, nest.groups * target.channel_parallel)
    row = transfer_cycles(nest.columns, channels, out.channels, target.channel_parallel)
    stays = layer.output in problem.whole and layer.output not in problem.saved
    moved = sum(o is not None for o in others) + (not stays)
    transfer = moved * shape.rows * row
    if moved:
        cycles += LATENCY + transfer
        cycles += tiles * (transfer if ring == 1 else max(0, transfer - conv))
    return Cut(nest=nest, sources=(stream, *others), output=None, cycles=cycles, tile=tile)


def _price(
    problem: Problem,
    layer: ConvLayer,
    sizes: _Sizes,
    shape: InputShape,
    nest: Nest,
    stream: Stream | None,
    out_ring: int,
) -> int:
    """Return the cycles that a cut is expected to take."""
    target, window, out = problem.target, problem.window, problem.out
    source = sizes.source
    tiles = -(-out.width // nest.columns)
    passes = -(-sizes.blocks // nest.groups)
    row_passes = -(-out.height // nest.row_pass)
    load = sizes.blocks * sizes.weight_cycles
    if passes > 1:
        load *= row_passes * tiles
    first = LATENCY + sizes.weight_cycles
    serial = 0
    if stream is not None:
        needed = read_columns(window, source, nest.columns)
        row = transfer_cycles(needed, source.channels, source.channels, target.channel_parallel)
        rows_in_pass = (nest.row_pass - 1) * window.stride_h + window.kernel_h
        rows = source.height
        stays = address_groups(target, shape.stride, min(rows_in_pass, rows)) < stream.ring
        if passes > 1 and not stays and stream.ring < shape.total:
            rows = passes * row_passes * min(rows_in_pass, rows)
        load += tiles * rows * row
        first += row * ((shape.rows - 1) * window.stride_h + window.kernel_h)
        if not shape.overlaps(stream.ring):
            serial = tiles * rows * row
    if passes > 1 and 2 * nest.groups * sizes.taps > target.bank_depth:
        serial = load
    compute = tiles * -(-out.height // shape.rows) * sizes.blocks * conv_cycles(
        nest.columns, sizes.taps
    )  # fmt: skip
    total = first + max(compute + serial, load) + TILE_OVERHEAD * tiles
    if out_ring:
        channels = min(out.channels, nest.groups * target.channel_parallel)
        row = transfer_cycles(nest.columns, channels, out.channels, target.channel_parallel)
        save = tiles * passes * out.height * row
        total += LATENCY + shape.rows * row
        total += save if out_ring == 1 else max(0, save - compute)
    return total
