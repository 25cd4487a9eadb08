# SPDX-License-Identifier: Apache-2.0
"""Rules of quantized and fixed-point graphs, and of their partition."""

from collections.abc import Iterator

import numpy as np

from opendpu.compiler.fixed import COMPUTE, CONSTANT, READS_FIXED, USER, is_fixed
from opendpu.compiler.partition import Partitioned
from opendpu.compiler.verify.rules import Finding
from opendpu.ir import Graph, Node
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target

FIX_POINTS = range(-128, 128)
"""Positions of the binary point that files can say."""


def quantized_rules(graph: Graph, target: Target) -> Iterator[Finding]:
    """Check a graph of float ops and ``fix`` ops."""
    yield from _wiring(graph)
    for node in graph:
        if node.kind == "fix" and node.type.quantization is None:
            yield Finding(node.name, "quantization", f"its type is {node.type}")
        if node.kind == "const" and (node.value is None or _dims(node) != node.shape):
            yield Finding(node.name, "constant-value", f"its values do not have shape {node.shape}")


def fixed_rules(graph: Graph, target: Target) -> Iterator[Finding]:
    """Check a graph of fixed-point ops, with float ops between ``fix2float`` and ``float2fix``."""
    yield from _wiring(graph)
    for node in graph:
        any_scale = Extension.SCALED in target.extensions
        if is_fixed(node) and not any_scale and not _is_of_dpu(node):
            yield Finding(node.name, "fix-point", f"its quantization is {node.quantization}")
        if node.value is not None and is_fixed(node) and node.value.dtype != np.int8:
            if any_scale and node.value.dtype == np.int32:  # a bias
                continue
            yield Finding(node.name, "int8-constants", f"its values are {node.value.dtype}")
        yield from _sides(node, graph)


def partition_rules(value: Partitioned, target: Target) -> Iterator[Finding]:
    """Check that every op is in one part, and parts only need earlier ones."""
    graph, parts = value.graph, value.partition.parts
    place: dict[str, int] = {}
    for number, part in enumerate(parts):
        if not part.device:
            yield Finding(part.nodes[0], "device", "it is for no device")
        for name in part.nodes:
            if name in place:
                yield Finding(name, "one-part", f"it is in parts {place[name]} and {number}")
            if name not in graph.nodes:
                yield Finding(name, "known-op", f"part {number} has it, the graph has not")
                return
            place[name] = number
            if part.device == "DPU" and name in value.partition.reasons:
                why = value.partition.reasons[name]
                yield Finding(name, "no-reason-on-dpu", f"the DPU has it, although: {why}")
        kinds = {graph[n].kind for n in part.nodes}
        if part.device == "DPU" and not kinds & set(COMPUTE):
            yield Finding(part.nodes[0], "dpu-computes", f"part {number} computes nothing")
    for node in graph:
        if node.kind in CONSTANT:
            continue
        if node.name not in place:
            yield Finding(node.name, "every-op", "it is in no part")
            continue
        for source in node.sources():
            if place.get(source, -1) > place[node.name]:
                yield Finding(
                    node.name, "order",
                    f"part {place[node.name]} needs {source!r} of part {place[source]}",
                )  # fmt: skip


def _wiring(graph: Graph) -> Iterator[Finding]:
    """Check that inputs come before their users, and that the outputs are there."""
    seen: set[str] = set()
    for key, node in graph.nodes.items():
        if key != node.name:
            yield Finding(node.name, "own-name", f"the graph calls it {key!r}")
        for source in node.sources():
            if source not in seen:
                yield Finding(node.name, "inputs-first", f"it reads {source!r}, which is not yet")
        seen.add(key)
        if any(size < 1 for size in node.shape):
            yield Finding(node.name, "shape", f"its shape is {node.shape}")
    for name in graph.outputs:
        if name not in seen:
            yield Finding(name, "outputs-exist", "it is an output, but no op")


def _sides(node: Node, graph: Graph) -> Iterator[Finding]:
    """Check that int8 and float tensors meet only in fix2float and float2fix."""
    if node.kind in (*USER, *CONSTANT):
        return
    wants_fixed = node.kind in READS_FIXED or (is_fixed(node) and node.kind != "float2fix")
    for source in node.sources():
        if is_fixed(graph[source]) != wants_fixed:
            kind = "int8" if is_fixed(graph[source]) else "float"
            yield Finding(node.name, "int8-or-float", f"{node.kind} reads {source!r}, a {kind} one")


def _is_of_dpu(node: Node) -> bool:
    found = node.quantization
    if node.value is not None and found.are_powers_of_two:
        return all(point in FIX_POINTS for point in found.fix_points)
    return found.is_power_of_two and found.fix_point in FIX_POINTS


def _dims(node: Node) -> tuple[int, ...]:
    return tuple(node.value.shape) if node.value is not None else ()
