# SPDX-License-Identifier: Apache-2.0
"""Candidates for a convolution."""

import dataclasses
from collections.abc import Iterable, Iterator

from opendpu.compiler.banks.layout import address_groups
from opendpu.compiler.banks.reach import walks_round
from opendpu.compiler.layers import ConvLayer, Feature, ProductLayer, channel_groups
from opendpu.compiler.layers.cost import (
    LATENCY,
    TILE_OVERHEAD,
    conv_cycles,
    misc_cycles,
    transfer_cycles,
)
from opendpu.compiler.limits import MAX_COLUMNS
from opendpu.compiler.plan import LoopNest
from opendpu.compiler.planner.tiling.problem import (
    InputShape,
    Stream,
    Tiling,
    TilingProblem,
    groups_with_biases,
    input_shapes,
    read_columns,
    splits,
)

ROW_PASSES = (1, 2, 3, 4, 6, 8)
"""Instructions' rows that are tried as a pass over all output channels."""
UNUSED = Stream(capacity=1, stride=1, row_words=1)


def product_tilings(problem: TilingProblem, layer: ProductLayer) -> Iterator[Tiling]:
    """Yield tilings of a product: those of a convolution.

    Its second factor never is in the image banks; the word that every operand has stays unused.
    One that reads more than it makes has no tiles of columns, if it fits without: its loads come
    while the layer before computes. Others begin to save the sooner for them.
    """
    found = list(conv_tilings(problem, layer))
    if layer.inputs >= layer.outputs:
        found = [x for x in found if x.nest.columns == problem.out.width] or found
    for tiling in found:
        yield dataclasses.replace(tiling, sources=(*tiling.sources, UNUSED))


