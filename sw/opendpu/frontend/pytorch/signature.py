# SPDX-License-Identifier: Apache-2.0
"""How a module is called: nested arguments and results as flat lists of named tensors."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree as pytree

from opendpu_arch.errors import TensorError


@dataclasses.dataclass(frozen=True)
class Signature:
    """Arguments and results of a traced module.

    Parameters
    ----------
    inputs
        Names of the arguments' leaves, in order; nothing for those that are no tensors, whose
        values the trace holds.
    in_spec, out_spec
        How arguments ``(args, kwargs)`` and results are nested.
    outputs
        For each leaf of the result, the index of the graph's output that it is; nothing for those
        that are no tensors.
    constants
        Leaves of the result that are no tensors, by position.
    fixed
        Arguments that are no tensors, by position: their name, and the value that the trace holds.
    """

    inputs: tuple[str | None, ...]
    in_spec: pytree.TreeSpec
    outputs: tuple[int | None, ...]
    out_spec: pytree.TreeSpec
    constants: Mapping[int, Any]
    fixed: Mapping[int, tuple[str, Any]] = dataclasses.field(default_factory=dict)

    def _traced(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that were there when the module was traced, and tensors."""
        blank = [None] * self.in_spec.num_leaves
        own_args, own_kwargs = pytree.tree_unflatten(blank, self.in_spec)
        kept, extra = tuple(args[: len(own_args)]), args[len(own_args) :]
        named = {k: v for k, v in kwargs.items() if k in own_kwargs or _has_tensors(v)}
        return (tuple(args) if _has_tensors(extra) else kept), named

    def tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Return the tensors of a call by name.

        What is given beyond the traced arguments, and is no tensor, does not count: the trace holds
        the default that the module has for it.

        Raises
        ------
        TensorError
            The call is nested in another way than the one that was traced, or has something else
            where that had a tensor.
        """
        leaves, spec = pytree.tree_flatten(self._traced(args, kwargs))
        if spec != self.in_spec:
            raise TensorError(
                f"the module was traced with {self._arguments()}, but is called with "
                f"{len(args)} positional and {len(kwargs)} keyword arguments, "
                f"{len(leaves)} values in all",
                code="QUANTIZER_TORCH_SHAPE_MISMATCH",
            )
        found = {}
        for name, leaf in zip(self.inputs, leaves, strict=True):
            if name is None:
                continue
            if not isinstance(leaf, torch.Tensor):
                raise TensorError(
                    f"argument {name!r} is {type(leaf).__name__}, but was a tensor in the trace",
                    code="QUANTIZER_TORCH_SHAPE_MISMATCH",
                )
            found[name] = leaf
        return found

    def differing(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Say which argument that is no tensor is another one than in the trace; nothing if none.

        The call has to be one that :meth:`tensors` takes.
        """
        leaves = pytree.tree_leaves(self._traced(args, kwargs))
        for position, (name, value) in self.fixed.items():
            found = leaves[position]
            if isinstance(found, torch.Tensor) or type(found) is not type(value) or found != value:
                return f"argument {name!r} is {found!r}, but was {value!r} when it was traced"
        return ""

    def as_traced(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a call with the trace's own arguments where these are no tensors."""
        leaves = pytree.tree_leaves(self._traced(args, kwargs))
        for position, (_, value) in self.fixed.items():
            leaves[position] = value
        made: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(leaves, self.in_spec)
        return made

    def nested(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Return the graph's outputs nested as the module's result."""
        leaves = [
            self.constants.get(position) if index is None else tensors[index]
            for position, index in enumerate(self.outputs)
        ]
        return pytree.tree_unflatten(leaves, self.out_spec)

    def is_flat(self, count: int) -> bool:
        """Return whether the module is called with ``count`` positional tensors and no more."""
        flat = pytree.tree_flatten(((None,) * count, {}), is_leaf=lambda x: x is None)[1]
        return bool(self.in_spec == flat)

    def _arguments(self) -> str:
        names = [name for name in self.inputs if name is not None]
        return f"{len(names)} tensor{'s' * (len(names) != 1)} ({', '.join(names)})"


def leaves_of(value: Any) -> list[Any]:
    """Return what is nested in tuples, lists, dictionaries and dataclasses."""
    return list(pytree.tree_leaves(_with_records(value)))


def has_only_tensors(value: Any) -> bool:
    """Tell whether something has tensors only, nested in what PyTorch's tracer knows."""
    return all(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))


def mapped(value: Any, change: Any) -> Any:
    """Return something nested with every leaf changed by ``change(leaf)``."""
    return pytree.tree_map(change, value)


class _Record:
    """A dataclass whose fields are looked into; the tracer knows only those that are registered."""

    def __init__(self, value: Any) -> None:
        self.kind = type(value)
        self.fields = {
            field.name: _with_records(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }


def _with_records(value: Any) -> Any:
    return pytree.tree_map(
        lambda leaf: (
            _Record(leaf) if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type) else leaf
        ),
        value,
    )


def _made(leaves: Iterable[Any], context: tuple[type, tuple[str, ...]]) -> Any:
    """Return a dataclass with fields, without calling its ``__init__``."""
    kind, names = context
    made: Any = object.__new__(kind)
    for name, leaf in zip(names, leaves, strict=True):
        object.__setattr__(made, name, leaf)  # it may be frozen
    return made


pytree.register_pytree_node(
    _Record, lambda record: ([*record.fields.values()], (record.kind, (*record.fields,))), _made
)


class TensorsOnly(torch.nn.Module):
    """A module whose result is a tuple of the tensors in another module's result.

    It is called as that one, so that arguments keep their names in a trace.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

        @functools.wraps(model.forward)
        def forward(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
            result = model(*args, **kwargs)
            return tuple(leaf for leaf in leaves_of(result) if isinstance(leaf, torch.Tensor))

        self.forward = forward


def signature_of(program: ExportedProgram, outputs: Sequence[str], result: Any = None) -> Signature:
    """Return how a program is called.

    Parameters
    ----------
    outputs
        Names of the outputs of the program's ONNX model; each is one output of the graph.
    result
        What the original module returned, where the program is of its :class:`TensorsOnly`.
    """
    order = {name: index for index, name in enumerate(dict.fromkeys(outputs))}
    places = iter(order[name] for name in outputs)
    users = [s for s in program.graph_signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
    leaves: Iterable[Any] = [
        s.arg.value if isinstance(s.arg, ConstantArgument) else torch.Tensor for s in users
    ]
    spec = program.call_spec.out_spec
    if result is not None:
        leaves, spec = pytree.tree_flatten(_with_records(result))
    leaves = [torch.Tensor if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    assert spec is not None and program.call_spec.in_spec is not None
    return Signature(
        inputs=tuple(
            None if isinstance(s.arg, ConstantArgument) else s.arg.name
            for s in program.graph_signature.input_specs
            if s.kind is InputKind.USER_INPUT
        ),
        in_spec=program.call_spec.in_spec,
        outputs=tuple(next(places) if leaf is torch.Tensor else None for leaf in leaves),
        out_spec=spec,
        fixed={
            i: (s.arg.name, s.arg.value)
            for i, s in enumerate(
                s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT
            )
            if isinstance(s.arg, ConstantArgument)
        },
        constants={i: leaf for i, leaf in enumerate(leaves) if leaf is not torch.Tensor},
    )


def _has_tensors(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))
