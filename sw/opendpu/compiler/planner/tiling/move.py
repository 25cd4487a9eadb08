# SPDX-License-Identifier: Apache-2.0
"""Words that a layer that only moves data passes through."""

from collections.abc import Iterator

from opendpu.compiler.layers import Feature, MoveLayer, channel_groups
from opendpu.compiler.plan import LoopNest
from opendpu.compiler.planner.tiling.problem import Stream, Tiling, TilingProblem
from opendpu_arch.target import Target

NEST = LoopNest(columns=1, rows=1, row_pass=1, groups=1)
"""A copy has no loops of its own."""


def move_tilings(problem: TilingProblem, layer: MoveLayer) -> Iterator[Tiling]:
    """Yield the words of one bank group that pieces go through, the largest first."""
    source = None
    if layer.source is not None and layer.source not in problem.whole:
        source = problem.network.features[layer.source]
    for number, words in enumerate(_words(layer, source, problem.target)):
        stream = Stream(capacity=1, stride=1, row_words=words)
        yield Tiling(
            nest=NEST, sources=(None if source is None else stream,) * len(layer.operands),
            output=stream, cycles=number, passes_through=True,
        )  # fmt: skip


def _words(layer: MoveLayer, source: Feature | None, target: Target) -> Iterator[int]:
    """Yield numbers of words a bank that are enough.

    Pixels whose channels become one byte have to be in the bank whole.
    """
    if source is None:
        yield 1
        return
    groups = channel_groups(source, target)
    least = layer.repeat_w * (groups if layer.reduction is not None else 1)
    words = min(target.bank_depth, source.height * source.width * groups * layer.repeat_w)
    while words > least:
        yield words
        words //= 2
    yield least
