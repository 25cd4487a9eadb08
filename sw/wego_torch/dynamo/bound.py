# SPDX-License-Identifier: Apache-2.0
"""Arguments of a graph of TorchDynamo: constants of modules, sizes, tensors that change."""

import enum
from collections.abc import Sequence
from typing import Any

import torch


class Role(enum.Enum):
    """What an argument is."""

    CONSTANT = enum.auto()
    """A tensor of a module: a parameter, a buffer, an attribute."""
    SIZE = enum.auto()
    """A number that is a size of a tensor."""
    NUMBER = enum.auto()
    """A number of a module that TorchDynamo hands over as a tensor."""
    TENSOR = enum.auto()


class _Number:
    """A number where a graph reads it out of a tensor."""

    def __init__(self, value: float) -> None:
        self._value = value

    def item(self) -> float:
        """Return it."""
        return self._value


class Bound:
    """The arguments of a graph.

    Parameters
    ----------
    graph, example_inputs
        From TorchDynamo.
    """

    def __init__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        self.graph = graph
        heads = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self.roles = [_role(n, x) for n, x in zip(heads, example_inputs, strict=True)]
        tensors = self.tensors(example_inputs)
        self._places = {
            index: _place(value, tensors)
            for index, (role, value) in enumerate(zip(self.roles, example_inputs, strict=True))
            if role is Role.SIZE
        }
        self.trainable = any(
            isinstance(x, torch.Tensor) and x.requires_grad
            for role, x in zip(self.roles, example_inputs, strict=True)
            if role is Role.CONSTANT
        ) or any(one.requires_grad for one in graph.parameters())

    def tensors(self, args: Sequence[Any]) -> list[torch.Tensor]:
        """Return the tensors of a call that are no constants."""
        return [x for role, x in zip(self.roles, args, strict=True) if role is Role.TENSOR]

    def versions(self, args: Sequence[Any]) -> tuple[int, ...]:
        """Return numbers that change when a constant does."""
        found: list[int] = []
        for role, value in zip(self.roles, args, strict=True):
            if role is Role.CONSTANT:
                found += [value.data_ptr(), value._version]
            elif role is Role.NUMBER:
                found.append(hash(float(value)))
        return tuple(found)

    def module(self, args: Sequence[Any]) -> "BoundModule":
        """Return the graph with the constants of a call, as a module of the other tensors."""
        return BoundModule(self.graph, self.roles, self._places, args)


class BoundModule(torch.nn.Module):
    """A graph as a module of the tensors that change.

    Parameters
    ----------
    graph
        From TorchDynamo.
    roles
        What its arguments are.
    places
        Number of the tensor and axis that each size is of, by argument.
    args
        A call, for the constants.
    """

    def __init__(
        self, graph: torch.fx.GraphModule, roles: Sequence[Role],
        places: dict[int, tuple[int, int] | None], args: Sequence[Any],
    ) -> None:  # fmt: skip
        super().__init__()
        self.graph = graph
        self._roles, self._places = list(roles), dict(places)
        self._sizes = {index: args[index] for index in places}
        self._numbers = {
            index: _Number(float(args[index]))
            for index, role in enumerate(roles)
            if role is Role.NUMBER
        }
        for index, (role, value) in enumerate(zip(roles, args, strict=True)):
            if role is Role.CONSTANT:
                self.register_buffer(f"constant_{index}", value.detach())
        self.eval()

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return the results of the graph."""
        given = iter(tensors)
        args: list[Any] = []
        for index, role in enumerate(self._roles):
            if role is Role.CONSTANT:
                args.append(getattr(self, f"constant_{index}"))
            elif role is Role.TENSOR:
                args.append(next(given))
            elif role is Role.NUMBER:
                args.append(self._numbers[index])
            else:
                place = self._places[index]
                args.append(
                    self._sizes[index] if place is None else tensors[place[0]].shape[place[1]]
                )
        return self.graph(*args)


def _role(node: torch.fx.Node, value: Any) -> Role:
    if not isinstance(value, torch.Tensor):
        return Role.SIZE
    source = getattr(node, "_dynamo_source", None)
    of_module = source is not None and "NN_MODULE" in source.guard_source.name
    if of_module and value.ndim == 0 and node.users and all(map(_reads_number, node.users)):
        return Role.NUMBER
    return Role.CONSTANT if of_module or isinstance(value, torch.nn.Parameter) else Role.TENSOR


def _reads_number(node: torch.fx.Node) -> bool:
    return node.op == "call_method" and node.target == "item"


def _place(value: Any, tensors: Sequence[torch.Tensor]) -> tuple[int, int] | None:
    """Return the tensor and axis that a symbolic size is of."""
    wanted = getattr(getattr(value, "node", None), "expr", None)
    if wanted is None:
        return None
    for number, tensor in enumerate(tensors):
        for axis, size in enumerate(tensor.shape):
            if getattr(getattr(size, "node", None), "expr", None) == wanted:
                return number, axis
    return None