def conv_tilings(problem: TilingProblem, layer: ConvLayer | ProductLayer) -> Iterator[Tiling]:
    """Yield tilings of a convolution, or of what is one but for its second operand."""
    target, out = problem.target, problem.out
    source = problem.network.features[layer.source]
    groups_in = channel_groups(source, target)
    kernel = layer.window.kernel_h * layer.window.kernel_w
    taps = kernel * layer.groups_read(problem.network.features, target)
    if taps > target.bank_depth:
        return
    lanes = min(target.output_channel_parallel, out.channels)
    candidates = _Candidates(
        problem=problem, layer=layer, source=source, groups_in=groups_in, taps=taps,
        steps=layer.column_cycles(problem.network.features, target),
        blocks=layer.blocks(problem.network.features, target),
        blocks_on_chip=target.bank_depth // taps,
        weight_cycles=lanes * transfer_cycles(
            kernel, layer.weights_shape[3], layer.weights_shape[3], target.channel_parallel
        ),
    )  # fmt: skip
    shapes: Iterable[InputShape]
    if layer.source in problem.whole:
        shapes = [InputShape(rows=target.pixel_parallel, stride=1, least=1, advance=1, total=1)]
    else:
        shapes = input_shapes(problem, source, target.pixel_parallel)
    for shape in shapes:
        for columns in splits(min(out.width, MAX_COLUMNS)):
            if walks_round(layer.window, target, columns, groups_in):
                continue
            for stream in candidates.streams(shape, columns):
                yield from candidates.passes(shape, columns, stream)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Candidates:
    """Tilings of one convolution, and its sizes in the units of the banks."""

    problem: TilingProblem
    layer: ConvLayer | ProductLayer
    source: Feature
    groups_in: int
    blocks: int
    """Blocks of output channels."""
    taps: int
    """Weight words of a block."""
    steps: int
    """Cycles of a column."""
    blocks_on_chip: int
    """Blocks whose weights fit the weight banks at a time."""
    weight_cycles: int
    """Cycles to load the weights of a block."""

    def streams(self, shape: InputShape, columns: int) -> Iterator[Stream | None]:
        """Yield the circular buffers that the input can have."""
        if self.layer.source in self.problem.whole:
            yield None
            return
        words = read_columns(self.layer.window, self.source, columns) * self.groups_in
        if shape.stride > 1 and words > self.layer.REACH.row_jump:
            return
        for capacity in shape.capacities():
            stream = Stream(capacity=capacity, stride=shape.stride, row_words=words)
            if stream.words <= self.problem.target.bank_depth:
                yield stream

    def passes(self, shape: InputShape, columns: int, stream: Stream | None) -> Iterator[Tiling]:
        """Yield the orders of rows and output channels."""
        height = self.problem.out.height
        most = min(self.blocks, self.blocks_on_chip)
        if self.layer.epilogue is not None:
            most = min(most, groups_with_biases(self.problem, self.layer.epilogue.layer))
        for groups in splits(most):
            if groups * columns > self.problem.target.bank_depth:
                continue
            row_passes = [height]
            if groups < self.blocks:
                row_passes += [shape.rows * n for n in ROW_PASSES if shape.rows * n < height]
            for row_pass in row_passes:
                nest = LoopNest(columns=columns, rows=shape.rows, row_pass=row_pass, groups=groups)
                yield from self._outputs(shape, nest, stream)

    def _outputs(
        self, shape: InputShape, nest: LoopNest, stream: Stream | None
    ) -> Iterator[Tiling]:
        """Yield the circular buffers that the results can have."""
        problem, output = self.problem, self.layer.output
        if self.layer.epilogue is not None:
            alone = self._cycles(shape, nest, stream, 0)
            for capacity in (2, 1):
                yield self._with_epilogue(shape, nest, stream, capacity, alone)
        elif output in problem.whole:
            saved = 2 if output in problem.saved else 0
            cycles = self._cycles(shape, nest, stream, saved)
            yield Tiling(nest=nest, sources=(stream,), output=None, cycles=cycles)
        else:
            for capacity in (2, 1):
                result = Stream(capacity=capacity, stride=1, row_words=nest.columns * nest.groups)
                cycles = self._cycles(shape, nest, stream, capacity)
                yield Tiling(nest=nest, sources=(stream,), output=result, cycles=cycles)

    def _with_epilogue(
        self, shape: InputShape, nest: LoopNest, stream: Stream | None, capacity: int, cycles: int
    ) -> Tiling:
        """Return a tiling with ``capacity`` tiles between convolution and epilogue.

        The convolution alone takes ``cycles``.
        """
        layer, problem = self.layer, self.problem
        assert layer.epilogue is not None
        target, out = problem.target, problem.out
        tile = Stream(capacity=capacity, stride=1, row_words=nest.columns * nest.groups)
        others = tuple(None if n in problem.whole else tile for n in layer.epilogue.others)
        operands = len(layer.epilogue.layer.sources)
        times = -(-shape.rows // target.alu_pixel_parallel)
        misc = times * misc_cycles(nest.columns, nest.groups, operands)
        conv = nest.groups * conv_cycles(nest.columns, self.steps)
        tiles = -(-out.height // shape.rows) * -(-self.blocks // nest.groups)
        tiles *= -(-out.width // nest.columns)
        cycles += misc + (tiles * misc if capacity == 1 else tiles * max(0, misc - conv))
        channels = min(out.channels, nest.groups * target.channel_parallel)
        row = transfer_cycles(nest.columns, channels, out.channels, target.channel_parallel)
        stays = layer.output in problem.whole and layer.output not in problem.saved
        moved = sum(o is not None for o in others) + (not stays)
        transfer = moved * shape.rows * row
        if moved:
            cycles += LATENCY + transfer
            cycles += tiles * (transfer if capacity == 1 else max(0, transfer - conv))
        return Tiling(nest=nest, sources=(stream, *others), output=None, cycles=cycles, tile=tile)

    def _cycles(
        self, shape: InputShape, nest: LoopNest, stream: Stream | None, out_capacity: int
    ) -> int:
        """Return the cycles that loads, convolutions and saves are expected to take."""
        target, out = self.problem.target, self.problem.out
        tiles = -(-out.width // nest.columns)
        passes = -(-self.blocks // nest.groups)
        load, first, serial = self._load_cycles(shape, nest, stream)
        if passes > 1 and 2 * nest.groups * self.taps > target.bank_depth:
            serial = load
        compute = tiles * -(-out.height // shape.rows) * self.layer.blocks_cycles(
            self.problem.network.features, target, nest.columns
        )  # fmt: skip
        total = first + max(compute + serial, load) + TILE_OVERHEAD * tiles
        if out_capacity:
            channels = min(out.channels, nest.groups * target.channel_parallel)
            row = transfer_cycles(nest.columns, channels, out.channels, target.channel_parallel)
            save = tiles * passes * out.height * row
            total += LATENCY + shape.rows * row
            total += save if out_capacity == 1 else max(0, save - compute)
        return total

    def _load_cycles(
        self, shape: InputShape, nest: LoopNest, stream: Stream | None
    ) -> tuple[int, int, int]:
        """Return the cycles of all loads, of those before the first result, of those in between.

        Weights and input count; while the last kind runs, the array waits.
        """
        target, window, source = self.problem.target, self.layer.window, self.source
        tiles = -(-self.problem.out.width // nest.columns)
        passes = -(-self.blocks // nest.groups)
        row_passes = -(-self.problem.out.height // nest.row_pass)
        load = self.blocks * self.weight_cycles
        if passes > 1:
            load *= row_passes * tiles
        first = LATENCY + self.weight_cycles
        if stream is None:
            return load, first, 0
        needed = read_columns(window, source, nest.columns)
        row = transfer_cycles(needed, source.channels, source.channels, target.channel_parallel)
        rows_in_pass = (nest.row_pass - 1) * window.stride_h + window.kernel_h
        rows = source.height
        stays = address_groups(target, shape.stride, min(rows_in_pass, rows)) < stream.capacity
        if passes > 1 and not stays and stream.capacity < shape.total:
            rows = passes * row_passes * min(rows_in_pass, rows)
        load += tiles * rows * row
        first += row * ((shape.rows - 1) * window.stride_h + window.kernel_h)
        return load, first, 0 if shape.overlaps(stream.capacity) else tiles * rows * row
