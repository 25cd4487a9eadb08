# SPDX-License-Identifier: Apache-2.0
"""Candidates for a convolution, or for what is one but for its second operand."""

import dataclasses
from collections.abc import Iterator

from opendpu.compiler.layers import ConvLayer, ProductLayer, channel_groups
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.limits import MAX_COLUMNS
from opendpu.compiler.plan import LoopNest
from opendpu.compiler.planner.tiling.conv_table import Candidate, ConvSizes, EpilogueSizes, table
from opendpu.compiler.planner.tiling.problem import (
    Stream,
    Tiling,
    TilingProblem,
    groups_with_biases,
    splits,
)

UNUSED = Stream(capacity=1, stride=1, row_words=1)


def product_tilings(problem: TilingProblem, layer: ProductLayer) -> Iterator[Tiling]:
    """Yield tilings of a product, cheapest first: those of a convolution.

    Its second factor never is in the image banks; the word that every operand has stays unused.
    One that reads more than it makes has no tiles of columns, if it fits without: its loads come
    while the layer before computes. Others begin to save the sooner for them.
    """
    sizes = _sizes(problem, layer)
    columns = problem.out.width if layer.inputs >= layer.outputs else None
    for candidate in table(sizes).candidates(columns):
        tiling = _tiling(problem, layer, sizes, candidate)
        yield dataclasses.replace(tiling, sources=(*tiling.sources, UNUSED))


def conv_tilings(problem: TilingProblem, layer: ConvLayer) -> Iterator[Tiling]:
    """Yield tilings of a convolution, cheapest first."""
    sizes = _sizes(problem, layer)
    for candidate in table(sizes).candidates():
        yield _tiling(problem, layer, sizes, candidate)


def _sizes(problem: TilingProblem, layer: ConvLayer | ProductLayer) -> ConvSizes:
    """Return what the cycles of a layer's tilings depend on."""
    target, features, out = problem.target, problem.network.features, problem.out
    source, window = features[layer.source], layer.window
    kernel, inputs = window.kernel_h * window.kernel_w, layer.weights_shape[3]
    lanes = min(target.output_channel_parallel, out.channels)
    return ConvSizes(
        target=target, window=window, reach=layer.REACH,
        source=dataclasses.replace(source, name="", planes=()),
        out=dataclasses.replace(out, name="", planes=()),
        groups_in=channel_groups(source, target),
        taps=kernel * layer.groups_read(features, target),
        steps=layer.column_cycles(features, target),
        blocks=layer.blocks(features, target),
        weight_cycles=lanes * transfer_cycles(kernel, inputs, inputs, target.channel_parallel),
        row_cycles=tuple(
            layer.blocks_cycles(features, target, columns)
            for columns in splits(min(out.width, MAX_COLUMNS))
        ),
        streamed=layer.source not in problem.whole,
        on_chip=layer.output in problem.whole,
        saved=layer.output in problem.saved or layer.output not in problem.whole,
        epilogue=_epilogue_sizes(problem, layer),
    )  # fmt: skip


def _epilogue_sizes(
    problem: TilingProblem, layer: ConvLayer | ProductLayer
) -> EpilogueSizes | None:
    if layer.epilogue is None:
        return None
    return EpilogueSizes(
        operands=len(layer.epilogue.layer.sources),
        streamed=sum(name not in problem.whole for name in layer.epilogue.others),
        groups=groups_with_biases(problem, layer.epilogue.layer),
    )


def _tiling(
    problem: TilingProblem, layer: ConvLayer | ProductLayer, sizes: ConvSizes, found: Candidate
) -> Tiling:
    """Return a candidate as loops and circular buffers."""
    shape = found.shape
    nest = LoopNest(
        columns=found.columns, rows=shape.rows, row_pass=found.row_pass, groups=found.groups
    )
    stream = None
    if sizes.streamed:
        stream = Stream(
            capacity=found.capacity, stride=shape.stride, row_words=sizes.words(found.columns)
        )
    result = Stream(capacity=found.buffers, stride=1, row_words=found.columns * found.groups)
    if layer.epilogue is not None:
        others = tuple(None if n in problem.whole else result for n in layer.epilogue.others)
        return Tiling(
            nest=nest, sources=(stream, *others), output=None, cycles=found.cycles, tile=result
        )
    output = None if sizes.on_chip else result
    return Tiling(nest=nest, sources=(stream,), output=output, cycles=found.cycles)
