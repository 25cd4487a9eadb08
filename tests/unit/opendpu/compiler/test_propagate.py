# SPDX-License-Identifier: Apache-2.0
"""Ops that move data are quantized where their neighbours are, and nothing changes."""

import random

import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.fold import fold


def test_a_fix_behind_a_concatenation_is_one_for_all_inputs() -> None:
    """As AMD's quantizer leaves it behind the three branches of PointPillars."""
    q = Quantized()
    x = q.data(6, 6, 4)
    branches = []
    for name in ("a", "b"):
        q.conv(x, name, 5, kernel=1, act="relu")
        branches.append(f"{name}_relu")
        del q.graph.nodes[f"{name}_relu_fix"]
    q.op("cat", "concat", (6, 6, 10), branches, axis=3)
    y = q.conv(q.fix("cat", 4), "last", 7)
    graph = fold(q.done(y))
    assert [graph[n].kind for n in graph["cat"].inputs["input"]] == ["fix", "fix"]
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_a_fix_is_put_behind_what_moves_quantized_data() -> None:
    q = Quantized()
    x = q.conv(q.data(6, 6, 4), "a", 12, kernel=1)
    q.op("flat", "reshape", (36, 1, 12), [x], shape=[1, 36, 1, 12])
    y = q.conv("flat", "last", 7, kernel=1)
    graph = fold(q.done(y))
    assert graph["last"].inputs["input"] == ["flat_fix"]
    assert graph["flat_fix"].quantization == graph[x].quantization
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_outputs_and_floats_stay_as_they_are() -> None:
    q = Quantized()
    x = q.conv(q.data(6, 6, 4), "a", 12, kernel=1)
    q.op("flat", "reshape", (36, 1, 12), [x], shape=[1, 36, 1, 12])
    q.op("soft", "softmax", (36, 1, 12), ["flat"], axis=-1)
    q.op("cat", "concat", (36, 1, 24), ["flat", "soft"], axis=3)
    graph = fold(q.done("cat"))
    assert graph["soft"].inputs["input"] == ["flat"]
    assert graph["cat"].inputs["input"] == ["flat", "soft"]
    compile_and_check(q.done("cat"))


@pytest.mark.parametrize("seed", range(20))
def test_random_movements(seed: int) -> None:
    pick = random.Random(seed)
    q = Quantized(seed)
    rows, columns, channels = 6, 4, 8
    made = [(q.conv(q.data(rows, columns, channels), "a", channels, kernel=1), True)]
    for number in range(pick.randint(2, 7)):
        name = f"n{number}"
        source, fixed = pick.choice(made[-2:])
        kind = pick.choice(["relu", "reshape", "concat", "maxpool2d", "conv", "softmax"])
        size = (rows, columns, channels)
        if kind == "conv":
            if not fixed:
                source = q.fix(source, 5)
            made.append((q.conv(source, name, channels, kernel=1, point=pick.choice([3, 4])), True))
            continue
        if kind == "reshape":
            q.op(name, "reshape", size, [source], shape=[1, *size])
        elif kind == "concat":
            q.op(f"{name}_wide", "concat", (rows, columns, 2 * channels), [source] * 2, axis=3)
            wide = f"{name}_wide"
            if pick.random() < 0.5:
                wide = q.fix(wide, pick.choice([3, 4]))
            attrs = {"begin": [0, 0, 0, 4], "end": [1, rows, columns, 12], "strides": [1] * 4}
            q.op(name, "strided_slice", size, [wide], **attrs)
        elif kind == "maxpool2d":
            size_and = q.window(source, kind, channels, 3, 1, 1)
            q.op(name, kind, size_and[0], [source], **size_and[1])
        else:
            attrs = {"axis": -1} if kind == "softmax" else {}
            q.op(name, kind, size, [source], **attrs)
        fixed = pick.random() < 0.6
        made.append((q.fix(name, pick.choice([3, 5])) if fixed else name, fixed))
    compile_and_check(q.done(*dict.fromkeys(n for n, _ in made[-2:])), runs=1)
