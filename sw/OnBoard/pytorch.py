# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch for TensorBoard: compiled ones, and any other."""

import os
import warnings
from typing import Any

import torch
from tensorboard.compat.proto.graph_pb2 import GraphDef

from OnBoard.graph import Compiled, add_script
from opendpu_arch.errors import TensorError
from wego_torch.script import networks_of


def compiled_networks(graph: GraphDef, module: Any, inputs: Any) -> list[Compiled]:
    """Call a module, and return its compiled networks; what PyTorch does around them is added.

    Parameters
    ----------
    graph
        Is changed.
    module
        The module; or what ``torch.compile`` gave, which has networks after its first call.
    inputs
        A tensor or a tuple of tensors; none to call nothing.
    """
    if inputs is not None:
        with torch.no_grad():
            module(*(inputs if isinstance(inputs, tuple) else (inputs,)))
    networks = networks_of(module)
    scripted = networks and isinstance(module, torch.jit.ScriptModule)
    calls = add_script(graph, module) if scripted else []
    return [
        Compiled(
            network.graph, network.artefact.report, list(network.statistics),
            list(network.seconds), calls[number] if number < len(calls) else "",
        )
        for number, network in enumerate(networks)
    ]  # fmt: skip


def write_float_module(
    folder: str | os.PathLike[str], module: Any, inputs: Any, verbose: bool
) -> None:
    """Write the graph of a module that is not compiled, with PyTorch's own writer.

    Raises
    ------
    TensorError
        There is nothing to trace it with, or PyTorch cannot trace it.
    """
    if inputs is None or not isinstance(module, torch.nn.Module):
        raise TensorError(
            f"{type(module).__name__} has no compiled network: give what wego_torch.compile "
            "returns, torch.compile after its first call, or a module with input_to_model"
        )
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its writer needs torch.jit.trace
        try:
            writer.add_graph(module, inputs, verbose=verbose)
        except Exception as error:  # whatever PyTorch and the module happen to raise
            raise TensorError(f"{type(module).__name__} cannot be traced: {error}") from error
