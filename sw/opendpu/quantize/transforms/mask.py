# SPDX-License-Identifier: Apache-2.0
"""Masks of attention: constants so far below zero that what they are added to does not count.

Eight bits have no room for them beside scores. So the parts of a softmax add what is left of such
a constant before, and hide the scores where their differences and probabilities are made.
"""

import dataclasses
import math

import numpy as np
import numpy.typing as npt
from onnx import numpy_helper

from opendpu.ir import Array, Graph, Node
from opendpu.ops.foreign import only_operator, parsed

HIDING = 16.0
"""A constant further below zero hides scores; scores stay within such a distance of each other."""
MOVES = ("reshape", "flatten", "squeeze")
HIDES = "it hides scores, for which eight bits have no room"


@dataclasses.dataclass(frozen=True)
class Mask:
    """Scores with a constant added, in the shape of the result of ``softmax``."""

    scores: str
    """The scores before."""
    added: Array
    """What is added where nothing is hidden, else 0."""
    hidden: npt.NDArray[np.bool_]


def masked(graph: Graph, node: Node) -> list[str]:
    """Return the op that may hide scores of a softmax, and those that only move what it makes."""
    names = [node.inputs["input"][0]]
    while graph[names[-1]].kind in MOVES:
        names += graph[names[-1]].inputs["input"]
    return names[::-1]


def mask_of(graph: Graph, node: Node) -> Mask | None:
    """Return the mask in front of a softmax; none if nothing is hidden there."""
    name = masked(graph, node)[0]
    found = _sum(graph, graph[name]) or _choice(graph, graph[name])
    if found is None:
        return None
    scores, constant = found
    if graph[scores].shape != graph[name].shape or constant.min(initial=0) >= -HIDING:
        return None
    whole = np.broadcast_to(constant, graph[name].shape).reshape(node.shape)
    hidden = whole < -HIDING
    return Mask(scores, np.where(hidden, 0, whole).astype(np.float32), hidden)


def _sum(graph: Graph, node: Node) -> tuple[str, Array] | None:
    """Return the operands of a sum with a constant."""
    names = node.inputs.get("input", [])
    if node.kind != "add" or len(names) != 2:
        return None
    for one, other in (names, names[::-1]):
        value = graph[other].value
        if value is not None and graph[one].value is None:
            return one, value
    return None


def _choice(graph: Graph, node: Node) -> tuple[str, Array] | None:
    """Return scores and what stands for a Where between them and a constant far below zero."""
    operator = only_operator(node)
    if operator is None or operator.op_type != "Where":
        return None
    model = parsed(node.attrs["model"]).graph
    given = {item.name: name for item, name in zip(model.input, node.sources(), strict=False)}
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.initializer}
    known |= {
        item: value for item, name in given.items() if (value := graph[name].value) is not None
    }
    where, yes, no = operator.input
    if where not in known or (yes in known) == (no in known):
        return None
    scores, other = (no, yes) if yes in known else (yes, no)
    hides = known[where].astype(bool) == (yes in known)
    far = known[other]
    if scores not in given or not np.all(np.broadcast_to(far, hides.shape)[hides] < -HIDING):
        return None
    return given[scores], np.where(hides, far, 0.0)


def is_sound(mask: Mask) -> bool:
    """Return whether every row has a score that counts."""
    return bool(np.all(np.any(~mask.hidden, axis=-1))) and math.prod(mask.hidden.shape) > 0
