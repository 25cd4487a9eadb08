# SPDX-License-Identifier: Apache-2.0
"""What is computed of the inputs for a logarithm: spectra of sounds, which eight bits cannot hold.

A network that hears often begins with a Fourier transform (a convolution or product with
constants), squares, perhaps the bands of a mel scale (another one), and a logarithm. Powers reach
over many decades, and the logarithm takes the faint ones for as much as the loud: on a grid of int8
most of them are nothing. Whether that is so, calibration data says.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.ops import CONSTANTS, SOURCES, operator_of
from opendpu.ops.foreign import KIND, label_of
from opendpu.quantize.executor import evaluate
from opendpu.quantize.layers import is_layer
from opendpu.quantize.samples import Samples

ARITHMETIC = frozenset({"add", "sub", "mul", "div", "scale", "matmul", "reduction_mean"})
ONNX_ARITHMETIC = frozenset({"Abs", "Div", "Mul", "Neg", "Pow", "ReduceSum", "Sqrt", "Sub"})
"""What front ends compute with beside layers, by type; and where XIR has none, ONNX's operators."""
LIMITS = frozenset({"relu", "relu6", "max", "min"})
"""What keeps an argument from zero; in front of a layer it would be an activation."""
LEAST_SQNR = 20.0
"""Decibels that are left of a logarithm whose argument is int8, where that is good enough."""
SAMPLES = 4
"""Samples that arguments are judged by, at most."""
LEVELS = 127
WIDE = (
    "a logarithm is taken of what it computes, whose values reach over more than int8 holds, so "
    "that it stays in float; narrower ones would lift it"
)


def wide_arguments(graph: Graph, samples: Samples) -> dict[str, str]:
    """Return the ops to keep in float for logarithms, with the reason.

    Those between the network's inputs and logarithms, if nothing else reads what they compute, no
    layer among them is behind an activation, and the logarithm of what int8 can hold of its
    argument has less than ``LEAST_SQNR``.
    """
    ends = _front_ends(graph)
    if not ends:
        return {}
    values: dict[str, list[Array]] = {graph[name].inputs["input"][0]: [] for name in ends}
    for _, results in evaluate(graph, list(values), samples, batch=1, stop=SAMPLES):
        for name, array in results.items():
            values[name].append(np.asarray(array).ravel())
    wide = [name for name, arrays in values.items() if _loses(arrays)]
    return dict.fromkeys(
        (n for end, found in ends.items() if graph[end].inputs["input"][0] in wide for n in found),
        WIDE,
    )


def _loses(arrays: Iterable[Array]) -> bool:
    return sqnr_of_logarithm(np.concatenate(list(arrays))) < LEAST_SQNR


def _front_ends(graph: Graph) -> dict[str, set[str]]:
    """Return what is computed of inputs, and for logarithms alone, by logarithm."""
    found = {
        node.name: ops
        for node in graph
        if node.kind == KIND and label_of(node) == "Log" and (ops := _computed(graph, node))
    }
    users = graph.consumer_map()
    while True:
        read = _read_only_by(graph, set(found), users)
        left = {name: ops for name, ops in found.items() if ops <= read}
        if len(left) == len(found):
            return {name: ops for name, ops in left.items() if any(is_layer(graph[n]) for n in ops)}
        found = left


def _computed(graph: Graph, logarithm: Node) -> set[str]:
    """Return what a logarithm's argument is computed of; nothing if that is no front end."""
    seen: set[tuple[str, bool]] = set()
    waiting = [(logarithm.inputs["input"][0], False)]
    while waiting:
        name, before_layer = waiting.pop()
        node = graph[name]
        if node.kind in (*SOURCES, *CONSTANTS) or (name, before_layer) in seen:
            continue
        if not _belongs(node) or (before_layer and node.kind in LIMITS):
            return set()
        seen.add((name, before_layer))
        waiting += [(source, before_layer or is_layer(node)) for source in node.sources()]
    return {name for name, _ in seen}


def _belongs(node: Node) -> bool:
    """Return whether front ends have such an op."""
    if node.kind == KIND:
        return label_of(node) in ONNX_ARITHMETIC
    known = node.kind in ARITHMETIC | LIMITS
    return known or is_layer(node) or operator_of(node).moves(node)


def _read_only_by(graph: Graph, ends: set[str], users: Mapping[str, list[Node]]) -> set[str]:
    """Return the ops whose results lead to some ``ends`` and nowhere else."""
    found = set(ends)
    for node in reversed(graph.nodes.values()):
        read = users[node.name]
        if read and node.name not in graph.outputs and all(u.name in found for u in read):
            found.add(node.name)
    return found


def sqnr_of_logarithm(values: Array) -> float:
    """Return the decibels that the logarithm of int8 has, against that of the ``values``.

    The scale is the power of two that holds them all; what is rounded to zero counts as half a
    step. Values that have no logarithm do not count.
    """
    kept = np.asarray(values, np.float64)
    kept = kept[np.isfinite(kept) & (kept > 0)]
    if not kept.size:
        return np.inf
    step = 2.0 ** np.ceil(np.log2(kept.max() / LEVELS))
    exact = np.log(kept)
    noise = np.log(np.maximum(np.round(kept / step), 0.5) * step) - exact
    signal = float(np.square(exact - exact.mean()).sum())
    lost = float(np.square(noise).sum())
    if not lost:
        return np.inf
    return float(10 * np.log10(max(signal, np.finfo(np.float64).tiny) / lost))
