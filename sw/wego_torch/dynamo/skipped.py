# SPDX-License-Identifier: Apache-2.0
"""Modules that TorchDynamo skips, so that their operators never come to the backend."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from wego_torch import messages

_MOST = 3
"""How many names a warning has."""


def say_skipped(function: Callable[..., Any]) -> None:
    """Write into the log which modules of a program are TorchScript, and stay in PyTorch.

    Parameters
    ----------
    function
        What was given to ``torch.compile``: a module, its method, or a function, of which the
        modules around it are looked at.
    """
    found = [name for name, module in _modules(function) if _is_script(module)]
    if not found:
        return
    shown = ", ".join(repr(name) for name in found[:_MOST])
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    messages.say_once(
        f"TorchScript stays in PyTorch: {shown}{more}; TorchDynamo does not look into it. Use the "
        "module that it was made from, or, where it is quantized, wego_torch.compile"
    )


def _modules(function: Callable[..., Any]) -> list[tuple[str, torch.nn.Module]]:
    """Return modules that a program consists of, by name, without those inside of TorchScript."""
    owner = getattr(function, "__self__", function)
    if isinstance(owner, torch.nn.Module):
        heads = list(owner.named_children())
    else:
        try:
            around = inspect.getclosurevars(inspect.unwrap(function))
        except TypeError:  # no function of Python
            return []
        values = {**around.globals, **around.nonlocals}
        heads = [(k, v) for k, v in values.items() if isinstance(v, torch.nn.Module)]
    found = []
    while heads:
        name, module = heads.pop(0)
        found.append((name, module))
        if not _is_script(module):
            heads += [(f"{name}.{child}", one) for child, one in module.named_children()]
    return found


def _is_script(module: torch.nn.Module) -> bool:
    """Tell whether a module was scripted, or loaded: what was traced, TorchDynamo traces, too."""
    return type(module) is torch.jit._script.RecursiveScriptModule
