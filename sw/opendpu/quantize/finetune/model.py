# SPDX-License-Identifier: Apache-2.0
"""A block as PyTorch computes it, with gradients through its roundings."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from opendpu.ir import Array, Node
from opendpu.quantize.finetune.blocks import Block
from opendpu.quantize.finetune.examples import Examples
from opendpu.quantize.finetune.pytorch import torch_module
from opendpu.quantize.finetune.rows import Form

if TYPE_CHECKING:
    import torch

Tensor = Any
"""A tensor of PyTorch."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Examples as tensors, see :class:`opendpu.quantize.finetune.examples.Examples`."""

    inputs: "torch.Tensor"
    wanted: "torch.Tensor"
    linear: "torch.Tensor"
    others: Mapping[str, "torch.Tensor"]

    def rows(self, chosen: Tensor) -> "Batch":
        """Return some of the examples."""
        others = {name: tensor[chosen] for name, tensor in self.others.items()}
        return Batch(self.inputs[chosen], self.wanted[chosen], self.linear[chosen], others)


def batch_of(examples: Examples) -> Batch:
    """Return examples as tensors."""
    torch = torch_module()
    others = {name: torch.from_numpy(array) for name, array in examples.others.items()}
    arrays = (examples.inputs, examples.wanted, examples.linear)
    return Batch(*(torch.from_numpy(array) for array in arrays), others)


class BlockModel:
    """What a block computes, given its weights and bias on their grids.

    Parameters
    ----------
    block, form
        The block.
    """

    def __init__(self, block: Block, form: Form) -> None:
        self._torch = torch_module()
        self._block = block
        self._form = form

    def result(self, batch: Batch, weights: Tensor, bias: Tensor | None, *, exact: bool) -> Tensor:
        """Return the block's result, ``[rows, channels]``.

        Parameters
        ----------
        batch
            Examples.
        weights
            Real numbers on their grid, ``[terms, groups, outputs]``.
        bias
            Real numbers on their grid, ``[channels]``.
        exact
            Whether to round the results as the DPU; saturation counts in any case. A rounding adds
            the same noise to everything, and training needs none.
        """
        torch, form = self._torch, self._form
        rows = len(batch.inputs)
        if form.groups == 1:
            made = batch.inputs[:, :, 0] @ weights[:, 0]
        elif form.outputs == 1:
            made = (batch.inputs * weights[:, :, 0]).sum(1)
        else:
            made = torch.einsum("rkg,kgo->rgo", batch.inputs, weights)
        made = made.reshape(rows, -1)
        if bias is not None:
            made = made + bias
        values = {**batch.others, self._block.layer.name: made}
        for node in self._block.tail:
            given = [values[name] for name in node.inputs["input"]]
            values[node.name] = self._computed(node, given, exact=exact)
        return values[self._block.tail[-1].name]

    def error(self, batch: Batch, weights: Tensor, bias: Tensor | None) -> float:
        """Return the mean squared error of the exact result."""
        with self._torch.no_grad():
            difference = self.result(batch, weights, bias, exact=True) - batch.wanted
            return float(difference.square().mean())

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
            return made.relu()
        if kind == "relu6":
            return made.clamp(0.0, 6.0)
        if kind == "hard-sigmoid":
            return (made / 6.0 + 0.5).clamp(0.0, 1.0)
        assert kind == "leaky-relu", kind
        return self._torch.where(made >= 0, made, made * float(node.attrs["alpha"]))

    def _on_grid(self, made: Tensor, fix: Node, *, exact: bool) -> Tensor:
        """Return numbers as a ``fix`` makes them, or saturated only."""
        low, high = fix.quantization.limits
        scale = 2.0**fix.fix_point
        if exact:
            return (made * scale + 0.5).floor().clamp(low, high) / scale
        return made.clamp(low / scale, high / scale)


def numbers(tensor: Tensor) -> Array:
    """Return a tensor's numbers as an array."""
    return np.asarray(tensor.detach().cpu().numpy())
