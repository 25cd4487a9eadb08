# SPDX-License-Identifier: Apache-2.0
"""A network as a program: a class that makes it anew, with the same names of parameters."""

from collections.abc import Iterator
from typing import Any

from torch import fx, nn

from opendpu_arch.errors import UnsupportedError

HEAD = '''"""{name} after pruning, as OpenDPU has written it.

The parameters are those of pruned_state_dict() of what was pruned.
"""

import math

import torch
from math import inf, nan
from torch import device, nn
from torch.nn import *


def _put(network, path, value):
    *folders, name = path.split(".")
    for folder in folders:
        if not hasattr(network, folder):
            network.add_module(folder, nn.Module())
        network = getattr(network, folder)
    if isinstance(value, (nn.Module, nn.Parameter)) or value is None:
        setattr(network, name, value)
    else:
        network.register_buffer(name, value)


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
'''


def rebuilding_script(network: nn.Module) -> str:
    """Return a program with a class of the network's name, which takes no arguments.

    Raises
    ------
    UnsupportedError
        ``torch.fx`` cannot trace the network, or a layer is none of PyTorch's own.
    """
    name = type(network).__name__
    try:
        traced = fx.symbolic_trace(network)
    except Exception as error:  # tracing calls the user's code
        raise _refused(network, f"torch.fx cannot trace it: {error}") from error
    lines = [HEAD.format(name=name)]
    lines += [f"        _put(self, {path!r}, {made})\n" for path, made in _members(traced)]
    code = traced.code.lstrip("\n")
    lines += ["\n", *(f"    {line}\n" if line.strip() else "\n" for line in code.splitlines())]
    program = "".join(lines)
    _check(program, network)
    return program


def _members(traced: fx.GraphModule) -> Iterator[tuple[str, str]]:
    """Yield layers, and parameters and buffers beside them: path, and what makes them."""
    layers = {path: module for path, module in traced.named_modules() if _is_layer(module)}
    for path, module in layers.items():
        yield path, repr(module)
    for path, tensor in (*traced.named_parameters(), *traced.named_buffers()):
        if not any(path.startswith(f"{layer}.") for layer in layers):
            zeros = f"torch.zeros({tuple(tensor.shape)}, dtype={tensor.dtype})"
            yield path, f"Parameter({zeros})" if isinstance(tensor, nn.Parameter) else zeros


def _is_layer(module: nn.Module) -> bool:
    kind = type(module)
    return kind is not nn.Module and kind.__module__.startswith("torch.nn.") and not any(
        isinstance(module, some) for some in (nn.Sequential, nn.ModuleList, nn.ModuleDict)
    )  # fmt: skip


def _check(program: str, network: nn.Module) -> None:
    """Refuse a program that does not make the network's parameters."""
    place: dict[str, Any] = {}
    name = type(network).__name__
    try:
        exec(compile(program, name, "exec"), place)  # what was just written
        found = place[name]().state_dict()
    except Exception as error:
        raise _refused(network, f"a layer cannot be written: {error}") from error
    wanted = network.state_dict()
    strange = sorted(
        n for n in {*wanted, *found}
        if n not in wanted or n not in found or wanted[n].shape != found[n].shape
    )  # fmt: skip
    if strange:
        raise _refused(network, f"{strange[0]!r} would be missing or have another shape")


def _refused(network: nn.Module, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"output_script: {type(network).__name__} cannot be written as a program, {reason}; "
        "pytorch_nndct.utils.slim.load_state_dict makes the slim network of its class",
        code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
    )
