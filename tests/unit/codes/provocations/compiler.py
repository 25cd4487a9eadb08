# SPDX-License-Identifier: Apache-2.0
"""Networks, options and files that the compiler refuses, and bugs that its checks find."""

import dataclasses
import pathlib
from typing import Any

from graph_draws import Quantized
from typer.testing import CliRunner

from opendpu import api
from opendpu.cli.vai_c import app as vai_c
from opendpu.compiler.demand import with_input_shapes, with_outputs
from opendpu.compiler.options import Options
from opendpu.compiler.partition import Partition, Partitioned
from opendpu.compiler.passes import chosen
from opendpu.compiler.pipeline import compile_with_report
from opendpu.compiler.verify import Verifier
from opendpu.inspect import inspect_graph
from opendpu.ir import Quantization, QuantizedGraph, to_xir
from opendpu_arch.errors import OutputError
from opendpu_arch.target import Target
from provocations.registry import gives

B512 = Target.from_name("B512")


def reason(graph: QuantizedGraph, target: Target = B512) -> str:
    """Return why an op of the DPU is on the CPU."""
    (why, *_) = compile_with_report(graph, target).report.on_cpu.values()
    return why


def conv(**options: Any) -> QuantizedGraph:
    q = Quantized()
    return q.done(q.conv(q.data(40, 40, 3), "conv", 4, **options))


@gives("XCOM_OPERATOR_UNUPPORT")
def softmax(folder: pathlib.Path) -> str:
    q = Quantized()
    x = q.conv(q.data(6, 6, 3), "conv", 4)
    q.op("soft", "softmax", (4, 4, 4), [x], axis=-1)
    return reason(q.done("soft"))


@gives("XCOM_OP_CONV_PARAM_ERROR")
def large_stride(folder: pathlib.Path) -> str:
    return reason(conv(stride=9))


@gives("XCOM_UNSUPPORT_KERNEL_SIZE")
def large_kernel(folder: pathlib.Path) -> str:
    return reason(conv(kernel=17))


@gives("XCOM_PAD_KERNEL_SIZE_UNMATCH")
def much_padding(folder: pathlib.Path) -> str:
    return reason(conv(pad=3))


@gives("XCOM_TILING_SIZE_ERROR")
def small_banks(folder: pathlib.Path) -> str:
    q = Quantized()
    graph = q.done(q.conv(q.data(8, 8, 64), "conv", 8, kernel=5))
    return reason(graph, dataclasses.replace(Target.from_name("B64"), bank_depth=64))


@gives("XCOM_ACGEN_POOL_KERNEL_OUTRANGE")
def large_window(folder: pathlib.Path) -> str:
    q = Quantized()
    x = q.data(1, 300, 4)
    attrs = {"kernel": [1, 1], "stride": [300, 1], "pad": [0] * 4, "pad_mode": "FLOOR"}
    q.op("pool", "avgpool2d", (1, 1, 4), [x], **attrs)
    return reason(q.done(q.conv(q.fix("pool", 5), "conv", 4, kernel=1)))


@gives("XCOM_ACGEN_PRELU_ERROR")
def far_apart(folder: pathlib.Path) -> str:
    q = Quantized()
    x = q.data(6, 6, 4, point=40)
    q.op("leaky", "leaky-relu", (6, 6, 4), [x], alpha=0.25)
    return reason(q.done(q.conv(q.fix("leaky", 3), "conv", 4)))


@gives("XCOM_UNSUPPORT_QUANTIZATION")
def coarse_gate(folder: pathlib.Path) -> str:
    q = Quantized()
    q.op("gate", "hard-sigmoid", (6, 6, 4), [q.data(6, 6, 4)])
    return reason(q.done(q.conv(q.fix("gate", 5), "conv", 4)))


@gives("XCOM_UNSUPPORT_NONLINEAR_TYPE")
def odd_slope(folder: pathlib.Path) -> str:
    q = Quantized()
    q.op("leaky", "leaky-relu", (6, 6, 4), [q.data(6, 6, 4)], alpha=0.3)
    return reason(q.done(q.conv(q.fix("leaky", 5), "conv", 4)))


@gives("XCOM_TENSOR_DIMENSION_UNMATCH")
def batch_of_two(folder: pathlib.Path) -> str:
    q = Quantized()
    q.graph.add("x", "data", (2, 6, 6, 4))
    q.graph.add("pool", "relu", (2, 6, 6, 4), {"input": [q.fix("x", 5)]})
    return reason(q.done(q.fix("pool", 5)))


@gives("XCOM_TENSOR_SHAPE_UNMATCH")
def an_odd_constant(folder: pathlib.Path) -> str:
    q = Quantized()
    x = q.conv(q.data(6, 6, 4), "conv", 4)
    q.op("sum", "add", (4, 4, 4), [x, q.const("c", 1, 4, 4, 1)])
    return reason(q.done(q.fix("sum", 4)))


@gives("XCOM_TOO_MANY_INPUTS")
def five_terms(folder: pathlib.Path) -> str:
    q = Quantized()
    x = q.data(6, 6, 4)
    return reason(q.done(q.add([q.conv(x, f"c{n}", 4) for n in range(5)], "sum")))


