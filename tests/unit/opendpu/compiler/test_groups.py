# SPDX-License-Identifier: Apache-2.0
"""Convolutions with groups, by slices of channels, by zeros, or both."""

import dataclasses

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.layers import Feature
from opendpu.compiler.lower.grouped import block, pack
from opendpu_arch.target import Target

TARGETS = ("B64", "B512", "B4096")


def grouped(
    q: Quantized, source: str, name: str, channels: int, group: int, kernel: int = 3,
    point: int = 4, act: str | None = None, **attrs,
) -> str:  # fmt: skip
    inputs = q.graph[source].shape[-1]
    shape, values = q.window(source, "conv2d", channels, kernel, 1, kernel // 2, **attrs)
    given = {
        "input": [source],
        "weights": [q.const(f"{name}_w", channels, kernel, kernel, inputs // group, point=8)],
        "bias": [q.const(f"{name}_b", channels, point=6)],
    }
    q.graph.add(name, "conv2d", (1, *shape), given, {**values, "group": group})
    return q.finish(name, point, act)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("inputs", "outputs", "group"), [(12, 8, 2), (64, 96, 4), (30, 15, 15)])
def test_groups(target: str, inputs: int, outputs: int, group: int) -> None:
    q = Quantized()
    x = q.conv(q.data(9, 8, 3), "conv", inputs, kernel=1, point=4)
    y = grouped(q, x, "group", outputs, group, act="relu")
    y = q.conv(y, "y", 5, kernel=1)
    assert not compile_and_check(q.done(y), target).report.on_cpu


def test_few_layers_where_groups_are_small_and_many_where_they_are_large() -> None:
    target = Target.from_name("B4096")

    def best(inputs: int, outputs: int, group: int, size: int = 28) -> int:
        source, output = (
            Feature(name=n, height=size, width=size, channels=c)
            for n, c in (("x", inputs), ("y", outputs))
        )
        weights = np.zeros((outputs, 3, 3, inputs // group), np.int8)
        return pack(source, output, weights, group, target)

    assert best(32, 32, 8) == 8
    assert best(1024, 1024, 2) == 1
    shallow = dataclasses.replace(target, bank_depth=512)
    source = Feature(name="x", height=7, width=7, channels=1024)
    assert pack(source, source, np.zeros((1024, 3, 3, 8), np.int8), 128, shallow) <= 56 * 16 // 8


def test_weights_of_several_groups() -> None:
    weights = np.arange(1, 13, dtype=np.int8).reshape(6, 1, 1, 2)
    made = block(weights, 3, 1, 2)
    assert made[:, 0, 0].tolist() == [[5, 6, 0, 0], [7, 8, 0, 0], [0, 0, 9, 10], [0, 0, 11, 12]]


def test_slices_of_an_input_into_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """One group a layer, whatever the cost."""
    monkeypatch.setattr("opendpu.compiler.lower.conv.pack", lambda *_: 1)
    q = Quantized()
    y = grouped(q, q.data(6, 7, 20), "group", 10, 5, dilation=[2, 2])
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_slices_of_a_concatenation_into_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opendpu.compiler.lower.conv.pack", lambda *_: 2)
    q = Quantized()
    x = q.data(6, 7, 5)
    a, b = (q.conv(x, name, 10, kernel=1, point=4) for name in "ab")
    q.op("cat", "concat", (6, 7, 20), [a, b], axis=3)
    y = grouped(q, q.fix("cat", 4), "group", 8, 4)
    q.op("more", "concat", (6, 7, 18), [y, a], axis=3)
    y = q.conv(q.fix("more", 4), "y", 4)
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_random_groups(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(12):
        seed = int(rng.integers(1 << 30))
        pick = np.random.default_rng(seed)
        q = Quantized(seed)
        group = int(pick.integers(2, 9))
        sizes = [size for size in range(1, group + 1) if group % size == 0]
        size = int(pick.choice(sizes))
        monkeypatch.setattr("opendpu.compiler.lower.conv.pack", lambda *_, size=size: size)
        height, width, inputs, outputs = (int(n) for n in pick.integers(1, 12, 4))
        x = q.data(height, width, inputs * group)
        y = grouped(q, x, "group", outputs * group, group, kernel=int(pick.choice([1, 3])))
        target = str(pick.choice(TARGETS))
        try:
            compiled = compile_and_check(q.done(y), target, runs=1)
        except AssertionError as error:
            error.add_note(f"seed {seed}, {group} groups, {size} a layer, target {target}")
            raise
        assert not compiled.report.on_cpu, seed


@pytest.mark.parametrize(("target", "outputs"), [("B64", 1030), ("B64", 2049), ("B4096", 6625)])
def test_more_outputs_than_a_pixel_has_on_chip(target: str, outputs: int) -> None:
    """Characters of PP-OCRv4's recognition; several layers make a slice each."""
    q = Quantized()
    compiled = compile_and_check(
        q.done(q.conv(q.data(1, 3, 24), "many", outputs, kernel=1)), target
    )
    assert not compiled.report.on_cpu
