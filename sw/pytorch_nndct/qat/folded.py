# SPDX-License-Identifier: Apache-2.0
"""The float module of a deployable model: batch normalizations are in its weights.

AMD's quantizer gives scripts such a module; they read its ``state_dict`` to go on with the weights
elsewhere. Beside the quantized network it is on disk as ``<Module>_deployable.pth``.
"""

import copy
import io
import pathlib
from collections.abc import Mapping
from typing import Any

import torch

from opendpu_arch import outputs

SUFFIX = "_deployable.pth"

Weights = Mapping[str, tuple[torch.Tensor, torch.Tensor | None]]
"""Weight and bias by path of a layer."""


def folded(module: torch.nn.Module, norms: Mapping[str, str | None], weights: Weights) -> Any:
    """Return a copy of a module whose batch normalizations are in the layers before them.

    Parameters
    ----------
    norms
        By path of a layer, that of the batch normalization behind it, or nothing.
    weights
        Weights and biases that do what both do.
    """
    result = copy.deepcopy(module)
    for path, norm in norms.items():
        if norm is not None:
            weight, bias = weights[path]
            layer: Any = result.get_submodule(path)
            layer.weight = torch.nn.Parameter(weight.detach().cpu().clone())
            layer.bias = None if bias is None else torch.nn.Parameter(bias.detach().cpu().clone())
            _replace(result, norm)
    return result


def save(folder: pathlib.Path, name: str, module: torch.nn.Module) -> None:
    """Write a folded module's parameters."""
    content = io.BytesIO()
    torch.save(module.state_dict(), content)
    outputs.write(folder / f"{name}{SUFFIX}", content.getvalue())


def load(folder: pathlib.Path, name: str, original: torch.nn.Module) -> torch.nn.Module:
    """Return what :func:`save` wrote; the module itself where there is nothing of its layers.

    Parameters
    ----------
    original
        The float module, with batch normalizations.
    """
    path = folder / f"{name}{SUFFIX}"
    if not path.exists():
        return original
    state = torch.load(path, map_location="cpu", weights_only=True)
    result = copy.deepcopy(original)
    for place, part in original.named_modules():
        own = part.state_dict()
        if own and not any(f"{place}.{name}" in state for name in own):
            _replace(result, place)
        elif f"{place}.bias" in state and getattr(part, "bias", part) is None:
            layer: Any = result.get_submodule(place)
            layer.bias = torch.nn.Parameter(torch.zeros_like(state[f"{place}.bias"]))
    result.load_state_dict(state)
    return result


def _replace(root: torch.nn.Module, path: str) -> None:
    """Put a module that does nothing at a path."""
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent), name, torch.nn.Identity())
