# SPDX-License-Identifier: Apache-2.0
"""``wrap``, with which AMD's examples make modules of functions before training."""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.nn import functional as F

from pytorch_nndct import messages
from pytorch_nndct.nn.modules import functional, stubs

Made = Callable[..., torch.nn.Module]

ALONE: dict[Any, Made] = {
    torch.relu: torch.nn.ReLU, torch.relu_: torch.nn.ReLU, "relu": torch.nn.ReLU,
    "relu_": torch.nn.ReLU, torch.sigmoid: torch.nn.Sigmoid, F.sigmoid: torch.nn.Sigmoid,
    "sigmoid": torch.nn.Sigmoid, torch.tanh: torch.nn.Tanh, F.tanh: torch.nn.Tanh,
    "tanh": torch.nn.Tanh,
}  # fmt: skip
"""Functions and methods of one tensor, and modules that compute the same."""
SET: dict[Any, Made] = {
    F.relu: torch.nn.ReLU, F.relu6: torch.nn.ReLU6, F.leaky_relu: torch.nn.LeakyReLU,
    F.hardswish: torch.nn.Hardswish, F.hardsigmoid: torch.nn.Hardsigmoid, F.silu: torch.nn.SiLU,
    F.hardtanh: torch.nn.Hardtanh, F.max_pool2d: torch.nn.MaxPool2d,
    F.avg_pool2d: torch.nn.AvgPool2d, F.adaptive_avg_pool2d: torch.nn.AdaptiveAvgPool2d,
    F.softmax: torch.nn.Softmax,
}  # fmt: skip
"""Functions whose arguments behind the tensor are those of a module, by name and in order."""
SEVERAL: dict[Any, Made] = {
    operator.add: functional.Add, operator.iadd: functional.Add, torch.add: functional.Add,
    operator.sub: functional.Sub, operator.isub: functional.Sub, torch.sub: functional.Sub,
    operator.mul: functional.Mul, operator.imul: functional.Mul, torch.mul: functional.Mul,
    torch.cat: functional.Cat, operator.matmul: functional.Matmul,
    torch.matmul: functional.Matmul, F.interpolate: functional.Interpolate,
}  # fmt: skip
"""Functions that modules take over with all of their arguments."""


def wrap(model: torch.nn.Module, inputs: Any) -> torch.nn.Module:
    """Return a module that computes the same with modules in place of functions.

    Parameters, buffers and names of the modules that were there stay; new ones are called
    ``<function>_<number>``. Functions of which there is no module stay functions.

    Parameters
    ----------
    model
        What is going to be trained.
    inputs
        What it is called with; nothing is computed.

    Raises
    ------
    VAIQError
        ``forward`` cannot be traced, for example as values decide what it does.
    """
    try:
        graph = _Tracer().trace(model)
    except Exception as error:  # whatever a user's forward raises, given what stands for tensors
        raise messages.error(
            "QUANTIZER_TORCH_PYTORCH_TRACE",
            f"{type(model).__name__} cannot be traced, so that its functions stay as they are; "
            f"train it without wrap: {error}",
        ) from error
    made = fx.GraphModule(model, graph, type(model).__name__)
    for number, node in enumerate(list(graph.nodes)):
        found = _module_of(node)
        if found is None:
            continue
        module, args, kwargs = found
        name = f"{getattr(node.target, '__name__', node.target)}_{number}"
        made.add_submodule(name, module)
        with graph.inserting_before(node):
            new = graph.call_module(name, args, kwargs)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    made.recompile()
    return made.train(model.training)


class _Tracer(fx.Tracer):
    """Takes the stubs and the functional modules as they are."""

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        ours = type(m).__module__ in (stubs.__name__, functional.__name__)
        return ours or super().is_leaf_module(m, module_qualified_name)


def _module_of(
    node: fx.Node,
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]] | None:
    """Return a module for a call, and what it is called with; nothing where there is none."""
    if node.op not in ("call_function", "call_method"):
        return None
    if node.target in ALONE:
        return ALONE[node.target](), node.args[:1], {}
    if node.target in SET:
        settings = {name: value for name, value in node.kwargs.items() if name != "input"}
        settings.pop("_stacklevel", None)
        given = node.args[0] if node.args else node.kwargs["input"]
        return SET[node.target](*node.args[1:], **settings), (given,), {}
    if node.target not in SEVERAL:
        return None
    operands = node.args[:2]
    if SEVERAL[node.target] in (functional.Add, functional.Sub, functional.Mul) and not all(
        isinstance(operand, fx.Node) for operand in operands
    ):
        return None  # with a number: scaling, or an offset
    return SEVERAL[node.target](), node.args, dict(node.kwargs)
