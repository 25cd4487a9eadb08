# SPDX-License-Identifier: Apache-2.0
"""What graphs compute of constants alone, computed once: weights with a norm, casts, tables."""

import copy
from collections.abc import Mapping

import torch

from wego_torch.dynamo.in_place import is_in_place, written

_RANDOM = ("rand", "dropout", "bernoulli", "multinomial", "seed")


def folded(
    graph: torch.fx.GraphModule, constants: Mapping[str, torch.Tensor]
) -> torch.fx.GraphModule:
    """Return a graph of TorchDynamo in which what depends on constants only is an attribute.

    Parameters
    ----------
    graph
        The graph; its arguments stay.
    constants
        Those of its arguments that are constants, by name.
    """
    values = dict(constants)
    excepted = written(graph.graph)
    for node in graph.graph.nodes:
        if node not in excepted and _is_constant(node, values):
            found = _value(node, values)
            if found is not None:
                values[node.name] = found
    computed = {name: value for name, value in values.items() if name not in constants}
    if not computed:
        return graph
    made = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for node in list(made.graph.nodes):
        if node.name in computed:
            name = f"folded_{node.name}"
            made.register_buffer(name, computed[node.name])
            with made.graph.inserting_before(node):
                node.replace_all_uses_with(made.graph.get_attr(name))
    for node in reversed(list(made.graph.nodes)):
        if not node.users and (node.name in computed or node.op == "get_attr"):
            made.graph.erase_node(node)
    made.recompile()
    return made


def _is_constant(node: torch.fx.Node, values: Mapping[str, torch.Tensor]) -> bool:
    sources = node.all_input_nodes
    return (
        node.op in ("call_function", "call_method")
        and bool(sources)
        and all(source.name in values for source in sources)
        and not is_in_place(node)
        and not any(word in str(node.target) for word in _RANDOM)
    )


def _value(node: torch.fx.Node, values: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """Return what a node computes of constants; nothing where that is no tensor."""
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda one: values[one.name])
    try:
        with torch.no_grad():
            if node.op == "call_method":
                own, *others = args
                found = getattr(own, str(node.target))(*others, **kwargs)
            else:
                assert callable(node.target)
                found = node.target(*args, **kwargs)
    except Exception:  # whatever it is, the graph says so when it is called
        return None
    return found.detach() if isinstance(found, torch.Tensor) else None
