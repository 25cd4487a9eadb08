# SPDX-License-Identifier: Apache-2.0
"""Examples that a block is fitted to: rows of its inputs, and what should come out."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opendpu.ir import Array
from opendpu.ops.cut import cut
from opendpu.quantize.finetune.blocks import Block
from opendpu.quantize.finetune.forward import ForwardPass
from opendpu.quantize.finetune.rows import Form, at, inputs_at, positions

BYTES = 1 << 28
"""Size that the inputs of examples may have, as float32; limits the positions."""

FEWEST_ROWS = 1 << 10
"""Positions that are looked at however large their inputs are."""

HELD_OUT = 4
"""One in so many samples is not fitted to, but tells whether that helped."""

TOGETHER = 8
"""Samples whose positions are gathered at a time: fewer calls, and little memory beside them."""


@dataclasses.dataclass(frozen=True)
class Examples:
    """Some positions of a block's result, ``rows`` of them; arrays of numpy, or tensors.

    Parameters
    ----------
    inputs
        ``[rows, terms, groups]``, on the grid of the input, as real numbers.
    wanted
        What the float network has there, ``[rows, channels]``.
    linear
        What the layer itself should give there, before its tail.
    others
        What the block's tail reads besides, as ``wanted``, by op.
    """

    inputs: Any
    wanted: Any
    linear: Any
    others: Mapping[str, Any]

    def mapped(self, function: Callable[[Any], Any]) -> "Examples":
        """Return all arrays after a function."""
        others = {name: function(array) for name, array in self.others.items()}
        return Examples(function(self.inputs), function(self.wanted), function(self.linear), others)

    def rows(self, chosen: Any) -> "Examples":
        """Return some of the examples."""
        return self.mapped(lambda array: array[chosen])


def collect(
    block: Block, form: Form, quantized: ForwardPass, floating: ForwardPass, rows: int,
    rng: np.random.Generator,
) -> tuple[Examples, Examples]:  # fmt: skip
    """Return examples to fit to and examples to judge by, ``rows`` together.

    They are of different samples; where there are few of these, of different positions.
    """
    source = advance(block, quantized, floating)
    samples = sum(quantized.counts)
    each = -(-max(FEWEST_ROWS, min(rows, BYTES // (4 * form.terms * form.groups))) // samples)
    kernel = quantized.graph[block.weights.name].shape
    one = (len(floating.result(block.compared, 0)) // quantized.counts[0],
           *floating.result(block.compared, 0).shape[1:])  # fmt: skip
    size = int(np.prod(one[:-1]))
    places = [positions(one, each, rng) for _ in range(samples)]
    held = [_held_out(len(some), number, samples) for number, some in enumerate(places)]
    made = tuple(
        _Rows(block, form, one[-1], sum(int((part == judged).sum()) for part in held))
        for judged in (False, True)
    )
    first = 0
    for number, count in enumerate(quantized.counts):
        given = quantized.result(source, number)
        wanted = floating.result(block.compared, number)
        linear = floating.result(block.layer.name, number)
        others = {name: quantized.result(name, number) for name in block.others}
        others |= {n: cut(others[n], at) for n, at in block.cuts.items() if n in others}
        for start in range(0, count, TOGETHER):
            several = range(start, min(start + TOGETHER, count))
            for judged, rows_of in zip((False, True), made, strict=True):
                some = np.concatenate([
                    places[first + index][held[first + index] == judged] + index * size
                    for index in several
                ])  # fmt: skip
                inputs_at(
                    block.layer, form, given, wanted.shape, kernel, some, rows_of.next(len(some))
                )
                rest = {name: at(array, some) for name, array in others.items()}
                aim = at(wanted, some)
                alone = aim - sum(rest.values()) if block.is_linear else at(linear, some)
                rows_of.put(aim, alone, rest)
        first += count
    fitted, judged_by = (rows_of.examples for rows_of in made)
    return fitted, judged_by if len(judged_by.wanted) else fitted


def advance(block: Block, quantized: ForwardPass, floating: ForwardPass) -> str:
    """Compute what a block is fitted to; return the name of its input."""
    source = block.layer.inputs["input"][0]
    quantized.compute([source, *block.others])
    floating.compute([block.compared, block.layer.name])
    return source


class _Rows:
    """Examples that are written part by part, each number once.

    Parameters
    ----------
    block, form
        The block.
    channels
        Those of its result.
    count
        How many rows there will be.
    """

    def __init__(self, block: Block, form: Form, channels: int, count: int) -> None:
        wanted, linear = (np.empty((count, channels), np.float32) for _ in range(2))
        inputs = np.empty((count, form.terms, form.groups), np.float32)
        others = {name: np.empty_like(wanted) for name in block.others}
        self.examples = Examples(inputs, wanted, linear, others)
        self._part = slice(0, 0)

    def next(self, count: int) -> Array:
        """Return where the inputs of the next rows are."""
        self._part = slice(self._part.stop, self._part.stop + count)
        return np.asarray(self.examples.inputs[self._part])

    def put(self, wanted: Array, linear: Array, others: Mapping[str, Array]) -> None:
        """Write what belongs to these inputs."""
        self.examples.wanted[self._part] = wanted
        self.examples.linear[self._part] = linear
        for name, array in others.items():
            self.examples.others[name][self._part] = array


def held_out(samples: int) -> list[int]:
    """Return the numbers of the samples that nothing is fitted to; all where there are few."""
    if samples < HELD_OUT:
        return list(range(samples))
    return list(range(HELD_OUT - 1, samples, HELD_OUT))


def _held_out(count: int, sample: int, samples: int) -> Any:
    """Return which of some positions of a sample are not fitted to."""
    if samples < HELD_OUT:
        return np.arange(count) % HELD_OUT == HELD_OUT - 1
    return np.full(count, sample % HELD_OUT == HELD_OUT - 1)
