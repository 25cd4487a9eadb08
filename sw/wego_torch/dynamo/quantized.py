# SPDX-License-Identifier: Apache-2.0
"""Graphs with quantized modules of ``pytorch_nndct`` in them: these run on the DPU."""

import copy

import torch

from pytorch_nndct.traceable import OPERATOR, model_of
from wego_torch.build import compiled
from wego_torch.network import Network
from wego_torch.options import CompileOptions


class NetworkModule(torch.nn.Module):
    """A compiled network as a module of a graph."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Return the outputs in order."""
        return self.network.run(inputs)


def has_quantized(graph: torch.fx.GraphModule) -> bool:
    """Return whether a graph calls a quantized module."""
    return any(_is_quantized(node) for node in graph.graph.nodes)


def with_programs(graph: torch.fx.GraphModule, options: CompileOptions) -> torch.fx.GraphModule:
    """Return a graph in which quantized modules are compiled networks; the rest is PyTorch's."""
    made = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for number, node in enumerate([n for n in made.graph.nodes if _is_quantized(n)]):
        inputs, key = node.args
        model = model_of(str(key))
        names = [name for name in model.traced.signature.inputs if name is not None]
        artefact = compiled(model.network.quantized, names, options, batched=model.traced.batched)
        name = f"dpu_{number}"
        made.add_submodule(name, NetworkModule(Network(artefact)))
        with made.graph.inserting_before(node):
            node.replace_all_uses_with(made.graph.call_module(name, tuple(inputs)))  # type: ignore[arg-type]
        made.graph.erase_node(node)
    made.recompile()
    return made


def _is_quantized(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and str(node.target).startswith(OPERATOR)
