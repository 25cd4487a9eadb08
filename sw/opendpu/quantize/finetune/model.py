# SPDX-License-Identifier: Apache-2.0
"""A block on some rows: as the DPU computes it in numpy, or so that PyTorch has gradients."""

import types
from typing import Any

import numpy as np

from opendpu.ir import Array, Node
from opendpu.quantize.finetune.blocks import Block
from opendpu.quantize.finetune.examples import Examples
from opendpu.quantize.finetune.rows import Form

Tensor = Any
"""An array of numpy or a tensor of PyTorch."""


class BlockModel:
    """What a block computes, given its weights and bias on their grids.

    Parameters
    ----------
    block, form
        The block.
    library
        Whose tensors it takes: the module ``numpy`` or ``torch``, whose functions have the same
        names.
    """

    def __init__(self, block: Block, form: Form, library: types.ModuleType = np) -> None:
        self._block = block
        self._form = form
        self._library: Any = library

    def result(
        self, examples: Examples, weights: Tensor, bias: Tensor | None, *, exact: bool
    ) -> Tensor:
        """Return the block's result, ``[rows, channels]``.

        Parameters
        ----------
        examples
            Rows of the input.
        weights
            Real numbers on their grid, ``[terms, groups, outputs]``.
        bias
            Real numbers on their grid, ``[channels]``.
        exact
            Whether to round the results as the DPU; saturation counts in any case. A rounding adds
            the same noise to everything, and training needs none.
        """
        form, inputs = self._form, examples.inputs
        if form.groups == 1:
            made = inputs[:, :, 0] @ weights[:, 0]
        elif form.outputs == 1:
            made = self._depthwise(inputs, weights[:, :, 0])
        else:
            made = self._library.einsum("rkg,kgo->rgo", inputs, weights)
        made = made.reshape(len(inputs), -1)
        if bias is not None:
            made = made + bias
        values = {**examples.others, self._block.layer.name: made}
        for node in self._block.tail:
            given = [values[name] for name in node.inputs["input"]]
            if node.kind == "add" and exact:
                given = self._cut(node, given)
            values[node.name] = self._computed(node, given, exact=exact)
        return values[self._block.tail[-1].name if self._block.tail else self._block.layer.name]

    def _depthwise(self, inputs: Tensor, weights: Tensor) -> Tensor:
        """Return sums over the terms, for ``[rows, terms, groups]`` and ``[terms, groups]``."""
        if self._library is np:  # the same sums, without an array of products
            return np.einsum("rkg,kg->rg", inputs, weights)
        return (inputs * weights).sum(1)

    def _computed(self, node: Node, given: list[Tensor], *, exact: bool) -> Tensor:
        """Return the result of an op of the tail."""
        made, kind = given[0], node.kind
        if kind == "fix":
            return self._on_grid(made, node, exact=exact)
        if kind == "add":
            return sum(given[1:], start=made)
        if kind == "mul":
            return made * given[1]
        if kind == "relu":
            return made.clip(0.0, None)
        if kind == "relu6":
            return made.clip(0.0, 6.0)
        if kind == "hard-sigmoid":
            return (made / 6.0 + 0.5).clip(0.0, 1.0)
        assert kind == "leaky-relu", kind
        return self._library.where(made >= 0, made, made * float(node.attrs["alpha"]))

    def _cut(self, node: Node, given: list[Tensor]) -> list[Tensor]:
        """Return the terms of a sum without the bits that the DPU drops."""
        scales = [2.0 ** self._block.cuts.get(name, 0) for name in node.inputs["input"]]
        return [
            self._library.floor(one * scale) / scale if name in self._block.cuts else one
            for name, one, scale in zip(node.inputs["input"], given, scales, strict=True)
        ]

    def _on_grid(self, made: Tensor, fix: Node, *, exact: bool) -> Tensor:
        """Return numbers as a ``fix`` makes them, or saturated only."""
        low, high = fix.quantization.limits
        scale = 2.0**fix.fix_point
        if exact:
            return self._library.floor(made * scale + 0.5).clip(low, high) / scale
        return made.clip(low / scale, high / scale)


def error_of(model: BlockModel, judged: Examples, weights: Array, bias: Array | None) -> float:
    """Return the mean squared error of a block's exact result; of a model for numpy."""
    difference = model.result(judged, weights, bias, exact=True) - judged.wanted
    return float(np.square(difference, dtype=np.float64).mean())
