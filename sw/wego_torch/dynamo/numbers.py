# SPDX-License-Identifier: Apache-2.0
"""Results of a graph that are sizes: computed beside it, out of those of its inputs.

A program that breaks off between taking a tensor's shape and using it hands the sizes on. Plans are
for tensors, and may be those of one sample.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch


class SizeResults:
    """The sizes among the results of a graph, which it has no more.

    Parameters
    ----------
    graph
        From TorchDynamo; it is changed.
    """

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        output = _output(graph.graph)
        self._leaves, self._nested = torch.utils._pytree.tree_flatten(output.args[0])
        self._places = [
            index for index, leaf in enumerate(self._leaves)
            if isinstance(leaf, torch.fx.Node) and _is_of_sizes(leaf)
        ]  # fmt: skip
        if self._places:
            self._sizes = _with_results(graph, [self._leaves[index] for index in self._places])
            others = [x for index, x in enumerate(self._leaves) if index not in self._places]
            output.args = (tuple(others),)
            graph.recompile()

    def added(self, compute: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Return the results of a call, where ``compute`` gives those that are no sizes."""
        found = compute(*args)
        if not self._places:
            return found
        others, sizes = iter(found), iter(self._sizes(*args))
        leaves = [
            next(sizes if index in self._places else others) for index in range(len(self._leaves))
        ]
        return torch.utils._pytree.tree_unflatten(leaves, self._nested)


def is_size(node: torch.fx.Node) -> bool:
    """Tell whether what a node gives is a size, or sizes, of a tensor, and no tensor."""
    value = node.meta.get("example_value")
    leaves = value if isinstance(value, tuple) and value else (value,)
    return all(isinstance(one, int | torch.SymInt) for one in leaves)


def _is_of_sizes(node: torch.fx.Node) -> bool:
    """Tell whether a result is computed of the shapes of inputs alone."""
    waiting, seen = [node], set[torch.fx.Node]()
    while waiting:
        one = waiting.pop()
        if one in seen or one.op == "placeholder":
            continue
        if one.op == "get_attr" or not is_size(one):
            return False
        seen.add(one)
        waiting += one.all_input_nodes
    return is_size(node)


def _with_results(
    graph: torch.fx.GraphModule, results: Sequence[torch.fx.Node]
) -> torch.fx.GraphModule:
    """Return a graph of the same arguments that gives some sizes."""
    made = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    nodes = {node.name: node for node in made.graph.nodes}
    _output(made.graph).args = (tuple(nodes[one.name] for one in results),)
    made.graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))
    made.recompile()
    return made


def _output(graph: torch.fx.Graph) -> torch.fx.Node:
    (found,) = (node for node in graph.nodes if node.op == "output")
    return found
