# SPDX-License-Identifier: Apache-2.0
"""Which operators of a graph treat every sample by itself, where the whole graph does not."""

import enum
from collections.abc import Sequence
from typing import Any

import torch

from opendpu.frontend.pytorch.batch import alike
from wego_torch.dynamo.rebatch import for_one
from wego_torch.dynamo.samples import is_of_each, samples_in


class Kind(enum.Enum):
    """What the value of an operator is."""

    SHARED = enum.auto()
    """The same for all samples."""
    EACH = enum.auto()
    """One for every sample, along the first axis."""
    MIXED = enum.auto()
    """Anything else."""


def mixing(module: torch.fx.GraphModule, tensors: Sequence[torch.Tensor]) -> set[str]:
    """Return the operators that do not treat every sample by itself, by name.

    That is tried: an operator does whose result for the first sample is the first of its results.
    What is the same for all samples does where only such operators need it.

    Parameters
    ----------
    module
        With ATen's operators, of a graph that writes into nothing but its inputs.
    tensors
        A call with several samples.
    """
    watched = _LockStep(module, samples_in(tensors))
    kinds = {True: Kind.SHARED, False: Kind.EACH}
    given = [kinds[is_of_each(tensor, tensors)] for tensor in tensors]
    with torch.no_grad():
        watched.look(tensors, given)
    each = {name for name, kind in watched.kinds.items() if kind is Kind.EACH}
    each |= {
        node.name
        for node in module.graph.nodes
        if watched.kinds.get(node.name) is Kind.SHARED
        and all(user.name in each for user in node.users)
    }
    return watched.kinds.keys() - each


class _LockStep(torch.fx.Interpreter):
    """Computes a graph for all samples, and beside it for the first one."""

    def __init__(self, module: torch.fx.GraphModule, count: int) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.kinds: dict[str, Kind] = {}
        self._count = count
        self._first: dict[str, Any] = {}
        self._given: list[Kind] = []

    def look(self, tensors: Sequence[torch.Tensor], kinds: Sequence[Kind]) -> None:
        """Find out the kind of every operator, given those of the arguments."""
        self._given = list(kinds)
        self.run(*(tensor.clone() for tensor in tensors), enable_io_processing=False)

    def run_node(self, n: torch.fx.Node) -> Any:
        """Return the value of a node for all samples."""
        found = super().run_node(n)
        if n.op == "placeholder":
            self.kinds[n.name] = kind = self._given.pop(0)
            self._first[n.name] = found[:1] if kind is Kind.EACH else found
        elif n.op == "get_attr":
            self.kinds[n.name], self._first[n.name] = Kind.SHARED, found
        elif n.op != "output":
            self.kinds[n.name] = self._kind(n, found)
        return found

    def _kind(self, node: torch.fx.Node, found: Any) -> Kind:
        kinds = {self.kinds[source.name] for source in node.all_input_nodes}
        if Kind.MIXED in kinds:
            return Kind.MIXED
        if Kind.EACH not in kinds:
            self._first[node.name] = found
            return Kind.SHARED
        for args in (node.args, for_one(node, self._count)):
            given = torch.fx.map_arg((args, node.kwargs), lambda one: self._first[one.name])
            try:
                first = getattr(self, node.op)(node.target, *given)
            except Exception:  # an operator that wants all samples
                continue
            if _begins(found, first, self._count):
                self._first[node.name] = first
                return Kind.EACH
        return Kind.MIXED


def _begins(found: Any, first: Any, count: int) -> bool:
    """Tell whether a value for all samples begins with the one for the first sample."""
    if isinstance(found, list | tuple):
        pairs = zip(found, first, strict=True)
        return len(found) == len(first) and all(_begins(x, y, count) for x, y in pairs)
    return isinstance(found, torch.Tensor) and alike(found, first, count)
