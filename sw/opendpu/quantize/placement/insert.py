# SPDX-License-Identifier: Apache-2.0
"""From a float graph and its fix points to the quantized graph, as AMD's quantizers write it."""

import dataclasses
from collections.abc import Mapping

from opendpu.ir import Array, Graph, Quantization, QuantizedGraph, Rounding
from opendpu.ops.formats import fake_quantize

Rounded = dict[tuple[str, Quantization], Array]
"""Constants on their grid, by name and quantization."""


def refit(
    quantized: QuantizedGraph,
    graph: Graph,
    quantizations: Mapping[str, Quantization],
    known: Rounded,
) -> QuantizedGraph:
    """Return a quantized graph with other quantizations for some of the same tensors.

    Nodes that do not differ are those of ``quantized`` themselves, which stays as it is; ``graph``
    is the float graph that it was made of.
    """
    result = QuantizedGraph(quantized.name)
    result.nodes, result.outputs = dict(quantized.nodes), list(quantized.outputs)
    result.attrs = dict(quantized.attrs)
    for name, found in quantizations.items():
        fix, value = result.nodes[fix_name(name)], graph[name].value
        wanted = found if value is None else on_grid(found)
        if fix.type.quantization == wanted:
            continue
        made = fix.type.with_quantization(wanted)
        result.nodes[fix.name] = dataclasses.replace(fix, type=made)
        if value is not None:
            if (name, found) not in known:
                known[name, found] = fake_quantize(value, found)
            result.nodes[name] = dataclasses.replace(result.nodes[name], value=known[name, found])
    return result


def with_plain_constants(quantized: Graph) -> Graph:
    """Return a graph that computes the same, with constants in place of the ``fix`` behind them.

    They are on its grid already; sessions need not round them once more into another copy. They
    keep its quantization, which sums go by.
    """
    result = quantized.copy()
    for node in quantized:
        if node.kind != "fix":
            continue
        source = quantized[node.inputs["input"][0]]
        if source.value is not None:
            result.nodes[node.name] = dataclasses.replace(
                source, name=node.name, type=node.type, inputs={}, attrs=dict(source.attrs)
            )
    return result


def on_grid(found: Quantization) -> Quantization:
    """Return a quantization that leaves what is on its grid as it is, however it was rounded."""
    return dataclasses.replace(found, rounding=Rounding.DPU_ROUND)


def fix_name(name: str) -> str:
    """Return the name of the ``fix`` behind an op."""
    return f"{name}_fix"


def insert(
    graph: Graph, quantizations: Mapping[str, Quantization], known: Rounded | None = None
) -> QuantizedGraph:
    """Return a graph with a ``fix`` behind every node that has a quantization.

    Constants in front of one hold values that are already on its grid, so that its own rounding,
    to the nearest, leaves them as they are. ``known`` keeps those of earlier calls.
    """
    known = {} if known is None else known
    result = QuantizedGraph(graph.name)
    result.attrs = dict(graph.attrs)
    behind: dict[str, str] = {}
    for node in graph:
        inputs = {arg: [behind[n] for n in names] for arg, names in node.inputs.items()}
        value, found = node.value, quantizations.get(node.name)
        if value is not None and found is not None:
            if (node.name, found) not in known:
                known[node.name, found] = fake_quantize(value, found)
            value = known[node.name, found]
            found = on_grid(found)
        made = result.add(
            node.name, node.kind, node.type, inputs, node.attrs, value,
            origin=node.origin, tensor=node.tensor,
        )  # fmt: skip
        made.reason, made.claim = node.reason, node.claim
        behind[node.name] = node.name
        if found is not None:
            fix = result.add_fix(fix_name(node.name), node.name, found)
            behind[node.name] = fix.name
    result.outputs = [behind[name] for name in graph.outputs]
    return result
