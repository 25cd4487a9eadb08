# SPDX-License-Identifier: Apache-2.0
"""Layers whose output channels have shifts of their own: the extension ``channel``."""

import itertools

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check
from oracle import evaluate_quantized

from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.integer import IntegerNetwork
from opendpu.ir import QuantizedGraph
from opendpu.runtime.program import Program, dpu_subgraphs
from opendpu_arch.isa import Alu, Conv, Instruction, Load, decode
from opendpu_arch.numerics import packed_shifts, requantize, requantize_by_channel
from opendpu_arch.target import Target

TARGET = Target.from_name("B512+channel")
SOME = [8, 10, 7, 8, 9, 12, 8, 8, 6, 8]
"""Fix points of ten channels."""


def instructions(compiled: Compiled) -> list[Instruction]:
    (subgraph,) = dpu_subgraphs(compiled.graph)
    return decode(Program.from_subgraph(subgraph).code)


def shift_loads(compiled: Compiled) -> list[Load]:
    return [
        i for i in instructions(compiled) if isinstance(i, Load) and i.bank_id == TARGET.shift_bank
    ]


def layer(
    q: Quantized, source: str, name: str, kind: str, outputs: int, points: list[int] | int,
    bias: list[int] | int | None = 6, size: tuple[int, int] | None = None, kernel: int = 3,
    weights: int | None = None, act: str | None = None, **attrs,
) -> str:  # fmt: skip
    """Add a layer that keeps rows and columns, unless ``size`` says others, and its ``fix``."""
    _, height, width, inputs = q.graph[source].shape
    deep = "depthwise" in kind
    shape = (1 if deep else outputs, kernel, kernel, inputs if weights is None else weights)
    given = {
        "input": [source], "weights": [q.const(f"{name}_w", *shape, point=points,
                                               axis=-1 if deep else 0)],
    }  # fmt: skip
    if bias is not None:
        given["bias"] = [q.const(f"{name}_b", outputs, point=bias)]
    window = {
        "kernel": [kernel] * 2, "stride": [1, 1], "pad": [kernel // 2] * 4, "pad_mode": "FLOOR",
        **attrs,
    }  # fmt: skip
    q.graph.add(name, kind, (1, *(size or (height, width)), outputs), given, window)
    return q.finish(name, 4, act)


def drawn(kind: str, act: str | None = None, **changes) -> QuantizedGraph:
    q = Quantized()
    return q.done(layer(q, q.data(7, 9, 10), "y", kind, 10, SOME, act=act, **changes))


@pytest.mark.parametrize(
    ("kind", "act"),
    [
        *itertools.product(["conv2d", "depthwise-conv2d"], [None, "relu", "relu6"]),
        ("conv2d", "leaky-relu"),
    ],
)
def test_each_channel_is_cut_by_its_own_shift(kind: str, act: str | None) -> None:
    graph = drawn(kind, act)
    for node in graph:
        if node.kind == "leaky-relu":
            node.attrs["alpha"] = 26 / 256
    compiled = compile_and_check(graph, TARGET.name)
    assert not compiled.report.on_cpu
    made = [i for i in instructions(compiled) if isinstance(i, Conv | Alu)]
    assert {i.channel_shift for i in made} == {1}
    assert len(shift_loads(compiled)) == 1


def test_the_instruction_has_the_smallest_shifts() -> None:
    bias = [10, 8, 9, 7, 6, 10, 9, 8, 7, 6]
    compiled = compile_and_check(drawn("conv2d", bias=bias), TARGET.name)
    program = instructions(compiled)
    (init,) = {(i.shift_cut, i.shift_bias) for i in program if i.mnemonic() == "CONVINIT"}
    product = np.array(SOME) + 5
    assert init == (min(product) - 4, min(product - bias) + 1)
    (load,) = shift_loads(compiled)
    (subgraph,) = dpu_subgraphs(compiled.graph)
    blob = subgraph.get_attr("reg_id_to_parameter_value")["REG_0"]
    expected = packed_shifts(product - min(product), product - bias - min(product - bias))
    assert blob[load.ddr_addr : load.ddr_addr + load.channel] == expected.tobytes()


def test_packed_shifts_are_what_requantizing_adds() -> None:
    random = np.random.default_rng(3)
    total, bias = random.integers(-(1 << 20), 1 << 20, (50, 6)), random.integers(-128, 128, 6)
    cut, left = np.array([0, 15, 3, 8, 1, 5]), np.array([15, 0, 2, 7, 9, 1])
    packed = packed_shifts(cut, left)
    found = requantize_by_channel(total, bias, packed, shift_bias=2, shift_cut=5)
    for n in range(6):
        wanted = requantize(total[:, n], bias[n], shift_bias=2 + left[n], shift_cut=5 + cut[n])
        np.testing.assert_array_equal(found[:, n], wanted)


def test_equal_fix_points_need_nothing_of_the_extension() -> None:
    q = Quantized()
    graph = q.done(layer(q, q.data(7, 9, 10), "y", "conv2d", 10, 8))
    plain, extended = (
        compile_with_report(graph, Target.from_name(name)) for name in ("B512", "B512+channel")
    )
    assert instructions(plain) == instructions(extended)


@pytest.mark.parametrize("kind", ["conv2d", "depthwise-conv2d"])
def test_channels_cost_one_load_a_layer(kind: str) -> None:
    found = []
    for points in (8, SOME):
        q = Quantized()
        x = layer(q, q.data(20, 20, 10), "y", kind, 10, points)
        found.append(instructions(compile_with_report(
            q.done(layer(q, x, "z", kind, 10, points)), TARGET)))  # fmt: skip
    one, own = ([i.mnemonic() for i in program] for program in found)
    assert len(own) == len(one) + 2
    assert own.count("LOAD") == one.count("LOAD") + 2


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("transposed-conv2d", {"size": (14, 18), "stride": [2, 2], "kernel": 4, "pad": [1] * 4}),
        ("transposed-depthwise-conv2d", {"size": (14, 18), "stride": [2, 2], "kernel": 4,
                                         "pad": [1] * 4}),
        ("conv2d", {"group": 2, "weights": 5}),
        ("conv2d", {"dilation": [3, 3], "pad": [3] * 4}),
        ("depthwise-conv2d", {"dilation": [3, 3], "pad": [3] * 4}),
    ],
)  # fmt: skip
def test_layers_of_several_parts(kind: str, changes: dict) -> None:
    compiled = compile_and_check(drawn(kind, **changes), TARGET.name)
    assert not compiled.report.on_cpu
    made = [i for i in instructions(compiled) if isinstance(i, Conv | Alu)]
    assert {i.channel_shift for i in made} == {1}


