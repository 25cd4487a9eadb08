# SPDX-License-Identifier: Apache-2.0
"""Arguments of a graph of TorchDynamo: constants of modules, sizes, tensors that change."""

import copy
import enum
from collections.abc import Sequence
from typing import Any, Self

import torch

from wego_torch.dynamo.folding import folded
from wego_torch.dynamo.in_place import written
from wego_torch.dynamo.watched import Watched


class Role(enum.Enum):
    """What an argument is."""

    CONSTANT = enum.auto()
    """A tensor of a module: a parameter, a buffer, an attribute."""
    SIZE = enum.auto()
    """A number that is a size of a tensor."""
    NUMBER = enum.auto()
    """A number of a module that TorchDynamo hands over as a tensor."""
    TENSOR = enum.auto()
    CAPTURED = enum.auto()
    """A tensor of the program that is no argument: a global one, one of a function around it or of
    an object. It is a constant as long as it is the same in every call."""


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
        self.graph, self._watched = graph, Watched()
        heads = [node for node in graph.graph.nodes if node.op == "placeholder"]
        changed = written(graph.graph)
        self.roles = [
            Role.TENSOR if role is Role.CAPTURED and node in changed else role
            for node, role in zip(heads, map(_role, heads, example_inputs), strict=True)
        ]
        examples = [  # with sizes as symbols, which those of example_inputs need not have
            head.meta.get("example_value", value)
            for head, value in zip(heads, example_inputs, strict=True)
        ]
        self._places = {
            steady: self._places_of(examples, self.changing(examples, steady))
            for steady in (False, True)
        }
        self._used = {index for index, head in enumerate(heads) if head.users}
        self.trainable = any(
            isinstance(x, torch.Tensor) and x.requires_grad
            for role, x in zip(self.roles, example_inputs, strict=True)
            if role is Role.CONSTANT
        ) or any(one.requires_grad for one in graph.parameters())

    def tensors(self, args: Sequence[Any]) -> list[torch.Tensor]:
        """Return the tensors of a call that are no constants of modules."""
        return self.changing(args, steady=False)

    def changing(self, args: Sequence[Any], steady: bool) -> list[torch.Tensor]:
        """Return the tensors of a call that are no constants.

        Parameters
        ----------
        args
            The call.
        steady
            Whether captured tensors are constants.
        """
        kept = {Role.TENSOR} if steady else {Role.TENSOR, Role.CAPTURED}
        return [x for role, x in zip(self.roles, args, strict=True) if role in kept]

    def columns(self, steady: bool) -> list[int]:
        """Return which of the :meth:`tensors` are :meth:`changing`."""
        both = [role for role in self.roles if role in (Role.TENSOR, Role.CAPTURED)]
        return [i for i, role in enumerate(both) if role is Role.TENSOR or not steady]

    def captured(self, args: Sequence[Any]) -> list[torch.Tensor]:
        """Return the captured tensors of a call."""
        return [x for role, x in zip(self.roles, args, strict=True) if role is Role.CAPTURED]

    def versions(self, args: Sequence[Any]) -> tuple[int, ...]:
        """Return numbers that change when a constant does."""
        pairs = list(zip(self.roles, args, strict=True))
        numbers = [hash(float(value)) for role, value in pairs if role is Role.NUMBER]
        constants = [value for role, value in pairs if role is Role.CONSTANT]
        return (*numbers, *self._watched.versions(constants))

    def numbers(self, args: Sequence[Any], steady: bool) -> tuple[str, ...]:
        """Return the numbers of a call that are no sizes of its :meth:`changing` tensors."""
        places = self._places[steady].items()
        return tuple(repr(args[i]) for i, place in places if place is None and i in self._used)

    def module(self, args: Sequence[Any], steady: bool) -> "BoundModule":
        """Return the graph with the constants of a call, as a module of :meth:`changing`."""
        bound = Role.CONSTANT if steady else Role.TENSOR
        roles = [bound if role is Role.CAPTURED else role for role in self.roles]
        return BoundModule(self.graph, roles, self._places[steady], args)

    def _places_of(
        self, args: Sequence[Any], tensors: Sequence[torch.Tensor]
    ) -> dict[int, tuple[int, int] | None]:
        """Return the tensor and axis that each size is of, by argument."""
        return {
            index: _place(value, tensors)
            for index, (role, value) in enumerate(zip(self.roles, args, strict=True))
            if role is Role.SIZE
        }


class Body(torch.nn.Module):
    """A graph as a module of its arguments.

    Parameters
    ----------
    body
        The graph.
    """

    def __init__(self, body: torch.fx.GraphModule) -> None:
        super().__init__()
        self.body = body
        self.eval()

    def with_body(self, body: torch.fx.GraphModule) -> Self:
        """Return the module with another graph of the same arguments."""
        made = copy.copy(self)
        made._modules = {**self._modules, "body": body}
        return made

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return the results of the graph."""
        return self.body(*tensors)


class BoundModule(Body):
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
        heads = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
        constants = {
            name: value.detach()
            for name, role, value in zip(heads, roles, args, strict=True)
            if role is Role.CONSTANT
        }
        super().__init__(folded(graph, constants))
        self._roles, self._places = list(roles), dict(places)
        self._sizes = {index: args[index] for index in places}
        self._numbers = {
            index: _Number(float(args[index]))
            for index, role in enumerate(roles)
            if role is Role.NUMBER
        }
        for index, name in enumerate(heads):
            if name in constants:
                self.register_buffer(f"constant_{index}", constants[name])

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
        return self.body(*args)


def _role(node: torch.fx.Node, value: Any) -> Role:
    if not isinstance(value, torch.Tensor):
        return Role.SIZE
    source = getattr(node, "_dynamo_source", None)
    of_module = source is not None and "NN_MODULE" in source.guard_source.name
    if of_module and value.ndim == 0 and node.users and all(map(_reads_number, node.users)):
        return Role.NUMBER
    if of_module or isinstance(value, torch.nn.Parameter):
        return Role.CONSTANT
    return Role.CAPTURED if _is_captured(source) else Role.TENSOR


def _is_captured(source: Any) -> bool:
    """Tell whether a value comes from around a program, or out of an object, by its source."""
    while getattr(source, "base", None) is not None:
        if type(source).__name__ == "AttrSource":
            return True
        source = source.base
    return type(source).__name__ == "GlobalSource" or getattr(source, "is_input", True) is False


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
