# SPDX-License-Identifier: Apache-2.0
"""Masks of attention that the model computes, of the lengths of texts as a rule.

What is added to scores is zero or so far below that they do not count. Eight bits have no room for
it: it stays in float, and so do the operators that make it.
"""

import dataclasses

import numpy as np
from onnx import numpy_helper

from opendpu.ir import Array, Graph, Node
from opendpu.ops.foreign import KIND, parsed
from opendpu.quantize.executor import evaluate
from opendpu.quantize.layers import is_layer
from opendpu.quantize.samples import Samples
from opendpu.quantize.transforms.mask import HIDING, masked

SAMPLES = 8
"""Samples that masks are judged by, at most."""
FLOAT = "it makes a mask that hides scores, for which eight bits have no room"
PRODUCT = "matmul"


@dataclasses.dataclass(frozen=True)
class ComputedMask:
    """Scores with a mask added to them."""

    total: str
    """The sum."""
    scores: str
    mask: str
    makers: tuple[str, ...]
    """The ops that make the mask, which is one of them."""


def computed_masks(graph: Graph, samples: Samples) -> dict[str, ComputedMask]:
    """Return the masks of softmaxes, by name of the softmax."""
    found = {}
    for node in graph:
        if node.kind == "softmax" and (mask := _candidate(graph, node)) is not None:
            found[node.name] = mask
    every = list(dict.fromkeys(mask.mask for mask in found.values()))
    values: dict[str, list[Array]] = {name: [] for name in every}
    for _, results in evaluate(graph, every, samples, batch=1, stop=SAMPLES):
        for name in every:
            values[name].append(np.asarray(results[name]).ravel())
    hiding = {name for name, parts in values.items() if _hides(graph, name, np.concatenate(parts))}
    return {name: mask for name, mask in found.items() if mask.mask in hiding}


def _candidate(graph: Graph, softmax: Node) -> ComputedMask | None:
    """Return a sum of what a layer has made and what none has, in front of a softmax."""
    name = masked(graph, softmax)[0]
    terms = graph[name].inputs.get("input", [])
    if graph[name].kind != "add" or len(terms) != 2:
        return None
    for scores, mask in (terms, terms[::-1]):
        makers = _makers(graph, mask)
        if makers and graph[scores].shape == graph[name].shape and _makers(graph, scores) is None:
            return ComputedMask(name, scores, mask, makers)
    return None


def _makers(graph: Graph, name: str) -> tuple[str, ...] | None:
    """Return the ops that make a tensor without any layer; none if there is one among them."""
    seen: dict[str, None] = {}
    waiting = [name]
    while waiting:
        node = graph[waiting.pop()]
        if node.value is not None or node.kind == "data" or node.name in seen:
            continue
        if is_layer(node) or node.kind == PRODUCT:
            return None
        seen[node.name] = None
        waiting += node.sources()
    return tuple(seen)


def _hides(graph: Graph, name: str, values: Array) -> bool:
    """Return whether a tensor is zero where it hides nothing, and made to hide something."""
    if np.any(values[values >= -HIDING]):
        return False
    return bool(np.any(values < -HIDING)) or any(
        np.any(number < -HIDING)
        for maker in _makers(graph, name) or ()
        for number in _constants(graph, graph[maker])
    )


def _constants(graph: Graph, node: Node) -> list[Array]:
    """Return the real numbers that an op has as constants."""
    found = [graph[source].value for source in node.sources()]
    if node.kind == KIND:
        found += [numpy_helper.to_array(t) for t in parsed(node.attrs["model"]).graph.initializer]
    return [value for value in found if value is not None and value.dtype.kind == "f"]


def without_guard(graph: Graph, softmax: Node) -> None:
    """Let what replaces NaN in a softmax by zero be the softmax: hidden rows are zero on the DPU.

    So PyTorch exports attention with a mask that might hide whole rows.
    """
    for check in graph.consumers(softmax.name):
        if _operator(check) != "IsNaN":
            continue
        for choice in graph.consumers(check.name):
            if _operator(choice) == "Where" and choice.sources()[-1] == softmax.name and (
                not any(np.any(number) for number in _constants(graph, choice))
            ):  # fmt: skip
                graph.replace(choice.name, softmax.name)


def _operator(node: Node) -> str:
    """Return the ONNX operator that a node is, alone."""
    if node.kind != KIND:
        return ""
    (*others, last) = parsed(node.attrs["model"]).graph.node
    return "" if others else str(last.op_type)
