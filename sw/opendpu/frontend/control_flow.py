# SPDX-License-Identifier: Apache-2.0
"""Loops and branches of other frameworks as ONNX's ``Loop`` and ``If``; onnxruntime computes them.

ONNX's loop asks for a condition before the first round and behind every other one; TensorFlow and
TFLite have a function for it, so it is converted twice.
"""

from collections.abc import Callable, Sequence

import onnx
from onnx import TensorProto, helper

from opendpu.frontend.building import Builder
from opendpu.frontend.channels_last.axes import known_shape
from opendpu.frontend.refusal import FaultError, Refusal
from opendpu.ir import TensorType

MOST_GRAPHS = 512
"""Conversions of graphs inside a model's; loops within loops are converted several times."""


class UnconvertedError(Exception):
    """Something in a loop or branch cannot be converted; it has been noted."""


class InnerGraphs:
    """Counts the conversions of graphs inside a model's."""

    def __init__(self) -> None:
        self._count = 0

    def enter(self) -> None:
        """Begin another one; FaultError where a small file leads to ever more of them."""
        self._count += 1
        if self._count > MOST_GRAPHS:
            raise FaultError(f"it leads through more than {MOST_GRAPHS} graphs")


Round = Callable[[Builder, Sequence[str]], Sequence[str]]
"""Appends what one round computes of the states to a builder, and returns the new states."""
Condition = Callable[[Builder, Sequence[str]], str]
"""Appends what says whether there is another round."""


def while_loop(b: Builder, states: Sequence[str], condition: Condition, body: Round) -> list[str]:
    """Append a loop that goes on as long as a condition holds; return the last states.

    Parameters
    ----------
    states
        Values before the first round. Their shapes are known and stay what they are.
    condition, body
        What is computed of states; they may read other values of ``b``.

    Raises
    ------
    Refusal
        The shape of a state is open, or changes.
    """
    kinds = [TensorType(known_shape(b, state), b.dtype(state)) for state in states]
    names = [b.unique(f"{b.origin.name}/state{i}") for i in range(len(states))]
    inner = b.inner(dict(zip(names, kinds, strict=True)))
    after = body(inner, list(names))
    for before, found in zip(kinds, after, strict=True):
        shape = known_shape(inner, found)
        if shape != before.shape:
            raise Refusal(f"a state of shape {list(before.shape)} becomes one of {list(shape)}")
    goes_on = condition(inner, after)
    first = condition(b, list(states))
    made = b.nodes(
        "Loop", ["", first, *states], [f"{b.origin.name}/last{i}" for i in range(len(states))],
        body=_body(inner, goes_on, after),
    )  # fmt: skip
    return [
        b.node("Reshape", [value, b.integers(*kind.shape)], f"{b.origin.name}/result{i}")
        for i, (value, kind) in enumerate(zip(made, kinds, strict=True))
    ]


def branch(
    b: Builder, condition: str, then: Callable[[Builder], Sequence[str]],
    otherwise: Callable[[Builder], Sequence[str]],
) -> list[str]:  # fmt: skip
    """Append two ways to compute some results, which may read other values of ``b``; return them.

    Raises
    ------
    Refusal
        The ways do not make results of the same shapes.
    """
    known = b.value(condition)
    if known is not None:
        return list((then if bool(known.ravel()[0]) else otherwise)(b))
    ways = [b.inner({}) for _ in range(2)]
    made = [way(inner) for way, inner in zip((then, otherwise), ways, strict=True)]
    shapes = [
        [known_shape(inner, value) for value in results]
        for inner, results in zip(ways, made, strict=True)
    ]
    if shapes[0] != shapes[1]:
        raise Refusal(f"its branches make results of shapes {shapes[0]} and {shapes[1]}")
    graphs = [
        inner.finish({inner.unique(f"{inner.name}/made{i}"): v for i, v in enumerate(results)})
        for inner, results in zip(ways, made, strict=True)
    ]
    return b.nodes(
        "If", [condition], [f"{b.origin.name}/result{i}" for i in range(len(shapes[0]))],
        then_branch=graphs[0].graph, else_branch=graphs[1].graph,
    )  # fmt: skip


def _body(inner: Builder, goes_on: str, states: Sequence[str]) -> onnx.GraphProto:
    """Return the graph of a round: number and condition in front of the states."""
    outputs = {inner.unique(f"{inner.name}/goes_on"): goes_on}
    outputs |= {inner.unique(f"{inner.name}/next{i}"): value for i, value in enumerate(states)}
    graph = inner.finish(outputs).graph
    given = [
        helper.make_tensor_value_info(inner.unique(f"{inner.name}/{name}"), kind, [])
        for name, kind in (("number", TensorProto.INT64), ("condition", TensorProto.BOOL))
    ]
    others = list(graph.input)
    del graph.input[:]
    graph.input.extend([*given, *others])
    return graph
