# SPDX-License-Identifier: Apache-2.0
"""Graphs that were traced with several samples, and have their number in shapes."""

import copy
from collections.abc import Sequence
from typing import Any

import torch

from wego_torch.dynamo.samples import samples_in

SHAPED = frozenset((
    "affine_grid", "affine_grid_generator", "broadcast_to", "empty", "expand", "full", "new_empty",
    "new_full", "new_ones", "new_zeros", "ones", "repeat", "reshape", "view", "zeros",
))  # fmt: skip
"""Operators that are given whole shapes."""


def rebatched(
    graph: torch.fx.GraphModule, tensors: Sequence[torch.Tensor]
) -> torch.fx.GraphModule | None:
    """Return the graph for one sample, if shapes in it begin with the number of samples.

    Whether it computes the same, whoever calls this has to find out.
    """
    count = samples_in(tensors)
    if count == 1:
        return None
    made, changed = copy.deepcopy(graph.graph), False
    for node in made.nodes:
        args = for_one(node, count)
        changed |= args != tuple(node.args)
        node.args = args
    return torch.fx.GraphModule(graph, made) if changed else None


def for_one(node: torch.fx.Node, count: int) -> tuple[Any, ...]:
    """Return the arguments of a node, with 1 as the first size of a shape that is ``count``."""
    args = tuple(node.args)
    called = str(getattr(node.target, "__name__", node.target)).split(".")[0]
    if not node.op.startswith("call") or called not in SHAPED:
        return args
    first = next((i for i, arg in enumerate(args) if type(arg) is int), len(args))
    if first <= 1 and first < len(args) and args[first] == count:
        return (*args[:first], 1, *args[first + 1 :])
    return tuple(_shape_for_one(arg, count) for arg in args)


def _shape_for_one(value: Any, count: int) -> Any:
    several = isinstance(value, list | tuple) and len(value) > 0
    if several and type(value[0]) is int and value[0] == count:
        return (1, *value[1:])
    return value
