# SPDX-License-Identifier: Apache-2.0
"""Every DPU part of a compiled network against the integer reference, on random bytes.

What the CPU computes between the parts has no say: each part gets inputs of its own.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from oracle import evaluate_quantized

from opendpu.compiler.pipeline import Compiled
from opendpu.ir import Quantization, QuantizedGraph
from opendpu.runtime import Runner
from opendpu.runtime.program import Port, dpu_subgraphs
from opendpu.runtime.reference import ReferenceDevice

FIX = re.compile(r"_fix(_\d+)?$")
"""What the name of an op's ``fix`` ends with."""

PART = re.compile(r"(?P<fix>.+)_part(?P<number>\d+)")
"""Name of what one input of a concatenation is rounded to."""


def check_parts(quantized: QuantizedGraph, compiled: Compiled, seed: int) -> int:
    """Assert that every DPU part gives what the reference does, bit for bit; return their number.

    Parts run on the functional simulator, instructions in a random order among those that their
    tokens allow, and reads of bytes that nobody wrote are errors. The device ``ref`` computes them
    from their ops.
    """
    quantized = quantized.copy()
    parts = dpu_subgraphs(compiled.graph)
    for subgraph in parts:
        with Runner(subgraph, device="iss", check=True, schedule_seed=seed) as runner:
            given, found = _check_part(quantized, runner, np.random.default_rng(seed))
            target = runner.device.target
        with Runner(subgraph, device=ReferenceDevice(target)) as runner:
            computed = runner.run(given)
        for array, (name, same) in zip(found, computed.items(), strict=True):
            np.testing.assert_array_equal(same, array, err_msg=f"device ref: {name}")
    return len(parts)


def _check_part(
    quantized: QuantizedGraph, runner: Runner, rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Compare a part with the reference; return its inputs and outputs in the order of ports."""
    program = runner.program
    heads, given = _random_inputs(quantized, program.inputs, rng)
    found = [np.empty(port.tensor.dims, np.int8) for port in program.outputs]
    runner.wait(runner.execute_async(given, found))
    results = [_node_of(port, quantized) for port in program.outputs]
    part, feeds = _cut(quantized, heads, results)
    wanted = evaluate_quantized(part, feeds, keep=results)
    for port, name, array in zip(program.outputs, results, found, strict=True):
        expected = wanted[name].reshape(array.shape)
        if expected.dtype != np.int8:  # what only moves data has no fix of its own
            expected = expected * 2.0 ** port.tensor.get_attr("fix_point")
        assert np.unique(array).size > 1, f"{program.name}: {name} is the same everywhere"
        np.testing.assert_array_equal(array, expected, err_msg=f"{program.name}: {name}")
    return given, found


def _random_inputs(
    graph: QuantizedGraph, ports: Sequence[Port], rng: np.random.Generator
) -> tuple[dict[str, tuple[Port, np.ndarray]], list[np.ndarray]]:
    """Return inputs by op, each with the port that says its fix point, and those of all ports.

    What is handed over twice has the same real values both times, with fewer fractional bits the
    one time than the other.
    """
    places = [_node_of(port, graph) for port in ports]
    points = [int(port.tensor.get_attr("fix_point")) for port in ports]
    heads: dict[str, tuple[Port, np.ndarray]] = {}
    for place in dict.fromkeys(places):
        mine = [n for n, name in enumerate(places) if name == place]
        least = min(mine, key=points.__getitem__)
        spread = max(points[n] for n in mine) - points[least]
        values = rng.integers(-128 >> spread, (127 >> spread) + 1, ports[least].tensor.dims)
        heads[place] = ports[least], values.astype(np.int8)
    given = []
    for port, place, point in zip(ports, places, points, strict=True):
        first, values = heads[place]
        shifted = values << (point - int(first.tensor.get_attr("fix_point")))
        given.append(np.ascontiguousarray(shifted.reshape(port.tensor.dims), np.int8))
    return heads, given


def _node_of(port: Port, graph: QuantizedGraph) -> str:
    """Return the op of the quantized graph whose result a port is, or is when quantized.

    The compiler marks the same bytes in other shapes by what it adds to a tensor's name, and lets
    fix ops change places with ops that only move data.
    """
    for name in (port.name, *port.aliases):
        plain = name.removesuffix("_reshaped")
        for found in (name, plain, plain.partition("_before_")[0], FIX.sub("", plain)):
            if found in graph.nodes:
                return found
        joined = PART.fullmatch(plain)
        if joined and joined["fix"] in graph.nodes:
            return _rounded_part(graph, plain, joined["fix"], int(joined["number"]))
    raise AssertionError(f"no op has the values of {port.name} ({', '.join(port.aliases)})")


def _rounded_part(graph: QuantizedGraph, name: str, fix: str, number: int) -> str:
    """Round an input of a concatenation as its result is, with a ``fix`` of its own."""
    inputs = graph[graph[fix].inputs["input"][0]].inputs["input"]
    made = graph.add_fix(name, inputs[number], graph[fix].quantization)
    inputs[number] = made.name
    return made.name


def _cut(
    graph: QuantizedGraph, heads: Mapping[str, tuple[Port, np.ndarray]], results: Sequence[str]
) -> tuple[QuantizedGraph, dict[str, np.ndarray]]:
    """Return the ops between, and what feeds them by name of their inputs."""
    part = graph.copy()
    feeds = {}
    for name, (port, array) in heads.items():
        node = part[name]
        if node.kind != "data":
            made = part.add(part.unique(f"{name}_head"), "data", node.shape)
            if node.kind == "fix":
                node.inputs["input"] = [made.name]
            else:
                point = int(port.tensor.get_attr("fix_point"))
                fix = part.add_fix(name, made.name, Quantization.power_of_two(point))
                part.replace(name, fix.name)
            name = made.name
        feeds[name] = array.reshape(node.shape)
    part.outputs = list(results)
    part.sort()
    part.prune()
    for node in [n for n in part if n.kind == "data" and n.name not in feeds]:
        del part.nodes[node.name]  # pruning leaves inputs alone
    return part, feeds
