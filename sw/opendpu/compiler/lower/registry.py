# SPDX-License-Identifier: Apache-2.0
"""How each kind of fixed-point op becomes layers and aliases."""

from collections.abc import Callable

from opendpu.compiler.lower.context import LoweringContext
from opendpu.ir import Node

Rule = Callable[[LoweringContext, Node], None]
RULES: dict[str, Rule] = {}
"""Adds what an op computes to the network."""


def lowers(*kinds: str) -> Callable[[Rule], Rule]:
    """Register a function as rule for ``kinds``."""

    def register(rule: Rule) -> Rule:
        for kind in kinds:
            RULES[kind] = rule
        return rule

    return register
