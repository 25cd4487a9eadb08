# SPDX-License-Identifier: Apache-2.0
"""Which parts a graph falls into: as few for the DPU as its paths allow."""

import random

import pytest

from opendpu.compiler.partition import Partition, Partitioned, partition
from opendpu.compiler.verify import Verifier
from opendpu.ir import FixedGraph, Graph, TensorType
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")


def graph(edges: dict[str, list[str]]) -> Graph:
    """Return additions by name with the names that each reads; ``x`` is the input."""
    graph = FixedGraph("test")
    made = TensorType.int8((1, 4, 4, 8), 4)
    graph.add("x", "data-fix", made)
    for name, sources in edges.items():
        attrs = {"type": "ADD", "nonlinear": "NONE"}
        graph.add(name, "eltwise-fix", made, {"input": sources}, attrs)
    read = {s for sources in edges.values() for s in sources}
    graph.outputs = [name for name in edges if name not in read]
    return graph


def dpu_parts(graph: Graph, cpu: set[str]) -> Partition:
    found = partition(graph, TARGET, dict.fromkeys(cpu, "asked for"))
    Verifier(TARGET)("partition", Partitioned(graph, found))
    return found


def test_a_branch_that_starts_on_the_cpu_does_not_cost_a_part() -> None:
    edges = {"a": ["x"], "b": ["a"], "c": ["x"], "d": ["b", "c"]}
    found = dpu_parts(graph(edges), {"a"})
    assert [(p.device, p.nodes) for p in found.parts] == [
        ("USER", ("x",)), ("CPU", ("a",)), ("DPU", ("b", "c", "d")),
    ]  # fmt: skip
    assert found.reasons == {"a": "asked for"}


@pytest.mark.parametrize("seed", range(60))
def test_fewest_parts_for_the_dpu(seed: int) -> None:
    pick = random.Random(seed)
    names = [f"n{i}" for i in range(pick.randint(3, 25))]
    edges = {
        name: sorted({pick.choice(["x", *names[:i]]) for _ in range(pick.randint(1, 3))})
        for i, name in enumerate(names)
    }
    cpu = {name for name in names if pick.random() < 0.35}
    found = dpu_parts(graph(edges), cpu)
    # However it is cut, a path that leaves the DPU and comes back needs another part.
    segments: dict[str, int] = {"x": 0}
    fresh: dict[str, bool] = {"x": True}
    for name in names:
        best = max(segments[s] + (fresh[s] and name not in cpu) for s in edges[name])
        segments[name], fresh[name] = best, name in cpu
    assert sum(part.device == "DPU" for part in found.parts) == max(segments.values())
