# SPDX-License-Identifier: Apache-2.0
"""Ways to cut a layer of the misc engine."""

from collections.abc import Iterable, Iterator

from opendpu.compiler.cost import LATENCY, TILE_OVERHEAD, alu_cycles, misc_cycles, transfer_cycles
from opendpu.compiler.plan import AluLayer, EltwiseLayer, Nest, sources_of
from opendpu.compiler.tiling.cut import (
    MAX_COLUMNS,
    Cut,
    InputShape,
    Problem,
    Stream,
    input_shapes,
    read_columns,
    splits,
    walks_round,
)

MAX_GROUPS = 256
"""Channel groups of one instruction."""


def misc_cuts(problem: Problem, layer: AluLayer | EltwiseLayer) -> Iterator[Cut]:
    """Yield the ways to cut a depthwise convolution, a pooling or an element-wise layer."""
    target, window, out = problem.target, problem.window, problem.out
    source = problem.network.features[sources_of(layer)[0]]
    streamed = [name not in problem.whole for name in sources_of(layer)]
    most = target.alu_pixel_parallel
    shapes: Iterable[InputShape] = [InputShape(rows=most, stride=1, least=1, advance=1, total=1)]
    if any(streamed):
        shapes = input_shapes(problem, source, most)
    taps = window.kernel_h * window.kernel_w
    weighted = isinstance(layer, AluLayer) and layer.weights is not None
    all_groups = -(-out.channels // target.channel_parallel)
    groups_most = min(MAX_GROUPS, all_groups)
    if weighted:
        groups_most = min(groups_most, target.bank_depth // taps)
    if not groups_most:
        return
    for shape in shapes:
        for groups in splits(groups_most):
            for columns in splits(min(out.width, MAX_COLUMNS)):
                walked = groups if all(streamed) else all_groups
                if walks_round(window, target, columns, walked):
                    continue
                words = read_columns(window, source, columns) * groups
                for ring in shape.rings():
                    stream = Stream(ring=ring, stride=shape.stride, row_words=words)
                    if any(streamed) and stream.words > target.bank_depth:
                        continue
                    nest = Nest(
                        columns=columns, rows=shape.rows, row_pass=out.height, groups=groups
                    )
                    sources = tuple(stream if s else None for s in streamed)
                    if layer.output in problem.whole:
                        cycles = _price(problem, layer, shape, nest, sources, 0)
                        yield Cut(nest=nest, sources=sources, output=None, cycles=cycles)
                        continue
                    for out_ring in (2, 1):
                        result = Stream(ring=out_ring, stride=1, row_words=columns * groups)
                        cycles = _price(problem, layer, shape, nest, sources, out_ring)
                        yield Cut(nest=nest, sources=sources, output=result, cycles=cycles)


def _price(
    problem: Problem,
    layer: AluLayer | EltwiseLayer,
    shape: InputShape,
    nest: Nest,
    sources: tuple[Stream | None, ...],
    out_ring: int,
) -> int:
    """Return the cycles that a cut is expected to take."""
    window, out = problem.window, problem.out
    names = sources_of(layer)
    source = problem.network.features[names[0]]
    parallel = problem.target.channel_parallel
    tiles = -(-out.width // nest.columns) * -(-out.channels // (nest.groups * parallel))
    once = (
        alu_cycles(nest.columns, nest.groups, window)
        if isinstance(layer, AluLayer)
        else misc_cycles(nest.columns, nest.groups, len(names))
    )
    compute = tiles * -(-out.height // shape.rows) * once
    channels = min(source.channels, nest.groups * parallel)
    row = transfer_cycles(
        read_columns(window, source, nest.columns), channels, source.channels, parallel
    ) * sum(s is not None for s in sources)
    load = tiles * source.height * row
    first = row * ((shape.rows - 1) * window.stride_h + window.kernel_h)
    tight = any(s is not None and not shape.overlaps(s.ring) for s in sources)
    total = LATENCY + first + (compute + load if tight else max(compute, load))
    total += TILE_OVERHEAD * tiles
    if out_ring:
        row = transfer_cycles(nest.columns, min(out.channels, channels), out.channels, parallel)
        save = tiles * out.height * row
        total += LATENCY + shape.rows * row
        total += save if out_ring == 1 else max(0, save - compute)
    return total
