# SPDX-License-Identifier: Apache-2.0
"""Graphs that were traced with several samples, and have their number in shapes."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from wego_torch.dynamo.bound import BoundModule

RESHAPING = ("view", "reshape", "expand", "new_zeros", "new_ones", "repeat")
"""Operators that are given whole shapes."""


def rebatched(module: BoundModule, tensors: Sequence[torch.Tensor]) -> Iterator[BoundModule]:
    """Return the module for one sample, where shapes in it begin with the number of samples.

    Whether it computes the same, whoever calls this has to find out.
    """
    count = len(tensors[0]) if tensors and tensors[0].ndim else 1
    if count == 1:
        return
    graph = copy.deepcopy(module.graph.graph)
    changed = False
    for node in graph.nodes:
        name = getattr(node.target, "__name__", str(node.target))
        if name in RESHAPING:
            args = _changed(node.args, count)
            changed |= args != node.args
            node.args = args
    if changed:
        made = copy.copy(module)
        made._modules = dict(module._modules)
        made.graph = torch.fx.GraphModule(module.graph, graph)
        yield made


def _changed(args: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Return arguments of a reshaping operator with 1 for the first size, if that is ``count``."""
    if len(args) > 1 and args[1] == count and type(args[1]) is int:
        return (args[0], 1, *args[2:])
    if len(args) > 1 and isinstance(args[1], list | tuple) and args[1] and args[1][0] == count:
        return (args[0], (1, *args[1][1:]), *args[2:])
    return args
