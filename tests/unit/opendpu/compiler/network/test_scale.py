# SPDX-License-Identifier: Apache-2.0
"""Products with a pixel whose factors are weights of the misc engine: where, and the results."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check
from random_graphs import draw
from random_graphs.check import check

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.layers import BroadcastLayer, ScaleLayer
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.network import Network
from opendpu.compiler.network import scale as scale_pass
from opendpu.compiler.network.scale import scale
from opendpu.ir import QuantizedGraph
from opendpu.runtime.program import Program, dpu_subgraphs
from opendpu_arch.isa import Alu, AluInit, Elew, decode
from opendpu_arch.target import Target

TARGET = Target.from_name("B4096")


def gated(
    size: tuple[int, int], channels: int, *, point: int = 4, act: str | None = None
) -> QuantizedGraph:
    """Squeeze and excitation: a convolution's result times a gate of its channels."""
    q = Quantized()
    a = q.conv(q.data(*size, 8), "a", channels, 1)
    gate = q.conv(q.data(1, 1, 8, name="s"), "up", channels, 1, point=5)
    q.op("gate", "hard-sigmoid", (1, 1, channels), [gate])
    q.op("scaled", "mul", (*size, channels), [a, q.fix("gate", 7)])
    return q.done(q.conv(q.finish("scaled", point, act), "y", 8, 1))


def kinds(graph: QuantizedGraph, target: Target = TARGET) -> list[type]:
    """Return the kinds of layers that multiply, behind the pass."""
    fixed = legalize(graph)
    names = [n.name for n in fixed if "input" in n.inputs]
    before = lower(fixed, names, set(fixed.outputs), target, cycles_alone)
    made: Network = scale(before, target)
    return [type(x) for x in made.layers if x.op == "scaled"]


def test_a_large_map_is_scaled_by_the_misc_engine_s_weights() -> None:
    assert kinds(gated((64, 64), 64)) == [ScaleLayer]


def test_a_small_map_does_not_wait_for_the_gate_in_ddr() -> None:
    assert kinds(gated((7, 7), 64)) == [BroadcastLayer]


def test_a_product_that_is_shifted_to_the_left_stays() -> None:
    assert kinds(gated((64, 64), 64, point=14)) == [BroadcastLayer]


def test_one_instruction_of_one_tap_and_no_elew() -> None:
    compiled = compile_and_check(gated((64, 64), 64), "B4096", runs=1)
    (subgraph,) = dpu_subgraphs(compiled.graph)
    program = decode(Program.from_subgraph(subgraph).code)
    assert not any(isinstance(i, Elew) for i in program)
    assert any(isinstance(i, Alu) for i in program)
    assert any(isinstance(i, AluInit) and i.jump_read_weights for i in program)


@pytest.mark.parametrize("target", ["B64", "B512", "B1152", "B4096", "B4096+table"])
@pytest.mark.parametrize(
    ("size", "channels", "point", "act"),
    [
        ((32, 32), 64, 4, None), ((13, 40), 20, 4, "relu"), ((9, 70), 130, 7, None),
        ((64, 5), 16, 12, None),
    ],
)  # fmt: skip
def test_results(
    size: tuple[int, int], channels: int, point: int, act: str | None, target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(scale_pass, "pays", lambda *_: True)
    compile_and_check(gated(size, channels, point=point, act=act), target, runs=1)


@pytest.mark.parametrize("part", range(2))
def test_random_graphs(
    part: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale_pass, "pays", lambda *_: True)
    for number in range(10):
        seed = int(rng.integers(1 << 30))
        grower = draw(seed, tables=number % 2 == 0)
        check(grower.graph, grower.target, seed)
