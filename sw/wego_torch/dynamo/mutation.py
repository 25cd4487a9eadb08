# SPDX-License-Identifier: Apache-2.0
"""Graphs that write into what they are given."""

import warnings

import torch
from torch.export import ExportedProgram

from wego_torch.dynamo.bound import Bound, Role
from wego_torch.dynamo.in_place import written


def changes_module(graph: torch.fx.GraphModule, bound: Bound) -> bool:
    """Return whether a graph of TorchDynamo writes into a tensor of a module, such as a counter."""
    heads = [node for node in graph.graph.nodes if node.op == "placeholder"]
    constants = {
        node for node, role in zip(heads, bound.roles, strict=True) if role is Role.CONSTANT
    }
    return not constants.isdisjoint(written(graph.graph))


def is_transformed(graph: torch.fx.GraphModule) -> bool:
    """Return whether a graph is within ``torch.func.vmap`` or the like: its tensors are others."""
    return any("functorch" in getattr(node.target, "__module__", "") for node in graph.graph.nodes)


def written_values(graph: torch.fx.Graph) -> set[str]:
    """Return the operators that write into the inputs of a functional program, and those that
    compute what they write: the DPU would round it.
    """
    waiting = [node for node in graph.nodes if node.target is torch.ops.aten.copy_.default]
    found: set[str] = set()
    while waiting:
        node = waiting.pop()
        if node.name not in found and node.op == "call_function":
            found.add(node.name)
            waiting += node.all_input_nodes
    return found


def functional(program: ExportedProgram) -> ExportedProgram:
    """Return a program that writes into nothing but, at its end, its inputs, by ``copy_``.

    What is written in place where nobody else sees it stays as it is.
    """
    shared = {node for node in program.graph.nodes if node.op == "placeholder"}
    for node in program.graph.nodes:
        called = node.target if node.op == "call_function" else None
        if not isinstance(called, torch._ops.OpOverload):
            continue
        for argument, value in zip(called._schema.arguments, node.args, strict=False):
            if argument.alias_info is None or not isinstance(value, torch.fx.Node):
                continue
            if not argument.alias_info.is_write:
                shared.add(node)  # a view of it
            elif value in shared or len(value.users) > 1:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # what PyTorch says of its own parts
                    return program.run_decompositions({})
    return program
