# SPDX-License-Identifier: Apache-2.0
"""Candidates for a layer of the misc engine."""

from collections.abc import Iterable, Iterator

from opendpu.compiler.banks.reach import walks_round
from opendpu.compiler.layers import Feature, MiscLayer, channel_groups
from opendpu.compiler.layers.cost import LATENCY, TILE_OVERHEAD, transfer_cycles
from opendpu.compiler.limits import MAX_CHANNEL_GROUPS, MAX_COLUMNS
from opendpu.compiler.plan import LoopNest
from opendpu.compiler.planner.tiling.problem import (
    InputShape,
    Stream,
    Tiling,
    TilingProblem,
    cheapest_first,
    groups_with_biases,
    input_shapes,
    read_columns,
    splits,
)


def misc_tilings(problem: TilingProblem, layer: MiscLayer) -> list[Tiling]:
    """Return tilings of a depthwise convolution, a pooling or an element-wise layer."""
    return cheapest_first(_every(problem, layer))


def _every(problem: TilingProblem, layer: MiscLayer) -> Iterator[Tiling]:
    target, window, out = problem.target, problem.window, problem.out
    source = problem.network.features[layer.operands[0]]
    streamed = [name not in problem.whole for name in layer.operands]
    moving = any(
        s and not layer.repeats(name) for name, s in zip(layer.operands, streamed, strict=True)
    )
    most = target.alu_pixel_parallel
    shapes: Iterable[InputShape] = [InputShape(rows=most, stride=1, least=1, advance=1, total=1)]
    if moving:
        limit = layer.REACH.rows_per_bank
        shapes = input_shapes(target, window, source.height, out.height, most, limit)
    all_groups = channel_groups(out, target)
    groups_most = min(MAX_CHANNEL_GROUPS, all_groups, groups_with_biases(problem, layer))
    if "weights" in layer.constants:
        groups_most = min(groups_most, target.bank_depth // (window.kernel_h * window.kernel_w))
    if not groups_most:
        return
    for shape in shapes:
        for groups in splits(groups_most):
            for columns in splits(min(out.width, MAX_COLUMNS)):
                walked = groups if all(streamed) else all_groups
                if walks_round(window, target, columns, walked):
                    continue
                nest = LoopNest(
                    columns=columns, rows=shape.rows, row_pass=out.height, groups=groups
                )
                yield from _with_streams(problem, layer, shape, nest, source, streamed, moving)


def _with_streams(
    problem: TilingProblem, layer: MiscLayer, shape: InputShape, nest: LoopNest, source: Feature,
    streamed: list[bool], moving: bool,
) -> Iterator[Tiling]:  # fmt: skip
    """Yield the circular buffers that operands and results can have with some loops.

    ``moving`` says that not only single pixels are streamed.
    """
    words = read_columns(problem.window, source, nest.columns) * nest.groups
    for capacity in shape.capacities():
        stream = Stream(capacity=capacity, stride=shape.stride, row_words=words)
        if moving and stream.words > problem.target.bank_depth:
            continue
        pixel = Stream(capacity=1, stride=1, row_words=nest.groups)
        sources = tuple(
            (pixel if layer.repeats(name) else stream) if s else None
            for name, s in zip(layer.operands, streamed, strict=True)
        )
        if layer.output in problem.whole:
            cycles = _cycles(problem, layer, shape, nest, sources, 0)
            yield Tiling(nest=nest, sources=sources, output=None, cycles=cycles)
            continue
        for out_capacity in (2, 1):
            result = Stream(capacity=out_capacity, stride=1, row_words=nest.columns * nest.groups)
            cycles = _cycles(problem, layer, shape, nest, sources, out_capacity)
            yield Tiling(nest=nest, sources=sources, output=result, cycles=cycles)


def _cycles(
    problem: TilingProblem,
    layer: MiscLayer,
    shape: InputShape,
    nest: LoopNest,
    sources: tuple[Stream | None, ...],
    out_capacity: int,
) -> int:
    """Return the cycles that a tiling is expected to take."""
    window, out = problem.window, problem.out
    source = problem.network.features[layer.operands[0]]
    parallel = problem.target.channel_parallel
    tiles = -(-out.width // nest.columns) * -(-out.channels // (nest.groups * parallel))
    once = layer.instruction_cycles(nest.columns, nest.groups)
    compute = tiles * -(-out.height // shape.rows) * once
    channels = min(source.channels, nest.groups * parallel)
    moving = [
        s
        for name, s in zip(layer.operands, sources, strict=True)
        if s is not None and not layer.repeats(name)
    ]
    row = transfer_cycles(
        read_columns(window, source, nest.columns), channels, source.channels, parallel
    ) * len(moving)
    load = tiles * source.height * row
    first = row * ((shape.rows - 1) * window.stride_h + window.kernel_h)
    tight = any(not shape.overlaps(s.capacity) for s in moving)
    total = LATENCY + first + (compute + load if tight else max(compute, load))
    total += TILE_OVERHEAD * tiles
    if out_capacity:
        row = transfer_cycles(nest.columns, min(out.channels, channels), out.channels, parallel)
        save = tiles * out.height * row
        total += LATENCY + shape.rows * row
        total += save if out_capacity == 1 else max(0, save - compute)
    return total
