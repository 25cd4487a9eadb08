# SPDX-License-Identifier: Apache-2.0
"""Gradients, which the DPU has not: what a graph says of them, and results that refuse them."""

from collections.abc import Sequence
from typing import Any

import torch

from opendpu_arch.errors import UnsupportedError

_MODES = (
    torch._C._set_grad_enabled,
    torch.autograd.grad_mode._enter_inference_mode,
    torch.autograd.grad_mode._exit_inference_mode,
)


def remove_modes(graph: torch.fx.GraphModule) -> None:
    """Take ``torch.no_grad`` and ``torch.inference_mode`` inside of a program out of its graph.

    Whoever calls it does so without gradients. With and without these around the program,
    TorchDynamo makes two graphs of it, which are one then.
    """
    for node in reversed(list(graph.graph.nodes)):
        if node.op == "call_function" and node.target in _MODES and not node.users:
            graph.graph.erase_node(node)
    graph.recompile()


def differentiable(graph: torch.fx.GraphModule) -> list[bool]:
    """Return which results of a graph PyTorch would compute gradients of."""
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    leaves = torch.utils._pytree.tree_leaves(output.args[0])
    return [
        isinstance(leaf, torch.fx.Node)
        and bool(getattr(leaf.meta.get("example_value"), "requires_grad", False))
        for leaf in leaves
    ]


class _NoGradient(torch.autograd.Function):
    """The identity, through which no gradient comes back."""

    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise UnsupportedError(
            "gradients are asked for, but the DPU computes none: train the float module, and "
            "compile it then"
        )


def without_gradients(results: Any, differentiable: Sequence[bool]) -> Any:
    """Return results of which some say so when somebody asks for gradients."""
    if not torch.is_grad_enabled() or not any(differentiable):
        return results
    source = torch.zeros((), requires_grad=True)
    leaves, nested = torch.utils._pytree.tree_flatten(results)
    found = [
        _NoGradient.apply(source, leaf)  # type: ignore[no-untyped-call]
        if wanted and isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        else leaf
        for leaf, wanted in zip(leaves, differentiable, strict=True)
    ]
    return torch.utils._pytree.tree_unflatten(found, nested)