def test_more_channels_than_an_instruction_makes() -> None:
    many = 300 * TARGET.channel_parallel
    points = [7 + n % 5 for n in range(many)]
    q = Quantized()
    made = layer(q, q.data(2, 2, 3), "y", "conv2d", many, points, [6] * many, kernel=1)
    assert not compile_and_check(q.done(made), TARGET.name, runs=1).report.on_cpu


def test_a_row_of_every_block_at_a_time() -> None:
    """A depth-to-space lets the convolution before write rows of blocks, channels by channels."""
    q = Quantized()
    y = layer(q, q.data(5, 5, 6), "y", "conv2d", 64, [7 + n % 4 for n in range(64)])
    q.op("z", "pixel-shuffle", (10, 10, 16), [y], scale=2, upscale=True)
    assert not compile_and_check(q.done(q.fix("z", 4)), TARGET.name).report.on_cpu


def test_a_residual_sum_behind_a_cascade_of_layers() -> None:
    q = Quantized()
    x = q.data(16, 16, 10)
    deep = layer(q, layer(q, x, "a", "conv2d", 10, SOME, act="relu"), "b", "depthwise-conv2d",
                 10, SOME[::-1], act="relu6")  # fmt: skip
    graph = q.done(q.add([x, layer(q, deep, "c", "conv2d", 10, SOME, kernel=1)], "sum"))
    compiled = compile_and_check(graph, TARGET.name)
    assert not compiled.report.on_cpu
    assert len(shift_loads(compiled)) == 3


def test_inner_products_and_constants_that_the_segment_holds() -> None:
    q = Quantized()
    flat = q.reshape(q.data(2, 2, 3), "flat", 12)
    given = {
        "input": [flat], "weights": [q.const("w", 10, 12, point=SOME)],
        "bias": [q.const("b", 10, point=SOME)],
    }  # fmt: skip
    q.graph.add("y", "inner-product", (1, 10), given, {"axis": 1})
    graph = q.done(q.fix("y", 2))
    compiled = compile_and_check(graph, TARGET.name)
    (subgraph,) = dpu_subgraphs(compiled.graph)
    tensors = [op.get_output_tensor() for op in subgraph.toposort()]
    found = [t.get_attr("fix_points") for t in tensors if t.has_attr("fix_points")]
    assert found == [SOME, SOME]


@pytest.mark.parametrize("kind", ["conv2d", "depthwise-conv2d", "transposed-depthwise-conv2d"])
def test_integers_of_many_samples(kind: str) -> None:
    graph = drawn(kind)
    samples = np.random.default_rng(5).integers(-128, 128, (4, 7, 9, 10), np.int8)
    found = IntegerNetwork(graph).run({"x": samples})["y_fix"]
    for sample, result in zip(samples, found, strict=True):
        wanted = evaluate_quantized(graph, {"x": sample[None]})["y_fix"]
        np.testing.assert_array_equal(result[None], wanted)


def test_a_plain_target_leaves_the_layer_to_the_cpu_and_says_why() -> None:
    compiled = compile_and_check(drawn("conv2d"), "B512")
    (reason,) = compiled.report.on_cpu.values()
    assert "it lacks the extension 'channel'; a target with that extension" in reason


def test_a_program_names_the_extension() -> None:
    (subgraph,) = dpu_subgraphs(compile_with_report(drawn("conv2d"), TARGET).graph)
    assert Target.from_fingerprint(subgraph.get_attr("dpu_fingerprint")) == TARGET


def test_phases_of_a_transposed_convolution_have_the_shifts_of_its_readers():
    q = Quantized()
    x = q.data(5, 6, 8)
    whole = layer(
        q, x, "t", "transposed-conv2d", 12, 8, size=(10, 12), kernel=2, pad=[0] * 4, stride=[2, 2]
    )
    graph = q.done(layer(q, whole, "y", "conv2d", 3, [8, 10, 7], kernel=1))
    compiled = compile_and_check(graph, TARGET.name, runs=1)
    assert len([i for i in instructions(compiled) if isinstance(i, Conv) and i.channel_shift]) > 1
