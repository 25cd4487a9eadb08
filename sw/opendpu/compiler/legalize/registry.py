# SPDX-License-Identifier: Apache-2.0
"""How each kind of float op becomes fixed-point ops."""

import dataclasses
from collections.abc import Callable

from opendpu.compiler.legalize.context import Context
from opendpu.ir import Node


@dataclasses.dataclass(frozen=True)
class Call:
    """An op whose inputs are quantized, the activation its engine applies, and its ``fix``."""

    context: Context
    node: Node
    nonlinear: str
    fix: Node
    sources: list[str]
    """The fixed-point nodes of argument ``input``."""
    activation: Node | None = None
    """The activation behind the op, if its engine applies one."""

    @property
    def point(self) -> int:
        """Fractional bits of the result."""
        return self.fix.fix_point

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an input."""
        return self.context.result[self.sources[index]].shape


Rule = Callable[[Call], str]
RULES: dict[str, Rule] = {}
"""Returns the node with the int8 result, or raises ``Refusal``."""


FinalRule = Callable[[Context, Node], str]
FINAL_RULES: dict[str, FinalRule] = {}
"""The same for ops whose results are no numbers with a fix point, so that no ``fix`` follows."""


def computes(kind: str) -> Callable[[FinalRule], FinalRule]:
    """Register a function as rule for a ``kind`` that no ``fix`` follows."""

    def register(rule: FinalRule) -> FinalRule:
        FINAL_RULES[kind] = rule
        return rule

    return register


def legalizes(*kinds: str) -> Callable[[Rule], Rule]:
    """Register a function as rule for ``kinds``."""

    def register(rule: Rule) -> Rule:
        for kind in kinds:
            RULES[kind] = rule
        return rule

    return register