@gives("XCOM_UNEXPECTED_VALUE")
def backwards(folder: pathlib.Path) -> str:
    q = Quantized()
    x = q.conv(q.data(6, 6, 4), "conv", 4)
    attrs = {"begin": [0, 3, 0, 0], "end": [1, -9, 4, 4], "strides": [1, -1, 1, 1]}
    q.op("slice", "strided_slice", (4, 4, 4), [x], **attrs)
    return reason(q.done(q.conv(q.fix("slice", 4), "more", 4)))


@gives("XCOM_UNIMPLEMENT")
def many_parts(folder: pathlib.Path) -> str:
    q = Quantized()
    x = q.pool(q.data(40, 40, 4), "pool", "avgpool2d", 15, 1, 7, count_include_pad=False)
    return reason(q.done(q.conv(x, "conv", 4)))


def small() -> QuantizedGraph:
    q = Quantized()
    return q.done(q.conv(q.data(6, 6, 4), "conv", 4))


@gives("XCOM_INVALID_GRAPH")
def compiled_already(folder: pathlib.Path) -> None:
    path = folder / "compiled.xmodel"
    compile_with_report(small(), B512).graph.serialize(path)
    api.compile_xmodel(path, target=B512, output=folder / "again.xmodel")


@gives("XCOM_SIZE_UNMATCH")
def another_shape(folder: pathlib.Path) -> None:
    with_input_shapes(to_xir(small()), {"x": (1, 6, 6, 7)})


@gives("XCOM_ITEM_UNDEFINED")
def no_such_option(folder: pathlib.Path) -> None:
    Options.parse(["speed=11"])


@gives("XCOM_ITEM_UNDEFINED")
def no_such_input(folder: pathlib.Path) -> None:
    with_input_shapes(to_xir(small()), {"y": (1, 6, 6, 4)})


@gives("XCOM_USER_INVALID_OUTPUT_OPS")
def no_such_output(folder: pathlib.Path) -> None:
    with_outputs(small(), ["nobody"])


@gives("XCOM_STR_PARSE_FAILED")
def no_options(folder: pathlib.Path) -> None:
    Options.parse(["neither JSON nor a pair"])


@gives("XCOM_USER_INVALID_CMD_PARAM")
def no_flag(folder: pathlib.Path) -> None:
    Options.parse(["prefetch=perhaps"])


@gives("XCOM_PASS_MISS")
def no_pass(folder: pathlib.Path) -> None:
    chosen(["fold", "unfold"])


@gives("XCOM_FILE_NOT_EXISTS")
def no_file(folder: pathlib.Path) -> None:
    api.inspect(folder / "none.onnx", target=B512)


@gives("XCOM_TARGET_REQUIRED")
def no_target(folder: pathlib.Path) -> None:
    to_xir(small()).serialize(folder / "q.xmodel")
    api.inspect(folder / "q.xmodel")


@gives("XCOM_DIR_OPEN_FILE_FAILED")
def a_folder_that_is_a_file(folder: pathlib.Path) -> None:
    to_xir(small()).serialize(folder / "q.xmodel")
    (folder / "file").touch()
    command = ["-x", str(folder / "q.xmodel"), "-a", "B512", "-o", str(folder / "file" / "out")]
    result = CliRunner().invoke(vai_c, command)
    _, _, text = result.stderr.partition("error: [")
    code, _, message = text.partition("] ")
    raise OutputError(message, code=code)


@gives("XCOM_UNSUPPORT_ROUND_MODE")
def unknown_rounding(folder: pathlib.Path) -> None:
    Quantization.power_of_two(3, rounding="SOMEHOW")


def values() -> dict[str, Any]:
    """Return what the passes make."""
    found: dict[str, Any] = {}
    compile_with_report(small(), B512, passed=lambda name, value: found.setdefault(name, value))
    return found


@gives("XCOM_UNACCEPTABLE_SUBGRAPH")
def a_partition_of_nothing(folder: pathlib.Path) -> None:
    graph = values()["partition"].graph
    Verifier(B512)("partition", Partitioned(graph, Partition(parts=(), reasons={})))


@gives("XCOM_VALUE_UNMATCH")
def a_network_without_layers(folder: pathlib.Path) -> None:
    Verifier(B512)("lower", dataclasses.replace(values()["lower"], layers=()))


@gives("XCOM_DDR_ADDR_ASSIGNMENT_FAILED")
def places_beyond_ddr(folder: pathlib.Path) -> None:
    plan = values()["allocate"]
    memory = {n: dataclasses.replace(m, address=1 << 27) for n, m in plan.memory.items()}
    Verifier(B512)("allocate", dataclasses.replace(plan, memory=memory))


@gives("XCOM_ACGEN_ERROR")
def a_program_whose_tokens_never_come(folder: pathlib.Path) -> None:
    program = values()["schedule"]
    lost = (0,) * len(program.schedule.issued)
    schedule = dataclasses.replace(program.schedule, signals=lost)
    Verifier(B512)("schedule", dataclasses.replace(program, schedule=schedule))


@gives("XCOM_OPERATOR_UNUPPORT")
def inspected(folder: pathlib.Path) -> str:
    """An inspection has the code as a field of its own."""
    q = Quantized()
    q.op("soft", "softmax", (6, 6, 4), [q.conv(q.data(8, 8, 3), "conv", 4)], axis=-1)
    (node,) = inspect_graph(q.done("soft"), B512).on("CPU")
    return f"({node.code})"
