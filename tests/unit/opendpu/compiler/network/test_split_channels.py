# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose channels are split: which become several, and the same results."""

from collections.abc import Sequence

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.network import Network, split_channels
from opendpu.ir import QuantizedGraph
from opendpu_arch.target import Target


def split(q: Quantized, source: str, *sizes: int) -> list[str]:
    """Cut the channels of a feature map into parts of these sizes."""
    _, height, width, _ = q.graph[source].shape
    parts, at = [], 0
    for size in sizes:
        name = f"{source}_{at}"
        q.op(name, "strided_slice", (height, width, size), [source], begin=[0, 0, 0, at],
             end=[1, height, width, at + size], strides=[1, 1, 1, 1])  # fmt: skip
        parts.append(q.fix(name, 4))
        at += size
    return parts


def join(q: Quantized, name: str, *parts: str) -> str:
    shape = q.graph[parts[0]].shape
    q.op(name, "concat", (*shape[1:3], sum(q.graph[p].shape[3] for p in parts)), [*parts], axis=3)
    return q.fix(name, 4)


def bottlenecks(
    size: tuple[int, int] = (16, 16), parts: Sequence[int] = (16, 16), blocks: int = 1,
    shortcut: bool = True, inputs: int = 16, joined: bool = True,
) -> QuantizedGraph:  # fmt: skip
    """Return a convolution of which the last part goes through blocks, and what joins them."""
    q = Quantized()
    x = q.conv(q.data(*size, inputs), "w", sum(parts), kernel=1)
    made = split(q, x, *parts)
    for number in range(blocks):
        y = q.conv(made[-1], f"a{number}", parts[-1], pad=1)
        y = q.conv(y, f"b{number}", parts[-1], pad=1)
        made.append(q.add([made[-1], y], f"s{number}") if shortcut else y)
    if not joined:
        return q.done(*(q.conv(one, f"r{n}", 8, kernel=1) for n, one in enumerate(made)))
    return q.done(q.conv(join(q, "c", *made), "r", 24, kernel=1))


def networks(made: QuantizedGraph, name: str = "B4096") -> tuple[Network, Network]:
    """Return the network of a graph before and after the pass, which takes any parts."""
    fixed, target = legalize(made), Target.from_name(name)
    names = [n.name for n in fixed if "input" in n.inputs]
    before = lower(fixed, names, set(fixed.outputs), target, cycles_alone)
    return before, split_channels.split_channels(before, target, fewer_parts)


def fewer_parts(network: Network, target: Target) -> int:
    """Stand for a planner that finds any network faster that has more layers."""
    return -len(network.layers)


def test_each_part_has_its_own_layer_and_place() -> None:
    before, after = networks(bottlenecks())
    old, first, second = before.layers[0], *after.layers[:2]
    assert len(after.layers) == len(before.layers) + 1
    np.testing.assert_array_equal(np.concatenate([first.weights, second.weights]), old.weights)
    np.testing.assert_array_equal(np.concatenate([first.bias, second.bias]), old.bias)
    assert old.output not in after.features
    places = [after.aliases[one.output] for one in (first, second)]
    assert [(p.holder, p.offset, p.pixel_bytes) for p in places] == [("c", 0, 48), ("c", 16, 48)]


def test_parts_that_nothing_joins_have_bytes_of_their_own() -> None:
    _, after = networks(bottlenecks(joined=False))
    assert not after.aliases


SHAPES = {
    "halves": {},
    "no short cut": {"shortcut": False},
    "two blocks": {"blocks": 2},
    "three parts": {"parts": (16, 48, 16)},
    "uneven": {"parts": (48, 20), "size": (9, 13)},
    "apart": {"joined": False},
    "large": {"size": (40, 60), "inputs": 40},
}


@pytest.mark.parametrize("target", ["B64", "B512", "B4096"])
@pytest.mark.parametrize("shape", SHAPES)
def test_results_stay(shape: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = split_channels.split_channels
    monkeypatch.setattr(
        "opendpu.compiler.backend.split_channels", lambda n, t, _: apart(n, t, fewer_parts)
    )
    before, after = networks(bottlenecks(**SHAPES[shape]), target)
    assert len(after.layers) > len(before.layers)
    compile_and_check(bottlenecks(**SHAPES[shape]), target, runs=1)


def test_parts_of_blocks_stay_together() -> None:
    """24 channels are a block and a half of 16 lanes: apart, two parts have a block more."""
    before, after = networks(bottlenecks(parts=(24, 24)))
    assert before == after


def test_what_others_read_as_a_whole_stays() -> None:
    q = Quantized()
    x = q.conv(q.data(8, 8, 16), "w", 32, kernel=1)
    first, second = split(q, x, 16, 16)
    ends = [q.conv(one, f"r{n}", 8) for n, one in enumerate((first, second, x))]
    before, after = networks(q.done(*ends))
    assert before == after


def test_a_plan_that_takes_longer_is_not_taken() -> None:
    before, _ = networks(bottlenecks())
    target = Target.from_name("B4096")
    assert split_channels.split_channels(before, target, lambda n, _: len(n.layers)) == before


@pytest.mark.parametrize("size", [40, 80])
def test_cycles_of_halves(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves that are read from their banks take fewer cycles than those that come from DDR."""
    made = bottlenecks((size, size))
    apart = compile_and_check(made, "B4096", runs=1).report.subgraphs
    monkeypatch.setattr("opendpu.compiler.backend.split_channels", lambda n, t, _: n)
    whole = compile_and_check(made, "B4096", runs=1).report.subgraphs
    assert sum(one.cycles for one in apart) < 0.95 * sum(one.cycles for one in whole)
