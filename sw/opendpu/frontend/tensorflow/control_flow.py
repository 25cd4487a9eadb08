# SPDX-License-Identifier: Apache-2.0
"""Loops and branches of TensorFlow 2, ``While`` and ``If``, that a frozen graph still has.

TensorFlow lowers them when it freezes a function; a GraphDef that is written otherwise keeps them,
with functions for what they do. A loop becomes the nodes of TensorFlow 1
(:mod:`opendpu.frontend.tensorflow.frames`). Of a branch whose condition depends on the data, both
sides are computed, and one is chosen: they have no effects but their results.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from opendpu.frontend.tensorflow.graphdef import CONTROL, Node
from opendpu.frontend.tensorflow.proto import Graph

LOOPS, BRANCHES = ("While", "StatelessWhile"), ("If", "StatelessIf")
JOINED = "IdentityN"
"""What has the results of a loop or a branch."""


def called(node: Node) -> tuple[str, ...]:
    """Return the functions of a loop, condition and body, or of a branch; none of others."""
    names: tuple[str, ...] = ()
    if node.op in LOOPS:
        names = ("cond", "body")
    elif node.op in BRANCHES:
        names = ("then_branch", "else_branch")
    if any(name not in node.attrs for name in names):
        return ()
    return tuple(node.attrs[name].func.name for name in names)


def lowered(node: Node, functions: Mapping[str, Any]) -> Iterator[Node]:
    """Yield the nodes of a loop or a branch, calls of its functions among them.

    The last one has its name and its results. ``functions`` are those of the graph, by name.
    """
    given = [item for item in node.inputs if not item.startswith(CONTROL)]
    if node.op in BRANCHES:
        yield from _branch(node, given)
        return
    function = functions[called(node)[1]]
    pairs = zip(function.signature.input_arg, function.signature.output_arg, strict=False)
    kept = {n for n, (one, two) in enumerate(pairs) if function.ret[two.name] == one.name}
    yield from _loop(node, given, kept)


def _loop(node: Node, given: list[str], kept: Collection[int]) -> Iterator[Node]:
    """Yield the nodes of a loop, of whose states the body leaves some as they are."""
    condition, body = called(node)
    name, count = node.name, [n for n in range(len(given)) if n not in kept]
    begin = {n: f"{name}/{'enter' if n in kept else 'merge'}{n}" for n in range(len(given))}
    inside = {n: f"{name}/{'enter' if n in kept else 'round'}{n}" for n in range(len(given))}
    for number, source in enumerate(given):
        holder = Graph().node.add()
        holder.attr["frame_name"].s = f"{name}/frame".encode()
        holder.attr["is_constant"].b = number in kept
        yield Node(f"{name}/enter{number}", "Enter", (source,), holder.attr)
        if number in kept:
            continue
        begun = (f"{name}/enter{number}", f"{name}/next{number}")
        yield Node(f"{name}/merge{number}", "Merge", begun, {})
    yield Node(f"{name}/goes_on", condition, tuple(begin.values()), {})
    yield Node(f"{name}/gate", "LoopCond", (f"{name}/goes_on",), {})
    for n in count:
        yield Node(f"{name}/switch{n}", "Switch", (f"{name}/merge{n}", f"{name}/gate"), {})
        yield Node(f"{name}/exit{n}", "Exit", (f"{name}/switch{n}",), {})
        yield Node(f"{name}/round{n}", "Identity", (f"{name}/switch{n}:1",), {})
    yield Node(f"{name}/body", body, tuple(inside.values()), {})
    for n in count:
        yield Node(f"{name}/next{n}", "NextIteration", (_result(f"{name}/body", n),), {})
    results = [given[n] if n in kept else f"{name}/exit{n}" for n in range(len(given))]
    yield Node(name, JOINED, tuple(results), {})


def _branch(node: Node, given: list[str]) -> Iterator[Node]:
    name, sides = node.name, ("then", "else")
    for side, function in zip(sides, called(node), strict=True):
        yield Node(f"{name}/{side}", function, tuple(given[1:]), {})
    count = range(len(node.attrs["Tout"].list.type) if "Tout" in node.attrs else 1)
    for n in count:
        both = (_result(f"{name}/{side}", n) for side in sides)
        yield Node(f"{name}/chosen{n}", "SelectV2", (given[0], *both), {})
    yield Node(name, JOINED, tuple(f"{name}/chosen{n}" for n in count), {})


def _result(name: str, number: int) -> str:
    return f"{name}:{number}" if number else name
