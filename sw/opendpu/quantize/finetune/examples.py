# SPDX-License-Identifier: Apache-2.0
"""Examples that a block is trained with: rows of its inputs, and what should come out."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from opendpu.ir import Array
from opendpu.quantize.finetune.blocks import Block
from opendpu.quantize.finetune.forward import ForwardPass
from opendpu.quantize.finetune.rows import Form, at, inputs_at, positions

ROWS = 1 << 14
"""Positions of a block's result that are looked at, of all samples together, at most."""

BYTES = 1 << 28
"""Size that their inputs may have, as float32; limits the positions."""

FEWEST_ROWS = 1 << 10
"""Positions that are looked at however large their inputs are."""

HELD_OUT = 5
"""One in so many samples is not trained with, but tells whether training helped."""


@dataclasses.dataclass(frozen=True)
class Examples:
    """Some positions of a block, ``rows`` of them.

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

    inputs: Array
    wanted: Array
    linear: Array
    others: Mapping[str, Array]

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.wanted)


def collect(
    block: Block, form: Form, quantized: ForwardPass, floating: ForwardPass,
    rng: np.random.Generator,
) -> tuple[Examples, Examples]:  # fmt: skip
    """Return examples to train with and examples to judge by, which are of other samples.

    Where there is one sample only, they are other positions of it.
    """
    source = block.layer.inputs["input"][0]
    quantized.compute([source, *block.others])
    floating.compute([block.compared, block.layer.name])
    samples = sum(quantized.counts)
    budget = max(FEWEST_ROWS, min(ROWS, BYTES // (4 * form.terms * form.groups)))
    each = -(-budget // samples)
    kernel = quantized.graph[block.weights.name].shape
    parts: tuple[list[Examples], list[Examples]] = ([], [])
    first = 0
    for number, count in enumerate(quantized.counts):
        wanted = floating.result(block.compared, number)
        linear = floating.result(block.layer.name, number)
        given = quantized.result(source, number)
        others = {name: quantized.result(name, number) for name in block.others}
        one = (len(wanted) // count, *wanted.shape[1:])
        size = int(np.prod(one[:-1]))
        for index in range(count):
            places = positions(one, each, rng)
            held = (first + index) % HELD_OUT == HELD_OUT - 1
            some = places + index * size
            if samples < HELD_OUT:
                judged = np.arange(len(some)) % HELD_OUT == HELD_OUT - 1
                chosen = [(some[~judged], parts[0]), (some[judged], parts[1])]
            else:
                chosen = [(some, parts[held])]
            for rows, found in chosen:
                if len(rows):
                    inputs = inputs_at(block.layer, form, given, wanted.shape, kernel, rows)
                    rest = {name: at(array, rows) for name, array in others.items()}
                    aim = at(wanted, rows)
                    alone = aim - sum(rest.values()) if block.is_linear else at(linear, rows)
                    found.append(Examples(inputs, aim, alone, rest))
        first += count
    train, judge = (_joined(found) for found in parts)
    return train, judge if judge.rows else train


def _joined(parts: list[Examples]) -> Examples:
    if not parts:
        none = np.zeros((0, 1), np.float32)
        return Examples(none[..., None], none, none, {})
    return Examples(
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.wanted for part in parts]),
        np.concatenate([part.linear for part in parts]),
        {name: np.concatenate([part.others[name] for part in parts]) for name in parts[0].others},
    )
