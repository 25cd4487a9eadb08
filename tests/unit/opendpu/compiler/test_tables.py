# SPDX-License-Identifier: Apache-2.0
"""Functions of one value on targets with the extension ``table``."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.legalize import legalize
from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.runtime.program import Program, dpu_subgraphs
from opendpu_arch.isa import Conv, Elew, Instruction, Load, decode
from opendpu_arch.target import Target

TARGET = "B512+table"


def instructions(compiled: Compiled) -> list[Instruction]:
    (subgraph,) = dpu_subgraphs(compiled.graph)
    return decode(Program.from_subgraph(subgraph).code)


def devices(compiled: Compiled) -> list[str]:
    return [part.device for part in compiled.report.subgraphs if part.device != "USER"]


def behind(q: Quantized, source: str, name: str, *kinds: str, point: int = 5) -> str:
    """Add a chain of functions and a ``fix``."""
    shape = q.graph[source].shape[1:]
    for number, kind in enumerate(kinds):
        source = q.op(f"{name}_{number}", kind, shape, [source])
    return q.fix(source, point)


def test_a_function_behind_a_convolution_costs_no_instruction() -> None:
    q = Quantized()
    out = behind(q, q.conv(q.data(6, 6, 3), "conv", 4), "f", "swish")
    graph = q.done(out)
    compiled = compile_and_check(graph, TARGET)
    assert devices(compiled) == ["DPU"]
    program = instructions(compiled)
    assert {i.table for i in program if isinstance(i, Conv)} == {1}
    assert not any(isinstance(i, Elew) for i in program)
    bank = Target.from_name(TARGET).table_bank
    assert sum(isinstance(i, Load) and i.bank_id == bank for i in program) == 1


def test_a_plain_target_leaves_it_to_the_cpu() -> None:
    q = Quantized()
    out = behind(q, q.conv(q.data(6, 6, 3), "conv", 4), "f", "swish")
    compiled = compile_and_check(q.done(out), "B512")
    assert devices(compiled) == ["DPU", "CPU"]


@pytest.mark.parametrize(
    "kinds",
    [("sigmoid",), ("tanh",), ("gelu",), ("mish",), ("elu",), ("exp",), ("neg", "relu"),
     ("hard-swish",), ("sigmoid", "neg", "exp")],
)  # fmt: skip
def test_functions_alone(kinds: tuple[str, ...]) -> None:
    q = Quantized()
    graph = q.done(behind(q, q.data(5, 4, 7), "f", *kinds))
    for node in graph:
        if node.kind == "elu":
            node.attrs["alpha"] = 1.0
    compiled = compile_and_check(graph, TARGET)
    assert devices(compiled) == ["DPU"]
    assert {i.table for i in instructions(compiled) if isinstance(i, Elew)} == {1}


def test_a_product_with_a_function_of_itself_is_one_function() -> None:
    q = Quantized()
    x = q.data(5, 4, 7)
    q.op("s", "sigmoid", (5, 4, 7), [x])
    q.op("p", "mul", (5, 4, 7), ["s", x])
    graph = q.done(q.fix("p", 5))
    made = legalize(graph, tables=True)
    assert [n.kind for n in made] == ["data-fix", "table-fix"]
    compile_and_check(graph, TARGET)


def test_entries_are_in_order_of_the_byte() -> None:
    q = Quantized()
    made = legalize(q.done(behind(q, q.data(2, 2, 2, point=3), "f", "neg", point=3)), tables=True)
    (table,) = (n.attrs["table"] for n in made if n.kind == "table-fix")
    assert table[:3] == [0, -1, -2]
    assert table[127] == -127
    assert table[128:131] == [127, 127, 126]


def test_where_a_function_has_no_value_the_entry_is_zero() -> None:
    q = Quantized()
    x = q.data(2, 2, 2, point=4)
    q.graph.add("one", "const", (1,), value=np.float32([1]))
    q.op("d", "div", (2, 2, 2), ["one", x])
    made = legalize(q.done(q.fix("d", 4)), tables=True)
    (table,) = (n.attrs["table"] for n in made if n.kind == "table-fix")
    assert table[0] == 127  # 1/0 saturates
    assert table[16] == 16


def test_what_others_read_keeps_its_own_values() -> None:
    q = Quantized()
    conv = q.conv(q.data(6, 6, 3), "conv", 4)
    gate = behind(q, conv, "f", "sigmoid", point=7)
    q.op("p", "mul", (4, 4, 4), [conv, gate])
    compiled = compile_and_check(q.done(q.fix("p", 4)), TARGET)
    assert {i.table for i in instructions(compiled) if isinstance(i, Conv)} == {0}


@pytest.mark.parametrize("kind", ["transposed-conv2d", "depthwise-conv2d", "conv2d"])
def test_layers_of_several_parts(kind: str) -> None:
    q = Quantized()
    if kind == "transposed-conv2d":
        x = q.data(5, 5, 6)
        given = {"input": [x], "weights": [q.const("w", 8, 4, 4, 6, point=8)]}
        attrs = {"kernel": [4, 4], "stride": [2, 2], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
        q.graph.add("conv", kind, (1, 10, 10, 8), given, attrs)
        out = q.fix("conv", 4)
    else:
        attrs = {"group": 4} if kind == "conv2d" else {}
        x = q.data(9, 7, 32)
        if kind == "conv2d":
            given = {"input": [x], "weights": [q.const("w", 64, 3, 3, 8, point=8)]}
            window = {"kernel": [3, 3], "stride": [1, 1], "pad": [1] * 4, "pad_mode": "FLOOR"}
            q.graph.add("conv", kind, (1, 9, 7, 64), given, {**window, **attrs})
            out = q.fix("conv", 3)
        else:
            out = q.conv(x, "conv", 32, kind=kind)
    compiled = compile_and_check(q.done(behind(q, out, "f", "tanh", point=7)), TARGET)
    assert devices(compiled) == ["DPU"]
    assert not any(isinstance(i, Elew) and i.table for i in instructions(compiled))


def test_more_functions_than_slots_and_a_concatenation_of_them() -> None:
    q = Quantized()
    x = q.data(4, 4, 8)
    points = range(11)
    made = [
        behind(q, q.conv(x, f"conv{n}", 8, kernel=1, point=n % 5), f"f{n}", "sigmoid", point=7)
        for n in points
    ]
    q.op("joined", "concat", (4, 4, 88), made, axis=3)
    out = q.conv(q.fix("joined", 7), "last", 8, kernel=1)
    compiled = compile_and_check(q.done(behind(q, out, "g", "swish")), TARGET)
    assert {i.table for i in instructions(compiled) if isinstance(i, Conv)} <= set(range(1, 9))
    assert devices(compiled) == ["DPU"]


def test_sums_behind_convolutions_take_tables_too() -> None:
    q = Quantized()
    x = q.data(8, 8, 16)
    one = behind(q, q.conv(x, "one", 16, pad=1), "f", "swish")
    total = q.add([x, one], "total")
    graph = q.done(q.conv(behind(q, total, "g", "gelu"), "two", 16, pad=1))
    compiled = compile_and_check(graph, TARGET)
    elews = [i for i in instructions(compiled) if isinstance(i, Elew)]
    assert elews
    assert all(i.table for i in elews)


def test_a_program_with_tables_names_the_extension() -> None:
    q = Quantized()
    graph = q.done(behind(q, q.data(2, 2, 2), "f", "tanh"))
    compiled = compile_with_report(graph, Target.from_name(TARGET))
    (subgraph,) = dpu_subgraphs(compiled.graph)
    assert Target.from_fingerprint(subgraph.get_attr("dpu_fingerprint")).name.endswith("+table")
