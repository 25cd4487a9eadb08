# SPDX-License-Identifier: Apache-2.0
"""Templates: small patterns of ops, and where they occur in a graph."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from opendpu_arch.errors import GraphError
from xir.arguments import expect, expect_mapping, expect_name
from xir.op import Op
from xir.topology import toposort


class OpTemplate:
    """Stands for one op of some types; made by :meth:`GraphTemplate.add_op`."""

    def __init__(self, name: str, types: Iterable[str], inputs: Mapping["OpTemplate", str]) -> None:
        self._name = name
        self._types = set(types)
        self._inputs = dict(inputs)
        self._fanout: list[OpTemplate] = []
        self._filter: Callable[[Op], bool] = lambda op: True

    def __repr__(self) -> str:
        """Return the name and the types."""
        return f"<xir.OpTemplate named '{self._name}' for {', '.join(sorted(self._types))}>"

    def get_name(self) -> str:
        """Return the name, unique in the template."""
        return self._name

    def get_types(self) -> set[str]:
        """Return the op types that match."""
        return set(self._types)

    def set_types(self, types: Iterable[str]) -> None:
        """Let other op types match."""
        self._types = set(types)

    def get_input_num(self) -> int:
        """Return the number of inputs in the template."""
        return len(self._inputs)

    def get_input_ops(self) -> set["OpTemplate"]:
        """Return the templates whose results go in."""
        return set(self._inputs)

    def get_fanout_num(self) -> int:
        """Return the number of templates that use the result."""
        return len(self._fanout)

    def get_fanout_ops(self) -> set["OpTemplate"]:
        """Return the templates that use the result."""
        return set(self._fanout)

    def get_filter(self) -> Callable[[Op], bool]:
        """Return the further condition on an op."""
        return self._filter

    def set_filter(self, condition: Callable[[Op], bool]) -> None:
        """Match only ops for which ``condition`` is true."""
        self._filter = condition

    def _accepts(self, op: Op, matched: Mapping["OpTemplate", Op]) -> bool:
        """Return whether ``op`` can stand here, beside what is matched already."""
        if op.get_type() not in self._types or op in matched.values():
            return False
        inputs = op.get_input_ops_list()
        for other, theirs in matched.items():
            if (other in self._inputs) != (theirs in inputs):
                return False
            if (self in other._inputs) != (op in theirs.get_input_ops_list()):
                return False
            if not _through(op, theirs, self._inputs.get(other)):
                return False
            if not _through(theirs, op, other._inputs.get(self)):
                return False
        return self._filter(op)


def _through(user: Op, producer: Op, argument: str | None) -> bool:
    """Return whether ``producer`` goes in through ``argument``; any will do if it is empty."""
    return not argument or producer in user.get_input_ops().get(argument, ())


class GraphTemplate:
    """A pattern of ops, looked for with :meth:`xir.Subgraph.isomorphism`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ops: dict[str, OpTemplate] = {}
        self._filter: Callable[[Mapping[OpTemplate, Op]], bool] = lambda match: True

    def __repr__(self) -> str:
        """Return the name."""
        return f"<xir.GraphTemplate named '{self._name}'>"

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def add_op(
        self, name: str, types: Iterable[str], input_ops: Mapping[OpTemplate, str] | None = None
    ) -> OpTemplate:
        """Add an op of one of ``types``; ``input_ops`` gives its inputs and their arguments.

        An empty argument name stands for any argument.

        Raises
        ------
        GraphError
            The name is taken, or an input is not of this template.
        """
        if name in self._ops:
            raise GraphError(f"template {self._name!r} has an op {name!r} already")
        inputs = {} if input_ops is None else dict(expect_mapping(input_ops, "input_ops"))
        expect_name(name, "name of an op")
        for op in inputs:
            expect(op, OpTemplate, "an input")
            if self._ops.get(op.get_name()) is not op:
                raise GraphError(f"input {op!r} is not an op of template {self._name!r}")
        added = self._ops[name] = OpTemplate(name, types, inputs)
        for op in inputs:
            op._fanout.append(added)
        return added

    def remove_op(self, op: OpTemplate) -> None:
        """Remove an op that nobody uses; GraphError otherwise."""
        expect(op, OpTemplate, "op")
        if self._ops.get(op.get_name()) is not op or op.get_fanout_num():
            raise GraphError(f"{op!r} is used, or not in template {self._name!r}")
        for producer in op.get_input_ops():
            producer._fanout.remove(op)
        del self._ops[op.get_name()]

    def get_op(self, name: str) -> OpTemplate | None:
        """Return the op called ``name``, or nothing."""
        return self._ops.get(name)

    def get_ops(self) -> list[OpTemplate]:
        """Return every op, in the order they were added."""
        return list(self._ops.values())

    def get_op_num(self) -> int:
        """Return the number of ops."""
        return len(self._ops)

    def toposort(self) -> list[OpTemplate]:
        """Return every op after its inputs."""
        return toposort(self.get_ops(), OpTemplate.get_fanout_ops)

    def get_filter(self) -> Callable[[Mapping[OpTemplate, Op]], bool]:
        """Return the further condition on a match."""
        return self._filter

    def set_filter(self, condition: Callable[[Mapping[OpTemplate, Op]], bool]) -> None:
        """Find only matches for which ``condition`` is true."""
        self._filter = condition

    def find(self, ops: Sequence[Op]) -> list[dict[OpTemplate, Op]]:
        """Return every way to put ops in the places of the templates.

        Two ops of a match are connected exactly where their templates are; other ops may use
        their results, or go into them.
        """
        for op in ops:
            expect(op, Op, "an op to look at")
        found = _extend({}, self._order(ops), ops, set(ops)) if self._ops else iter(())
        return [match for match in found if self._filter(match)]

    def _order(self, ops: Sequence[Op]) -> list[OpTemplate]:
        """Return the templates, the rarest first, then those connected with one before."""
        types = [op.get_type() for op in ops]
        rest = sorted(self.get_ops(), key=lambda own: sum(kind in own._types for kind in types))
        order: list[OpTemplate] = []
        while rest:
            near = (own for own in rest if set(order) & {*own._inputs, *own._fanout})
            order.append(next(near, rest[0]))
            rest.remove(order[-1])
        return order


def _extend(
    match: dict[OpTemplate, Op], order: Sequence[OpTemplate], ops: Sequence[Op], inside: set[Op]
) -> Iterator[dict[OpTemplate, Op]]:
    if not order:
        yield match
        return
    head, *rest = order
    for op in _candidates(head, match, ops):
        if op in inside and head._accepts(op, match):
            yield from _extend({**match, head: op}, rest, ops, inside)


def _candidates(
    head: OpTemplate, match: Mapping[OpTemplate, Op], ops: Sequence[Op]
) -> Iterable[Op]:
    """Return the ops that can stand for ``head``: neighbours of one matched, if there is one."""
    for other, theirs in match.items():
        if other in head._inputs:
            return theirs.get_fanout_ops()
        if head in other._inputs:
            return dict.fromkeys(theirs.get_input_ops_list())
    return ops
