# SPDX-License-Identifier: Apache-2.0
"""Compiled networks as modules."""

import copy
from typing import Any

import numpy as np
import torch

from opendpu.frontend.pytorch import Traced
from opendpu.frontend.pytorch.signature import has_only_tensors
from opendpu.ir import Node
from pytorch_nndct.export import torch_script
from wego_torch import messages
from wego_torch.artefact import Artefact
from wego_torch.network import Network
from wego_torch.script import with_short_errors


class CompiledModule(torch.nn.Module):
    """A compiled network that is called as the module that it comes from."""

    def __init__(self, artefact: Artefact, traced: Traced) -> None:
        super().__init__()
        self.network = Network(artefact)
        self._signature = traced.signature

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results, nested as those of the original module."""
        tensors = self._signature.tensors(args, kwargs)
        said = self._signature.differing(args, kwargs)
        if said:
            raise messages.error("WEGO_TORCH_INVALID_ARGUMENT", f"{said}: compile it for each")
        return self._signature.nested(self.network.run(list(tensors.values())))


def scripted(artefact: Artefact, traced: Traced) -> torch.nn.Module:
    """Return a TorchScript module where tensors are all that the original is called with."""
    signature = traced.signature
    names = [name for name in signature.inputs if name is not None]
    results = signature.nested([torch.zeros(1)] * len(signature.outputs))
    plain = (
        len(names) == len(signature.inputs)
        and signature.is_flat(len(names))
        and has_only_tensors(results)
    )
    if not plain:
        return CompiledModule(artefact, traced)
    examples = [_zeros(traced, name) for name in names]
    made = torch_script.scripted(artefact.to_bytes(), traced, examples)
    return with_short_errors(copy.deepcopy(made))  # no longer one that is being traced


def _zeros(traced: Traced, name: str) -> torch.Tensor:
    return torch.zeros(shape_of(traced, traced.graph[name]), dtype=_dtype(traced.graph[name]))


def shape_of(traced: Traced, node: Node) -> tuple[int, ...]:
    """Return the shape of an input as the module has it."""
    order = traced.graph.attrs.get("onnx_order", {}).get(node.name, range(len(node.shape)))
    return tuple(node.shape[list(order).index(axis)] for axis in range(len(node.shape)))


def _dtype(node: Node) -> torch.dtype:
    return torch.from_numpy(np.zeros(1, node.type.dtype)).dtype
