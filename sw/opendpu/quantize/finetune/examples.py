# SPDX-License-Identifier: Apache-2.0
"""Examples that a block is fitted to: rows of its inputs, and what should come out."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opendpu.ops.cut import cut
from opendpu.quantize.finetune.blocks import Block
from opendpu.quantize.finetune.forward import ForwardPass
from opendpu.quantize.finetune.rows import Form, Indices, at, inputs_at, positions

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
    source = block.layer.inputs["input"][0]
    quantized.compute([source, *block.others])
    floating.compute([block.compared, block.layer.name])
    samples = sum(quantized.counts)
    each = -(-max(FEWEST_ROWS, min(rows, BYTES // (4 * form.terms * form.groups))) // samples)
    kernel = quantized.graph[block.weights.name].shape
    parts: tuple[list[Examples], list[Examples]] = ([], [])
    first = 0
    for number, count in enumerate(quantized.counts):
        given = quantized.result(source, number)
        wanted = floating.result(block.compared, number)
        linear = floating.result(block.layer.name, number)
        others = {name: quantized.result(name, number) for name in block.others}
        others |= {n: cut(others[n], at) for n, at in block.cuts.items() if n in others}
        one = (len(wanted) // count, *wanted.shape[1:])
        size = int(np.prod(one[:-1]))
        for start in range(0, count, TOGETHER):
            chosen: tuple[list[Indices], list[Indices]] = ([], [])
            for index in range(start, min(start + TOGETHER, count)):
                places = positions(one, each, rng)
                held = _held_out(len(places), first + index, samples)
                chosen[0].append(places[~held] + index * size)
                chosen[1].append(places[held] + index * size)
            for several, found in zip(chosen, parts, strict=True):
                some = np.concatenate(several)
                inputs = inputs_at(block.layer, form, given, wanted.shape, kernel, some)
                rest = {name: at(array, some) for name, array in others.items()}
                aim = at(wanted, some)
                alone = aim - sum(rest.values()) if block.is_linear else at(linear, some)
                found.append(Examples(inputs, aim, alone, rest))
        first += count
    fitted, judged = (_joined(found) for found in parts)
    return fitted, judged if len(judged.wanted) else fitted


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


def _joined(parts: list[Examples]) -> Examples:
    return Examples(
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.wanted for part in parts]),
        np.concatenate([part.linear for part in parts]),
        {name: np.concatenate([part.others[name] for part in parts]) for name in parts[0].others},
    )
