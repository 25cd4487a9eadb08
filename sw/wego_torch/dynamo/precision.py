# SPDX-License-Identifier: Apache-2.0
"""Graphs in half, double or mixed precision, in single precision: the DPU rounds more than either.

What goes in is converted, what comes out is what the program expects.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch

from wego_torch.dynamo.bound import Body

_OTHERS = (torch.float16, torch.bfloat16, torch.float64)
Types = tuple[torch.dtype | None, ...]
_METHODS = {"half": "float", "bfloat16": "float", "double": "float"}
_AUTOCAST = (torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast)


def ambient() -> str:
    """Return the autocast around the program, in which PyTorch's operators take another type."""
    return f"autocast {torch.get_autocast_dtype('cpu')}" if _is_autocast() else ""


def without_autocast() -> torch.autocast:
    """Return a context in which operators compute in the types that they are given."""
    return torch.autocast("cpu", enabled=False)


def _is_autocast() -> bool:
    return bool(torch.is_autocast_enabled("cpu"))


def is_single(module: Body, tensors: Sequence[torch.Tensor]) -> bool:
    """Tell whether a graph computes in single precision: its arguments, its constants, itself."""
    if _is_autocast():
        return False
    own = [*module.buffers(), *module.parameters(), *tensors]
    if any(tensor.dtype in _OTHERS for tensor in own):
        return False
    return not any(node.target in _AUTOCAST for node in module.body.graph.nodes)


def single(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors in single precision."""
    return [tensor.float() if tensor.dtype in _OTHERS else tensor for tensor in tensors]


def in_single(module: Body) -> Body:
    """Return a graph, with its constants, in single precision."""
    made = module.with_body(copy.deepcopy(_converted(module.body)))
    made._buffers = dict(made._buffers)
    for part in made.modules():
        for name, tensor in [*part.named_buffers(recurse=False), *part._parameters.items()]:
            if tensor is not None and tensor.dtype in _OTHERS:
                part._parameters.pop(name, None)
                part._buffers[name] = tensor.detach().float()
    return made


def types_of(module: Body, tensors: Sequence[torch.Tensor]) -> Types:
    """Return the types of the results of a graph, for a call; nothing for what is no tensor."""
    with torch.no_grad():
        found = module(*(tensor.clone() for tensor in tensors))
    return tuple(
        leaf.dtype if isinstance(leaf, torch.Tensor) else None
        for leaf in torch.utils._pytree.tree_leaves(found)
    )


def typed(results: Any, types: Types) -> Any:
    """Return results with certain types."""
    leaves, spec = torch.utils._pytree.tree_flatten(results)
    made = [x if t is None else x.to(t) for x, t in zip(leaves, types, strict=True)]
    return torch.utils._pytree.tree_unflatten(made, spec)


def _converted(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a graph of TorchDynamo that asks for no other precision."""
    graph = copy.deepcopy(module.graph)
    for node in reversed(list(graph.nodes)):
        if node.target in _AUTOCAST:
            graph.erase_node(node)
            continue
        node.args, node.kwargs = torch.utils._pytree.tree_map(
            lambda leaf: torch.float32 if leaf in _OTHERS else leaf, (node.args, node.kwargs)
        )
        if node.op == "call_method" and node.target in _METHODS:
            node.target = _METHODS[node.target]
    return torch.fx.GraphModule(module, graph)
