# SPDX-License-Identifier: Apache-2.0
"""Patterns of ops."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from opendpu_arch.errors import GraphError
from xir import Op


@dataclasses.dataclass(frozen=True)
class OpTemplate:
    """An op of one of some types whose inputs, by argument, match other templates."""

    name: str
    types: frozenset[str]
    inputs: Mapping[str, tuple["OpTemplate", ...]]


class GraphTemplate:
    """Templates of ops that hang together; the last one created is where matching starts.

    Parameters
    ----------
    name
        For people.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._ops: dict[str, OpTemplate] = {}

    def create_op_template(
        self,
        name: str,
        types: str | Collection[str],
        inputs: Mapping[str, Sequence[OpTemplate]] | None = None,
    ) -> OpTemplate:
        """Add the template of an op; arguments not in ``inputs`` match anything.

        Raises
        ------
        GraphError
            The name is taken, or an input is of another template.
        """
        kinds = frozenset([types] if isinstance(types, str) else types)
        given = {arg: tuple(ops) for arg, ops in (inputs or {}).items()}
        if name in self._ops:
            raise GraphError(f"graph template {self.name!r} already has {name!r}")
        for op in (op for ops in given.values() for op in ops):
            if self._ops.get(op.name) is not op:
                raise GraphError(f"op template {op.name!r} is not of template {self.name!r}")
        self._ops[name] = OpTemplate(name, kinds, given)
        return self._ops[name]

    def match(self, op: Op) -> dict[str, Op] | None:
        """Return the ops by name of their template where ``op`` is the last one, or nothing."""
        found: dict[str, Op] = {}
        last = next(reversed(self._ops.values()), None)
        if last is None or not _match(last, op, found):
            return None
        complete = len(found) == len(self._ops) == len(set(found.values()))
        return found if complete else None


def _match(template: OpTemplate, op: Op, found: dict[str, Op]) -> bool:
    if op.get_type() not in template.types or found.setdefault(template.name, op) is not op:
        return False
    for arg, wanted in template.inputs.items():
        given = op.get_input_ops().get(arg, [])
        if len(given) != len(wanted):
            return False
        if not all(_match(t, o, found) for t, o in zip(wanted, given, strict=True)):
            return False
    return True
