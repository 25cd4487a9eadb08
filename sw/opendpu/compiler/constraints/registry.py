# SPDX-License-Identifier: Apache-2.0
"""What a constraint is, and how predicates are registered."""

import dataclasses
from collections.abc import Callable

from opendpu.ir import Graph, Node
from opendpu_arch.target import Target

Check = Callable[[Node, Graph, Target], str | None]


@dataclasses.dataclass(frozen=True)
class Constraint:
    """One thing the DPU cannot do."""

    name: str
    text: str
    """What is required, for the documentation."""
    kinds: tuple[str, ...]
    lift: str
    """What would lift it: the subject of "... would lift it"."""
    code: str | None
    """The guide's error code where one fits."""
    check: Check
    scales: bool = False
    """Whether it is about the fix points that calibration chooses, not about the network."""

    def broken(self, node: Node, graph: Graph, target: Target) -> str | None:
        """Return why the node must run on the CPU, what would lift it, and the code, or nothing."""
        found = self.check(node, graph, target)
        if found is None:
            return None
        code = f" ({self.code})" if self.code else ""
        return f"{found}; {self.lift} would lift it{code}"


CONSTRAINTS: list[Constraint] = []
"""Every constraint, in the order they are checked."""


def constraint(
    text: str, *kinds: str, lift: str, code: str | None = None, scales: bool = False
) -> Callable[[Check], Check]:
    """Register a predicate under the name of its function."""

    def register(check: Check) -> Check:
        CONSTRAINTS.append(Constraint(check.__name__, text, kinds, lift, code, check, scales))
        return check

    return register


def pair(node: Node, key: str) -> list[tuple[str, int]]:
    """Return width and height of a window attribute with their names."""
    values = node.attrs.get(key) or [1, 1]
    return [(f"{key}_width", int(values[0])), (f"{key}_height", int(values[1]))]


def extent(node: Node) -> tuple[int, int]:
    """Return rows and columns that a kernel covers, dilation counted."""
    (_, gap_w), (_, gap_h) = pair(node, "dilation")
    (_, width), (_, height) = pair(node, "kernel")
    return (height - 1) * gap_h + 1, (width - 1) * gap_w + 1


def inputs_of(node: Node, graph: Graph, arg: str = "input") -> list[Node]:
    """Return the nodes of an argument."""
    return [graph[n] for n in node.inputs.get(arg, ())]
