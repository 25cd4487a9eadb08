# SPDX-License-Identifier: Apache-2.0
"""Words that a layer that only moves data needs in the banks."""

from collections.abc import Iterator

from opendpu.compiler.plan import Feature, MoveLayer
from opendpu_arch.target import Target


def move_words(layer: MoveLayer, source: Feature | None, target: Target) -> Iterator[int]:
    """Yield numbers of words a bank that are enough, the roomiest first.

    Pixels whose channels become one byte have to be in the bank whole.
    """
    if source is None:
        yield 1
        return
    groups = -(-source.channels // target.channel_parallel)
    least = layer.repeat_w * (groups if layer.reduction is not None else 1)
    words = min(target.bank_depth, source.height * source.width * groups * layer.repeat_w)
    while words > least:
        yield words
        words //= 2
    yield least
