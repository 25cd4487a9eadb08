# SPDX-License-Identifier: Apache-2.0
"""Activations that only the CPU has, replaced by ones that the DPU has, before quantization.

As AMD's quantizers do it: sigmoid becomes hard-sigmoid, and swish (SiLU) hard-swish. They leave
Mish, GELU and tanh alone, and so does this.
"""

from collections.abc import Collection, Mapping

from opendpu.ir import Graph, Node
from opendpu.ops import operator_of
from opendpu.quantize.placement.scope import floating_ops
from opendpu.quantize.transforms.fold import fold
from opendpu.quantize.transforms.rewrite import rewrite

HARD = {"sigmoid": "hard-sigmoid", "swish": "hard-swish"}
"""Kinds that ``hard`` replaces, and by which."""


def _hard(graph: Graph, names: list[str]) -> None:
    for name in names:
        graph[name].kind = HARD[graph[name].kind]


def substitutable(graph: Graph) -> list[str]:
    """Return the activations that the DPU would compute if they were hard ones.

    Left out are those whose result the CPU or the user takes: at the end of a network, where
    nothing is gained, they stay exact.
    """
    names = [node.name for node in graph if node.kind in HARD]
    while names:
        trial = graph.copy()
        _hard(trial, names)
        fold(trial)  # a normalization that is not folded yet would count as one of the CPU
        rewrite(trial)
        floating = floating_ops(trial)
        users = trial.consumer_map()
        kept = [n for n in names if n not in floating and _is_read_by_dpu(users, n, floating)]
        if kept == names:
            break
        names = kept
    return names


def _is_read_by_dpu(users: Mapping[str, list[Node]], name: str, floating: Collection[str]) -> bool:
    """Return whether an op of the DPU that computes reads a result, perhaps moved."""
    waiting = [name]
    while waiting:
        for user in users[waiting.pop()]:
            if user.name in floating:
                continue
            if not operator_of(user).moves(user):
                return True
            waiting.append(user.name)
    return False


def substitute(graph: Graph, how: str, names: list[str]) -> None:
    """Replace activations, in place."""
    if how == "hard":
        _hard(graph, names)


def relu6_to_relu(graph: Graph) -> int:
    """Let every ReLU6 be a ReLU, in place; return how many there were."""
    found = [node for node in graph if node.kind == "relu6"]
    for node in found:
        node.kind = "relu"
    return len(found)
