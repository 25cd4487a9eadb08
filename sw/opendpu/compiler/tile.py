# SPDX-License-Identifier: Apache-2.0
"""Pass: loop bounds of every layer and the words on chip that its moving parts use.

Every way to cut a layer that fits is given a price in cycles by a small model; the cheapest wins.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from opendpu.compiler.layout import ADDRESS_GROUPS, Layout, address_groups
from opendpu.compiler.lifetime import alive, holes, spans
from opendpu.compiler.plan import (
    AluLayer,
    ConvLayer,
    EltwiseLayer,
    Feature,
    Layer,
    LayerPlan,
    Nest,
    Network,
    Region,
    Window,
    sources_of,
)
from opendpu_arch.errors import DPUError
from opendpu_arch.target import Target

MAX_ROW_WORDS = 1024
"""Words of a row of a tile: jumps of CONV between rows of a bank are 10 bits."""
MAX_COLUMNS = 1024
"""Output columns of one CONV."""
MAX_CONV_STRIDE = 8
"""Rows a bank that CONV can read."""
MEMORY_BYTES = 32
"""Bytes a cycle that the model expects of LOAD, and of SAVE."""
LATENCY = 100
"""Cycles from a LOAD's issue to its first byte."""


class NoRoomError(DPUError):
    """A layer does not fit beside the feature maps that stay on chip."""

    def __init__(self, message: str, layer: int) -> None:
        self.layer = layer
        super().__init__(message)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Cut:
    """One way to cut a layer: loops, and the shape of the streamed parts."""

    nest: Nest
    sources: tuple[tuple[int, int, int] | None, ...]
    """Per input (ring, stride, row words), or none if it is on chip whole."""
    output: tuple[int, int, int] | None
    cycles: int


def tile(network: Network, target: Target, whole: Mapping[str, Region]) -> tuple[LayerPlan, ...]:
    """Return every layer with its loops and regions.

    Raises
    ------
    NoRoomError
        A layer does not fit; its number tells the caller which feature maps are in the way.
    """
    every = spans(network)
    plans = []
    for number, layer in enumerate(network.layers):
        near = alive(every, number)
        free = {
            group: holes(
                [
                    (r.base, r.base + r.words)
                    for name, r in whole.items()
                    if name in near and r.bank_group == group
                ],
                target.bank_depth,
            )
            for group in range(target.bank_groups)
        }
        plans.append(_tile_layer(number, layer, network, target, whole, free))
    return tuple(plans)


def _tile_layer(
    number: int,
    layer: Layer,
    network: Network,
    target: Target,
    whole: Mapping[str, Region],
    free: Mapping[int, list[tuple[int, int]]],
) -> LayerPlan:
    best: tuple[int, _Cut, list[Region]] | None = None
    names = (*sources_of(layer), layer.output)
    for cut in _cuts(layer, network, target, whole):
        if best is not None and cut.cycles >= best[0]:
            continue
        wanted = [s[0] * s[1] * s[2] for s in (*cut.sources, cut.output) if s is not None]
        used = [whole[n].bank_group for n in names if n in whole]
        spots = _fit(wanted, free, used)
        if spots is None:
            continue
        regions, todo = [], list(spots)
        for name, shape in zip(names, (*cut.sources, cut.output), strict=True):
            if shape is None:
                regions.append(whole[name])
                continue
            group, base = todo.pop(0)
            is_input = len(regions) < len(cut.sources)
            window = _window(layer)
            regions.append(
                Region(
                    bank_group=group, base=base, words=shape[0] * shape[1] * shape[2],
                    ring=shape[0], stride=shape[1],
                    first_row=-window.pad_top if is_input else 0,
                )
            )  # fmt: skip
        best = (cut.cycles, cut, regions)
    if best is None:
        raise NoRoomError(
            f"layer {layer.name} does not fit the image banks: {target.bank_groups} groups of "
            f"{target.bank_depth} words, of which "
            f"{sum(b - a for h in free.values() for a, b in h)} are free",
            number,
        )
    _, cut, regions = best
    return LayerPlan(layer=layer, nest=cut.nest, sources=tuple(regions[:-1]), output=regions[-1])


def _fit(
    wanted: list[int], free: Mapping[int, list[tuple[int, int]]], used: list[int]
) -> list[tuple[int, int]] | None:
    """Return (bank group, first word) of each wanted size, in groups of their own if possible."""
    holes_left = {group: list(h) for group, h in free.items()}
    load = {group: used.count(group) for group in free}
    found: dict[int, tuple[int, int]] = {}
    for index in sorted(range(len(wanted)), key=lambda i: -wanted[i]):
        options = [
            (load[group], end - start, group, at)
            for group, spots in holes_left.items()
            for at, (start, end) in enumerate(spots)
            if end - start >= wanted[index]
        ]
        if not options:
            return None
        _, _, group, at = min(options)
        start, end = holes_left[group][at]
        found[index] = (group, start)
        holes_left[group][at] = (start + wanted[index], end)
        load[group] += 1
    return [found[i] for i in range(len(wanted))]


