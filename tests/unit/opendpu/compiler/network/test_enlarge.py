# SPDX-License-Identifier: Apache-2.0
"""Convolutions of pixels that were put into channels: which read the pixels, the same results."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check
from network_draws import replace_pass

from opendpu.compiler import backend
from opendpu.compiler.kinds import cycles_alone
from opendpu.compiler.layers import MoveLayer
from opendpu.compiler.legalize import legalize
from opendpu.compiler.lower import lower
from opendpu.compiler.network import Network
from opendpu.compiler.network import enlarge as module
from opendpu.compiler.network.enlarge import enlarge
from opendpu.compiler.pipeline import compile_with_report
from opendpu.ir import Quantization, QuantizedGraph
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target

Shape = tuple[int, int, int]


def focus(
    q: Quantized, source: str, rows: int, columns: int, places: list[tuple[int, int]] | None = None
) -> str:
    """Join every ``rows``-th row and ``columns``-th column from each place in a square on."""
    _, height, width, channels = q.graph[source].shape
    parts = []
    every = [(row, column) for column in range(columns) for row in range(rows)]
    for row, column in places or every:
        name = f"part_{len(parts)}"
        size = (-(-(height - row) // rows), -(-(width - column) // columns), channels)
        q.op(name, "strided_slice", size, [source], begin=[0, row, column, 0],
             end=[1, height, width, channels], strides=[1, rows, columns, 1])  # fmt: skip
        parts.append(q.fix(name, 5))
    size = (*q.graph[parts[0]].shape[1:3], channels * len(parts))
    q.op("whole", "concat", size, parts, axis=3)
    return q.fix("whole", 5)


def graph(
    shape: Shape = (12, 16, 3), square: tuple[int, int] = (2, 2), kernel: int = 3, stride: int = 1,
    inside: bool = False, readers: int = 1, places: list[tuple[int, int]] | None = None,
) -> QuantizedGraph:  # fmt: skip
    """Return a focus of an input, or of what a convolution makes, and what reads it."""
    q = Quantized()
    x = q.data(*shape)
    if inside:
        x = q.conv(x, "a", shape[2], pad=1, point=5)
    whole = focus(q, x, *square, places)
    ends = [
        q.conv(whole, f"r{n}", 24, kernel=kernel, stride=stride, pad=kernel // 2)
        for n in range(readers)
    ]
    return q.done(*ends)


def networks(made: QuantizedGraph, name: str = "B4096") -> tuple[Network, Network]:
    """Return the network of a graph before and after the pass."""
    fixed, target = legalize(made), Target.from_name(name)
    names = [n.name for n in fixed if "input" in n.inputs]
    before = lower(fixed, names, set(fixed.outputs), target, cycles_alone)
    return before, enlarge(before, target, cycles_alone)


def copies(network: Network) -> int:
    return sum(isinstance(layer, MoveLayer) for layer in network.layers)


def test_the_kernel_is_as_much_larger_as_the_squares_are() -> None:
    before, after = networks(graph())
    assert (copies(before), copies(after)) == (4, 0)
    (layer,) = after.layers
    window = layer.window
    assert (window.kernel_h, window.kernel_w, window.stride_h, window.stride_w) == (6, 6, 2, 2)
    assert (window.pad_top, window.pad_left) == (2, 2)
    assert layer.source == "x" and not after.aliases
    assert sorted(layer.weights.reshape(-1)) == sorted(before.layers[-1].weights.reshape(-1))


def test_every_weight_is_at_its_pixel() -> None:
    before, after = networks(graph())
    old, new = before.layers[-1].weights, after.layers[-1].weights
    for number, (row, column) in enumerate([(0, 0), (1, 0), (0, 1), (1, 1)]):
        np.testing.assert_array_equal(
            new[:, row::2, column::2], old[..., 3 * number : 3 * number + 3]
        )


SHAPES = {
    "focus": {},
    "stride": {"stride": 2},
    "a pixel": {"kernel": 1},
    "rows only": {"square": (2, 1)},
    "columns only": {"square": (1, 3), "shape": (9, 18, 2)},
    "four": {"square": (4, 4), "shape": (16, 24, 3)},
    "two readers": {"readers": 2},
    "inside": {"inside": True, "shape": (12, 16, 20)},
    "some of the pixels": {"shape": (24, 32, 3), "places": [(0, 0), (1, 1)]},
}


@pytest.mark.parametrize("target", ["B64", "B512", "B1152", "B4096"])
@pytest.mark.parametrize("shape", SHAPES)
def test_results_stay(shape: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "copying_cycles", lambda *_: 1 << 60)
    before, after = networks(graph(**SHAPES[shape]), target)
    assert copies(before) > copies(after)
    compile_and_check(graph(**SHAPES[shape]), target, runs=1)


@pytest.mark.parametrize(
    ("why", "given"),
    [
        ("a kernel is too large", {"square": (4, 4), "kernel": 5, "shape": (16, 24, 3)}),
        ("a pixel is there twice", {"places": [(0, 0), (0, 0)]}),
        ("a column is left over", {"shape": (12, 15, 3), "places": [(0, 0), (1, 0)]}),
    ],
)
def test_where_pixels_are_copied(why: str, given: dict) -> None:
    before, after = networks(graph(**given))
    assert before == after, why
    compile_and_check(graph(**given), "B4096", runs=1)


def test_what_others_read_is_copied() -> None:
    q = Quantized()
    whole = focus(q, q.data(12, 16, 3), 2, 2)
    ends = [q.conv(whole, "r", 24, pad=1), q.pool(whole, "p", "maxpool2d", 2, stride=2)]
    made = q.done(*ends)
    before, after = networks(made)
    assert before == after
    compile_and_check(made, "B4096", runs=1)


def test_an_output_is_copied() -> None:
    q = Quantized()
    whole = focus(q, q.data(12, 16, 3), 2, 2)
    made = q.done(q.conv(whole, "r", 24, pad=1), whole)
    before, after = networks(made)
    assert before == after
    compile_and_check(made, "B4096", runs=1)


def test_where_the_array_would_take_longer() -> None:
    """Four channels are one word of 12; ten columns of one channel are as many words as a column.

    As two layers read the input, LOAD cannot fold their kernels.
    """
    before, after = networks(graph((52, 52, 1), kernel=5, readers=2), "B1152")
    assert before == after


@pytest.mark.parametrize("name", ["B512", "B4096"])
def test_cycles_of_a_first_layer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, made = Target.from_name(name), graph((104, 104, 3))
    merged = sum(one.cycles for one in compile_with_report(made, target).report.subgraphs)
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("enlarge", lambda n, _: n))
    copied = sum(one.cycles for one in compile_with_report(made, target).report.subgraphs)
    assert merged < 0.5 * copied


def with_zero_points(rows: int, columns: int) -> QuantizedGraph:
    """Return a focus whose pixels have the zero point 17, and a convolution of all its scales."""
    made = QuantizedGraph("net")
    values, given = np.random.default_rng(5), Quantization((0.031,), (17,))
    made.add("x", "data", (1, 2 * rows, 2 * columns, 3))
    made.add_fix("x_fix", "x", given)
    made.add("f", "gstiling", (1, rows, columns, 12), {"input": ["x_fix"]},
             {"stride": 2, "reverse": False})  # fmt: skip
    made.add_fix("f_fix", "f", given)
    made.add_const("w", (values.integers(-127, 128, (20, 3, 3, 12)) * 0.01).astype(np.float32))
    made.add_fix("w_fix", "w", Quantization((0.01,), (0,)))
    made.add_const("b", (values.integers(-2000, 2000, 20) * 0.00031).astype(np.float32))
    inputs = {"input": ["f_fix"], "weights": ["w_fix"], "bias": ["b"]}
    attrs = {"kernel": [3, 3], "stride": [1, 1], "pad": [1] * 4, "pad_mode": "FLOOR"}
    made.add("y", "conv2d", (1, rows, columns, 20), inputs, attrs)
    made.add_fix("y_fix", "y", Quantization((0.11,), (-5,)))
    made.outputs = ["y_fix"]
    return made


def test_what_lies_beside_the_pixels_is_the_zero_point(monkeypatch: pytest.MonkeyPatch) -> None:
    target, made = Target.from_name("B4096+scaled"), with_zero_points(24, 28)
    results, cycles = [], []
    for number in range(2):
        compiled = compile_with_report(made, target)
        with GraphRunner(compiled.graph, device="iss", target=target, check=True) as runner:
            (port,) = runner.get_input_tensors()
            given = np.random.default_rng(3).integers(-128, 128, port.dims, np.int8)
            results.append(next(iter(runner.run({port.name: given}).values())))
        cycles.append(sum(one.cycles for one in compiled.report.subgraphs))
        assert not compiled.report.on_cpu
        if number == 0:
            monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("enlarge", lambda n, _: n))
    assert cycles[0] < cycles[1]
    assert np.unique(results[0]).size > 50
    np.testing.assert_array_equal(*results)
