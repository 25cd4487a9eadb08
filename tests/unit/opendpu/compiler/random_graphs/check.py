# SPDX-License-Identifier: Apache-2.0
"""What holds for a random graph: it compiles, and its results are those of the reference."""

import contextlib
import signal
from collections.abc import Callable, Iterator

import numpy as np
from oracle import evaluate_quantized

import xir
from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.ir import Graph, to_xir
from opendpu.runtime import GraphRunner
from opendpu.runtime.reference import ReferenceDevice
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target
from random_graphs.scales import by_integers

Reference = Callable[[Graph, dict[str, np.ndarray]], dict[str, np.ndarray]]

DEADLINE = 300
"""Seconds after which a graph counts as one that never comes to an end."""


class HangError(Exception):
    """Something took longer than any graph may."""


@contextlib.contextmanager
def deadline(seconds: int = DEADLINE) -> Iterator[None]:
    """Raise ``HangError`` where the body is after so many seconds; in the main thread only."""

    def ring(*_: object) -> None:
        raise HangError(f"no end after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def inputs_of(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Return random int8 values for every input of a quantized graph, by op name."""
    random_bytes = np.random.default_rng(seed)
    return {
        node.name: random_bytes.integers(-128, 128, node.shape, np.int8)
        for node in graph
        if node.kind == "data"
    }


def check(
    graph: Graph, target: Target, seed: int, device: str = "iss",
    reference: Reference | None = None, **options,
) -> Compiled:  # fmt: skip
    """Compile a graph; assert that its results on a device are those of the integer reference.

    On the functional simulator, instructions run in a random order among those that their tokens
    allow, and reads of bytes that nobody wrote are errors. The device ``ref`` has to compute the
    same from the ops. Graphs of any scale are no XIR before they are compiled, and have a reference
    of their own.
    """
    scaled = Extension.SCALED in target.extensions
    reference = reference or (by_integers if scaled else evaluate_quantized)
    if device == "iss":
        options = {"check": True, "schedule_seed": seed, **options}
    with deadline():
        inputs = inputs_of(graph, seed)
        wanted = reference(graph, inputs)
        compiled = compile_with_report(graph if scaled else to_xir(graph), target)
        again = xir.Graph.from_bytes(compiled.graph.to_bytes())
        with GraphRunner(again, device=device, target=target, **options) as runner:
            # An input that only ops of the CPU read stays float: the same numbers, not scaled.
            given = {
                t.name: inputs[head_of(graph, t.name)].astype(t.data_type.numpy())
                for t in runner.get_input_tensors()
            }
            found = runner.run(given)
        with GraphRunner(again, device=ReferenceDevice(target), target=target) as runner:
            computed = runner.run(given)
    assert set(found) == set(wanted)
    for name, values in found.items():
        np.testing.assert_array_equal(computed[name], values, err_msg=f"device ref: {name}")
    for name, values in wanted.items():
        if values.dtype == np.int8:
            np.testing.assert_array_equal(found[name], values, err_msg=name)
        else:
            np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6, err_msg=name)
    return compiled


def head_of(graph: Graph, tensor: str) -> str:
    """Return the input op behind an input tensor: its own name, or that of its ``fix``."""
    node = graph[tensor]
    while node.kind != "data":
        node = graph[node.inputs["input"][0]]
    return node.name