def _window(layer: Layer) -> Window:
    return Window() if isinstance(layer, EltwiseLayer) else layer.window


def _splits(total: int) -> Iterator[int]:
    """Yield tile sizes from ``total`` down to 1, about a quarter less each time."""
    last, parts = 0, 1
    while last != 1:
        size = -(-total // parts)
        if size != last:
            yield size
        last = size
        parts += max(1, parts // 4)


def _cuts(
    layer: Layer, network: Network, target: Target, whole: Mapping[str, Region]
) -> Iterator[_Cut]:
    """Yield the ways to cut ``layer``."""
    if isinstance(layer, ConvLayer):
        yield from _conv_cuts(layer, network, target, whole)
    else:
        yield from _misc_cuts(layer, network, target, whole)


def input_shapes(
    layer: Layer, source: Feature, out: Feature, target: Target, most: int
) -> Iterator[tuple[int, int, int]]:
    """Yield (rows an instruction, rows a bank, least ring) for a streamed input.

    First as many rows an instruction as ``most`` allows and as four address groups can hold.
    """
    window = _window(layer)
    limit = MAX_CONV_STRIDE if isinstance(layer, ConvLayer) else 256
    rows = min(most, out.height)
    while rows >= 1:
        strides = [window.stride_h] if rows > 1 else [window.stride_h, *range(1, limit + 1)]
        for stride in strides:
            if stride > limit:
                continue
            need = _touched(layer, source, out, target, stride, rows)
            if need is not None:
                yield rows, stride, need
                break
        rows = rows // 2 if rows > 1 else 0


def _touched(
    layer: Layer, source: Feature, out: Feature, target: Target, stride: int, rows: int
) -> int | None:
    """Return the most address groups of real rows that an instruction touches, if that works."""
    window = _window(layer)
    region = Region(bank_group=0, base=0, words=0, stride=stride, ring=1, first_row=-window.pad_top)
    layout = Layout(target=target, region=region, columns=1, groups=1)
    most = 1
    for row in range(0, out.height, rows):
        many = min(rows, out.height - row)
        top = row * window.stride_h - window.pad_top
        height = (many - 1) * window.stride_h + window.kernel_h
        if layout.groups_touched(top, height) > ADDRESS_GROUPS:
            return None
        first, last = max(0, top), min(source.height, top + height) - 1
        most = max(most, layout.groups_touched(first, max(1, last - first + 1)))
    return most


def _rings(least: int, most: int, step: int) -> list[int]:
    """Return ring sizes to try, from the roomiest."""
    return sorted(
        {min(most, least + extra) for extra in (0, step, 2 * step)} | {most}, reverse=True
    )


def _conv_cuts(
    layer: ConvLayer, network: Network, target: Target, whole: Mapping[str, Region]
) -> Iterator[_Cut]:
    source, out = network.features[layer.source], network.features[layer.output]
    window = layer.window
    parallel = target.channel_parallel
    groups_in = -(-source.channels // parallel)
    blocks = -(-out.channels // parallel)
    most = target.pixel_parallel
    streamed_in, streamed_out = layer.source not in whole, layer.output not in whole
    shapes: Iterable[tuple[int, int, int]] = [(most, 1, 1)]
    if streamed_in:
        shapes = input_shapes(layer, source, out, target, most)
    taps = window.kernel_h * window.kernel_w * groups_in
    weight_bytes = out.channels * window.kernel_h * window.kernel_w * source.channels
    passes_max = max(1, target.bank_depth // taps)
    for rows, stride, least in shapes:
        advance = -(-rows * window.stride_h // (stride * target.pixel_parallel))
        stored = out.height * window.stride_h + window.kernel_h
        total = address_groups(target, stride, min(stored, source.height + window.pad_top))
        total = max(total, least)
        chunk_rows = (rows - 1) * window.stride_h + window.kernel_h
        for columns in _splits(min(out.width, MAX_COLUMNS)):
            tiles = -(-out.width // columns)
            read_columns = min(source.width, (columns - 1) * window.stride_w + window.kernel_w)
            words_in = read_columns * groups_in
            if streamed_in and (
                words_in > target.bank_depth or (stride > 1 and words_in > MAX_ROW_WORDS)
            ):
                continue
            for ring in _rings(least, total, advance) if streamed_in else [1]:
                if streamed_in and ring * stride * words_in > target.bank_depth:
                    continue
                group_options = sorted(
                    {min(blocks, n) for n in (blocks, passes_max)}
                    | {g for g in _splits(blocks) if g <= passes_max}
                )
                for groups in group_options:
                    if groups > passes_max and groups != blocks:
                        continue
                    if groups * taps > target.bank_depth:
                        continue
                    passes = -(-blocks // groups)
                    row_options = {out.height}
                    if passes > 1:
                        row_options |= {
                            rows * n for n in (1, 2, 3, 4, 6, 8) if rows * n < out.height
                        }
                    for row_pass in row_options:
                        row_passes = -(-out.height // row_pass)
                        in_pass = (row_pass - 1) * window.stride_h + window.kernel_h
                        stay = (
                            not streamed_in
                            or address_groups(target, stride, min(in_pass, source.height)) + 1
                            <= ring
                        )
                        loads = weight_bytes * (row_passes * tiles if passes > 1 else 1)
                        if streamed_in:
                            halo = read_columns * tiles / source.width
                            again = 1 if stay else passes
                            extra = (
                                1.0
                                if row_passes == 1 or stay
                                else in_pass / (row_pass * window.stride_h)
                            )
                            loads += int(
                                source.height
                                * source.width
                                * source.channels
                                * halo
                                * again
                                * extra
                            )
                        saves = out.height * out.width * out.channels if streamed_out else 0
                        count = tiles * -(-out.height // rows) * blocks
                        compute = count * (columns * taps + 4)
                        first = (
                            LATENCY
                            + (chunk_rows * read_columns * source.channels if streamed_in else 0)
                            // MEMORY_BYTES
                            + weight_bytes // (blocks * MEMORY_BYTES)
                        )
                        last = (
                            rows * columns * groups * parallel // MEMORY_BYTES + LATENCY
                            if streamed_out
                            else 0
                        )
                        load, save = loads // MEMORY_BYTES, saves // MEMORY_BYTES
                        tight = streamed_in and ring < min(total, least + advance)
                        tight_weights = passes > 1 and 2 * groups * taps > target.bank_depth
                        for out_ring in (2, 1) if streamed_out else (0,):
                            total_cycles = (
                                first
                                + last
                                + (compute + load if tight or tight_weights else max(compute, load))
                                + (save if out_ring == 1 else max(0, save - compute))
                            )
                            yield _Cut(
                                nest=Nest(
                                    columns=columns, rows=rows, row_pass=row_pass, groups=groups
                                ),
                                sources=((ring, stride, words_in) if streamed_in else None,),
                                output=(out_ring, 1, columns * groups) if streamed_out else None,
                                cycles=total_cycles,
                            )


def _misc_cuts(
    layer: AluLayer | EltwiseLayer, network: Network, target: Target, whole: Mapping[str, Region]
) -> Iterator[_Cut]:
    names = sources_of(layer)
    out = network.features[layer.output]
    window = _window(layer)
    most = target.alu_pixel_parallel
    streamed = [name not in whole for name in names]
    streamed_out = layer.output not in whole
    shapes: Iterable[tuple[int, int, int]] = [(most, 1, 1)]
    if any(streamed):
        shapes = input_shapes(layer, network.features[names[0]], out, target, most)
    parallel = target.channel_parallel
    all_groups = -(-out.channels // parallel)
    source = network.features[names[0]]
    taps = window.kernel_h * window.kernel_w
    weighted = isinstance(layer, AluLayer) and layer.weights is not None
    for rows, stride, least in shapes:
        advance = -(-rows * window.stride_h // (stride * target.pixel_parallel))
        stored = min(out.height * window.stride_h + window.kernel_h, source.height + window.pad_top)
        total = max(least, address_groups(target, stride, stored))
        for groups in _splits(min(all_groups, 256)):
            if weighted and (taps * groups > target.bank_depth or groups > 511):
                continue
            for columns in _splits(min(out.width, 1024)):
                tiles = -(-out.width // columns)
                read_columns = min(source.width, (columns - 1) * window.stride_w + window.kernel_w)
                words_in, words_out = read_columns * groups, columns * groups
                for ring in _rings(least, total, advance):
                    for out_ring in (2, 1):
                        count = tiles * -(-out.height // rows) * -(-all_groups // groups)
                        compute = count * (columns * groups * window.kernel_h * len(names) + 12)
                        halo = read_columns * tiles / source.width
                        load = (
                            int(
                                sum(streamed)
                                * source.height
                                * source.width
                                * source.channels
                                * halo
                            )
                            // MEMORY_BYTES
                        )
                        save = out.height * out.width * out.channels // MEMORY_BYTES * streamed_out
                        tight = any(streamed) and ring < min(total, least + advance)
                        first = (
                            (
                                rows
                                * window.stride_h
                                * read_columns
                                * groups
                                * parallel
                                // MEMORY_BYTES
                                + LATENCY
                            )
                            if any(streamed)
                            else 0
                        )
                        yield _Cut(
                            nest=Nest(
                                columns=columns, rows=rows, row_pass=out.height, groups=groups
                            ),
                            sources=tuple(
                                (ring, stride, words_in) if s else None for s in streamed
                            ),
                            output=(out_ring, 1, words_out) if streamed_out else None,
                            cycles=first
                            + (compute + load if tight else max(compute, load))
                            + (save if out_ring == 1 else max(0, save - compute)),
                        )
