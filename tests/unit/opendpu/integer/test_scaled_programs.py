# SPDX-License-Identifier: Apache-2.0
"""Networks of any scale on targets with ``scaled``: devices give the integer reference's bytes."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from qdq_models import draw

import xir
from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.frontend import load_onnx
from opendpu.integer import IntegerNetwork
from opendpu.ir import Quantization, QuantizedGraph, Rounding
from opendpu.quantize import complete
from opendpu.runtime import GraphRunner
from opendpu.runtime.program import Program, dpu_subgraphs
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.isa import Alu, Conv, ConvInit, Elew, Load, decode
from opendpu_arch.scaled import records
from opendpu_arch.target import Target

TARGET = "B512+scaled"
ODD = Quantization((0.037,), (-11,), rounding=Rounding.STD_ROUND)
SAMPLES = 2
RECORDS = records(Target.from_name(TARGET).bank_depth)


def run(graph: xir.Graph, device: str, samples) -> np.ndarray:
    with GraphRunner(graph, device=device) as runner:
        (given,), (made,) = runner.get_input_tensors(), runner.get_output_tensors()
        found = []
        for sample in samples:
            result = {made.name: np.empty(made.dims, made.data_type.numpy())}
            job = runner.execute_async({given.name: sample[None]}, result)
            runner.wait(job)
            found.append(result[made.name])
    return np.concatenate(found)


def check(graph: QuantizedGraph, folder: Path, target: str = TARGET, seed: int = 0) -> Compiled:
    """Compile, write and read a graph, and compare devices with the integer reference."""
    compiled = compile_with_report(graph, Target.from_name(target))
    compiled.graph.serialize(folder / "made.xmodel")
    read = xir.Graph.deserialize(folder / "made.xmodel")
    (head,) = (node for node in graph if node.kind == "data")
    random = np.random.default_rng(seed)
    samples = random.integers(-128, 128, (SAMPLES, *head.shape[1:])).astype(np.int8)
    (expected,) = IntegerNetwork(graph, scaled=True).run({head.name: samples}).values()
    for device in ("ref", "iss"):
        found = run(read, device, samples)
        np.testing.assert_array_equal(found, expected, err_msg=device)
    return compiled


@pytest.mark.parametrize("seed", range(14))
def test_drawn_networks(seed, tmp_path):
    path, _ = draw(seed, tmp_path)
    check(complete(load_onnx(path, any_scale=True)), tmp_path, seed=seed)


class Made:
    """A graph in the making."""

    def __init__(self, *shape):
        self.graph = QuantizedGraph("made")
        self.graph.add("x", "data", (1, *shape))
        self.random = np.random.default_rng(1)
        self.fix("x", ODD)

    def fix(self, source, quantization) -> str:
        return self.graph.add_fix(f"{source}_fix", source, quantization).name

    def scale(self, low, high, zero=None):
        zero = int(self.random.integers(-128, 128)) if zero is None else zero
        scale = float(np.float32(self.random.uniform(low, high)))
        return Quantization((scale,), (zero,), rounding=Rounding.STD_ROUND)

    def conv(self, source, name, outputs, kernel=3, *, after=None, **attrs) -> str:
        *_, height, width, channels = self.graph[source].shape
        across, down = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        values = self.random.normal(0, 0.3, (outputs, down, across, channels))
        scales = tuple(np.abs(values).max(axis=(1, 2, 3)) / 127)
        w = self.graph.add_const(f"{name}_w", values.astype(np.float32)).name
        weights = self.fix(w, Quantization(scales, axis=0, rounding=Rounding.PY3_ROUND))
        given = {
            "kernel": [across, down], "stride": [1, 1], "pad": [across // 2] * 4,
            "pad_mode": "FLOOR",
        }  # fmt: skip
        self.graph.add(
            name, "conv2d", (1, height, width, outputs),
            {"input": [source], "weights": [weights]}, given | attrs,
        )  # fmt: skip
        last = name
        if after:
            last = self.graph.add(
                f"{name}_{after}", after, (1, height, width, outputs), {"input": [name]}
            ).name
        return self.fix(last, self.scale(0.05, 0.1))

    def done(self, *outputs) -> QuantizedGraph:
        self.graph.outputs = list(outputs)
        return self.graph


def instructions(compiled: Compiled):
    (subgraph,) = dpu_subgraphs(compiled.graph)
    return decode(Program.from_subgraph(subgraph).code)


def test_padding_reads_the_zero_point(tmp_path):
    made = Made(7, 6, 5)
    compiled = check(made.done(made.conv("x_fix", "c", 9)), tmp_path)
    program = instructions(compiled)
    assert {i.scaled for i in program if isinstance(i, Conv)} == {1}
    bank = Target.from_name(TARGET).scale_bank
    assert sum(isinstance(i, Load) and i.bank_id == bank for i in program) == 1


@pytest.mark.parametrize("after", ["relu", "relu6"])
def test_activations_are_bounds(after, tmp_path):
    made = Made(6, 6, 4)
    check(made.done(made.conv("x_fix", "c", 4, after=after)), tmp_path)


def test_a_sum_behind_a_convolution_stays_on_chip(tmp_path):
    made = Made(8, 8, 8)
    one = made.conv("x_fix", "c", 8)
    made.graph.add("s", "add", (1, 8, 8, 8), {"input": ["x_fix", one]})
    compiled = check(made.done(made.fix("s", made.scale(0.1, 0.2))), tmp_path)
    assert {i.scaled for i in instructions(compiled) if isinstance(i, Elew)} == {1}


def test_many_sums_share_the_memories_of_terms_and_records(tmp_path):
    made = Made(9, 9, 8)
    last = made.conv("x_fix", "c0", 8)
    for number in range(4):
        other = made.conv(last, f"d{number}", 8, 1)
        kind = "mul" if number % 2 else "add"
        made.graph.add(f"s{number}", kind, (1, 9, 9, 8), {"input": [last, other]})
        last = made.fix(f"s{number}", made.scale(0.1, 0.3))
    check(made.done(last), tmp_path)


def test_more_records_than_there_is_room_for(tmp_path):
    made = Made(2, 2, 8)
    last = "x_fix"
    for number in range(5):  # of B64, whose records have 4 channels
        last = made.conv(last, f"c{number}", 200, 1)
    check(made.done(last), tmp_path, "B64+scaled")


@pytest.mark.parametrize("kind", ["conv", "sum", "pool", "function", "depthwise"])
def test_layers_of_more_channel_groups_than_there_are_records(kind, tmp_path):
    """Records come in blocks, and instructions of the misc engine have no more groups."""
    channels = RECORDS * 4 + 40  # of B64
    made, shape = Made(2, 2, 8), (1, 2, 2, channels)
    last = made.conv("x_fix", "c", channels, 1)
    if kind == "sum":
        other = made.conv("x_fix", "d", channels, 1)
        made.graph.add("s", "add", shape, {"input": [last, other]})
    elif kind == "pool":
        attrs = {"kernel": [2, 2], "stride": [1, 1], "pad": [0] * 4, "pad_mode": "FLOOR",
                 "count_include_pad": True, "count_include_invalid": True}  # fmt: skip
        made.graph.add("s", "avgpool2d", (1, 1, 1, channels), {"input": [last]}, attrs)
    elif kind == "function":
        made.graph.add("p", "add", shape, {"input": [last, made.conv("x_fix", "d", channels, 1)]})
        made.graph.add("s", "sigmoid", shape, {"input": [made.fix("p", made.scale(0.1, 0.2))]})
    elif kind == "depthwise":
        values = made.random.normal(0, 0.3, (1, 3, 3, channels)).astype(np.float32)
        w = made.fix(made.graph.add_const("w", values).name, made.scale(0.009, 0.01, 0))
        attrs = {"kernel": [3, 3], "stride": [1, 1], "pad": [1] * 4, "pad_mode": "FLOOR"}
        inputs = {"input": [last], "weights": [w]}
        made.graph.add("s", "depthwise-conv2d", shape, inputs, attrs)
    out = last if kind == "conv" else made.fix("s", made.scale(0.1, 0.3))
    compiled = check(made.done(out), tmp_path, "B64+scaled")
    assert not compiled.report.on_cpu


@pytest.mark.parametrize("target", ["B512+scaled", "B512+table+scaled"])
def test_functions_are_terms_where_there_are_no_tables(target, tmp_path):
    made = Made(5, 6, 20)
    before = made.conv("x_fix", "c", 20, 1)
    made.graph.add("s", "sigmoid", (1, 5, 6, 20), {"input": [before]})
    swish = made.fix("s", made.scale(0.003, 0.004, -128))
    made.graph.add("p", "mul", (1, 5, 6, 20), {"input": [before, swish]})
    program = instructions(check(made.done(made.fix("p", made.scale(0.05, 0.1))), tmp_path, target))
    chosen = Target.from_name(target)
    banks = [i.bank_id for i in program if isinstance(i, Load)]
    by_table = "table" in target
    assert banks.count(chosen.term_bank) == (2 if by_table else 3)
    assert by_table == any(i.table for i in program if isinstance(i, Elew))


@pytest.mark.parametrize("kernel, pads", [((4, 3), [1, 1, 1, 1]), ((3, 2), [0, 2, 1, 0])])
def test_a_first_layer_with_its_kernel_in_the_channels(kernel, pads, tmp_path):
    """LOAD makes the columns beside the map the zero point; rows above and below it CONV does."""
    made = Made(9, 12, 2)
    width, height = 12 + sum(pads[:2]) - kernel[0] + 1, 9 + sum(pads[2:]) - kernel[1] + 1
    out = made.conv("x_fix", "c", 9, kernel, pad=pads)
    for name in ("c", out):
        made.graph[name].type = made.graph[name].type.with_shape((1, height, width, 9))
    program = instructions(check(made.done(out), tmp_path))
    assert {i.kernel_w for i in program if isinstance(i, ConvInit)} == {1}
    loads = [i for i in program if isinstance(i, Load) and i.pad_start + i.pad_end]
    assert {i.const_value for i in loads} == {ODD.zero_point[0] & 0xFF}


@pytest.mark.parametrize("zero, pad", [(-11, 0), (-11, 6), (0, 6)])
def test_dilated_with_strides(zero, pad, tmp_path):
    """Rows are gathered where padding adds nothing; else zeros stand between the taps."""
    made = Made(20, 20, 8)
    given = dataclasses.replace(ODD, zero_point=(zero,))
    made.graph["x_fix"].type = made.graph["x_fix"].type.with_quantization(given)
    out = made.conv("x_fix", "c", 24, dilation=[6, 6], stride=[2, 2], pad=[pad] * 4)
    size = (20 + 2 * pad - 13) // 2 + 1
    for name in ("c", out):
        made.graph[name].type = made.graph[name].type.with_shape((1, size, size, 24))
    compiled = check(made.done(out), tmp_path)
    program = instructions(compiled)
    assert {i.scaled for i in program if isinstance(i, Conv)} == {1}
    kernels = {i.kernel_h for i in program if isinstance(i, ConvInit)}
    assert (max(kernels) == 3) == (not zero or not pad), kernels


@pytest.mark.parametrize("scale", [0.01, 0.037, 0.15])
def test_a_copy_to_another_scale(scale, tmp_path):
    made = Made(4, 5, 6)
    other = Quantization((scale,), (40,), rounding=Rounding.STD_ROUND)
    made.graph.add("r", "relu", (1, 4, 5, 6), {"input": ["x_fix"]})
    check(made.done(made.fix("r", other)), tmp_path)


@pytest.mark.parametrize("scale", [0.02, 0.09])
def test_interpolation_to_another_scale(scale, tmp_path):
    net = Made(5, 6, 11)
    *_, height, width, channels = net.graph["x_fix"].shape
    attrs = {
        "mode": "BILINEAR", "scale": [2.0, 2.0], "half_pixel_centers": True, "align_corners": False,
    }  # fmt: skip
    shape = (1, 2 * height, 2 * width, channels)
    net.graph.add("large", "resize", shape, {"input": ["x_fix"]}, attrs)
    made = Quantization((scale,), (37,), rounding=Rounding.PY3_ROUND)
    check(net.done(net.fix("large", made)), tmp_path)


def test_averages_are_sums_times_a_factor(tmp_path):
    made = Made(6, 6, 5)
    attrs = {"kernel": [2, 3], "stride": [2, 3], "pad": [0] * 4, "pad_mode": "FLOOR",
             "count_include_pad": True, "count_include_invalid": True}  # fmt: skip
    made.graph.add("p", "avgpool2d", (1, 2, 3, 5), {"input": ["x_fix"]}, attrs)
    compiled = check(made.done(made.fix("p", ODD)), tmp_path)
    assert {i.scaled for i in instructions(compiled) if isinstance(i, Alu)} == {1}


def test_a_larger_scale_than_the_result_runs_on_the_cpu(tmp_path):
    made = Made(4, 4, 4)
    out = made.conv("x_fix", "c", 4)
    made.graph[out].type = made.graph[out].type.with_quantization(
        Quantization((1e-5,), rounding=Rounding.STD_ROUND)
    )
    compiled = check(made.done(out), tmp_path)
    (reason,) = [line for line in str(compiled.report).splitlines() if "assigned to CPU" in line]
    assert "DPU only supports factors" in reason


def test_a_plain_target_refuses_them():
    made = Made(4, 4, 4)
    graph = made.done(made.conv("x_fix", "c", 4))
    with pytest.raises(UnsupportedError, match=r"has zero point -58, but the DPU needs one power"):
        compile_with_report(graph, Target.from_name("B512"))


@pytest.mark.parametrize(("bounds", "result"), [((-9.0, -7.0), -128), ((7.0, 9.0), 127)])
def test_bounds_beyond_the_integers_of_the_result(bounds, result, tmp_path):
    made = Made(5, 5, 4)
    name = made.graph.add("sum", "add", (1, 5, 5, 4), {"input": ["x_fix", "x_fix"]}).name
    for kind, bound in zip(("max", "min"), bounds, strict=True):
        limit = made.graph.add_const(f"{kind}_c", np.full(1, bound)).name
        name = made.graph.add(kind, kind, (1, 5, 5, 4), {"input": [name, limit]}).name
    last = made.fix(name, Quantization((0.02,), (-3,), rounding=Rounding.STD_ROUND))
    compiled = check(made.done(last), tmp_path)
    found = run(compiled.graph, "iss", np.zeros((1, 5, 5, 4), np.int8))
    assert np.unique(found).tolist() == [result]
