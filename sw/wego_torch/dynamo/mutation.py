# SPDX-License-Identifier: Apache-2.0
"""Graphs that write into what they are given."""

import operator
import warnings

import torch
from torch.export import ExportedProgram

from wego_torch.dynamo.bound import Bound, Role

_IN_PLACE = frozenset(
    getattr(operator, name)
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "ipow", "setitem")
)


def changes_module(graph: torch.fx.GraphModule, bound: Bound) -> bool:
    """Return whether a graph of TorchDynamo writes into a tensor of a module, such as a counter."""
    heads = [node for node in graph.graph.nodes if node.op == "placeholder"]
    constants = {
        node for node, role in zip(heads, bound.roles, strict=True) if role is Role.CONSTANT
    }
    return any(
        _is_in_place(node) and node.args and node.args[0] in constants for node in graph.graph.nodes
    )


def _is_in_place(node: torch.fx.Node) -> bool:
    if node.op == "call_method":
        name = str(node.target)
        return name.endswith("_") and not name.endswith("__")
    return node.op == "call_function" and node.target in _IN_PLACE


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
    """Return a program that writes into its inputs, if it does, at its end only, by ``copy_``."""
    heads = {node for node in program.graph.nodes if node.op == "placeholder"}
    outside = set(heads)
    for node in program.graph.nodes:
        called = node.target if node.op == "call_function" else None
        if not isinstance(called, torch._ops.OpOverload):
            continue
        for argument, value in zip(called._schema.arguments, node.args, strict=False):
            if argument.alias_info is None or value not in outside:
                continue
            if argument.alias_info.is_write:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # what PyTorch says of its own parts
                    return program.run_decompositions({})
            outside.add(node)  # a view of it
    return program
