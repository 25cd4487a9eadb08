# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs to compiled graphs: results, structure, and reasons for the CPU."""

import pytest
from graph_draws import Quantized, compile_and_check

import xir
from opendpu.compiler.pipeline import compile, compile_with_report
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target

TARGETS = ("B64", "B512", "B1152", "B4096")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("act", [None, "relu", "relu6"])
def test_conv(target: str, act: str | None) -> None:
    q = Quantized()
    y = q.conv(q.data(9, 11, 5), "conv", 19, pad=1, act=act)
    compiled = compile_and_check(q.done(y), target)
    assert not compiled.report.on_cpu


def test_leaky_relu() -> None:
    q = Quantized()
    x = q.data(6, 6, 3)
    given = {"input": [x], "weights": [q.const("w", 4, 3, 3, 3)], "bias": [q.const("b", 4)]}
    values = {"kernel": [3, 3], "stride": [1, 1], "pad": [0] * 4, "pad_mode": "FLOOR"}
    q.graph.add("conv", "conv2d", (1, 4, 4, 4), given, values)
    y = q.finish("conv", 4, "leaky-relu", alpha=26 / 256)
    assert not compile_and_check(q.done(y)).report.on_cpu


@pytest.mark.parametrize("target", TARGETS)
def test_depthwise(target: str) -> None:
    q = Quantized()
    y = q.conv(q.data(10, 7, 13), "dw", 0, stride=2, pad=1, act="relu", kind="depthwise-conv2d")
    assert not compile_and_check(q.done(y), target).report.on_cpu


@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (3, 1, 1), (5, 3, 2), (7, 7, 0)])
@pytest.mark.parametrize("kind", ["maxpool2d", "avgpool2d"])
def test_pool(kind: str, kernel: int, stride: int, pad: int) -> None:
    q = Quantized()
    y = q.pool(q.data(14, 15, 9), "pool", kind, kernel, stride, pad, point=6)
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_global_pool() -> None:
    q = Quantized()
    x = q.data(11, 6, 20)
    q.op("pool", "avgpool2d", (1, 1, 20), [x], kernel=[6, 11], stride=[6, 11], pad=[0] * 4,
         pad_mode="FLOOR", **{"global": True})  # fmt: skip
    assert not compile_and_check(q.done(q.fix("pool", 6))).report.on_cpu


@pytest.mark.parametrize("count", [2, 3, 4])
def test_add_at_different_positions(count: int) -> None:
    q = Quantized()
    x = q.data(6, 5, 10)
    terms = [q.conv(x, f"c{n}", 10, kernel=1, point=3 + n) for n in range(count)]
    y = q.add(terms, "sum", point=2, act="relu")
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_residual_block_with_strides() -> None:
    q = Quantized()
    x = q.conv(q.data(17, 13, 3), "stem", 16, pad=1, act="relu")
    a = q.conv(x, "a", 24, stride=2, pad=1, act="relu")
    b = q.conv(a, "b", 24, pad=1)
    short = q.conv(x, "short", 24, kernel=1, stride=2)
    y = q.add([b, short], "sum", act="relu")
    compiled = compile_and_check(q.done(y), "B1152")
    (dpu,) = [s for s in compiled.report.subgraphs if s.device == "DPU"]
    assert set(dpu.on_chip) == {"stem", "a", "b", "short"}


@pytest.mark.parametrize("target", TARGETS)
def test_flatten_and_dense(target: str) -> None:
    """A dense layer over a feature map is a convolution as large as the map."""
    q = Quantized()
    x = q.pool(q.data(6, 10, 7), "pool", "maxpool2d", 2, 2)
    flat = q.reshape(x, "flat", 3 * 5 * 7)
    hidden = q.dense(flat, "hidden", 20, point=3)
    y = q.dense(hidden, "y", 5, point=2)
    compiled = compile_and_check(q.done(y), target)
    assert not compiled.report.on_cpu
    assert compiled.graph.get_op("hidden").get_attr("kernel") == [5, 3]


@pytest.mark.parametrize(("axis", "shape"), [(3, (4, 5, 15)), (1, (8, 5, 6))])
def test_concat(axis: int, shape: tuple[int, ...]) -> None:
    q = Quantized()
    x = q.data(4, 5, 8)
    a = q.conv(x, "a", 6, kernel=1, point=4)
    b = q.conv(x, "b", 9 if axis == 3 else 6, kernel=1, point=3)
    q.op("cat", "concat", shape, [a, b], axis=axis)
    y = q.conv(q.fix("cat", 4), "y", 5, kernel=1, point=2)
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_concat_of_an_input_with_itself_and_an_output() -> None:
    """Nothing can be moved away from where others expect it, so copies are made."""
    q = Quantized()
    x = q.data(4, 4, 8)
    a = q.conv(x, "a", 8, kernel=1, point=5)
    q.op("cat", "concat", (4, 4, 24), [x, a, a], axis=3)
    y = q.fix("cat", 5)
    assert not compile_and_check(q.done(y, a)).report.on_cpu


@pytest.mark.parametrize("axis", [1, 3])
def test_concat_of_concats(axis: int) -> None:
    """The inner result is bytes of the outer one, and its inputs too."""
    q = Quantized()
    x = q.data(4, 5, 8)
    a, b, c = (q.conv(x, name, 6, kernel=1, point=4) for name in "abc")
    shape = [4, 5, 6]
    shape[axis - 1] *= 2
    q.op("inner", "concat", tuple(shape), [a, b], axis=axis)
    shape[axis - 1] += [4, 5, 6][axis - 1]
    q.op("outer", "concat", tuple(shape), [c, q.fix("inner", 4)], axis=axis)
    y = q.conv(q.fix("outer", 4), "y", 5, kernel=3, pad=1, point=2)
    compiled = compile_and_check(q.done(y))
    assert not compiled.report.on_cpu
    (subgraph,) = (s for s in compiled.report.subgraphs if s.device == "DPU")
    assert "ELEW" not in subgraph.instructions


def test_reshaped_outputs() -> None:
    q = Quantized()
    a = q.conv(q.data(4, 4, 8), "a", 6, kernel=1, point=5)
    flat = q.reshape(a, "flat", 96, point=5)
    other = q.reshape(a, "other", 16, 6, point=5)
    assert not compile_and_check(q.done(flat, other, a)).report.on_cpu


def test_dilation_spreads_the_kernel() -> None:
    q = Quantized()
    y = q.conv(q.data(12, 12, 5), "conv", 6, dilation=[3, 3])
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_cpu_between_two_dpu_parts() -> None:
    q = Quantized()
    a = q.conv(q.data(6, 6, 8), "a", 8, pad=1)
    middle = q.op("middle", "sigmoid", (6, 6, 8), [a])
    y = q.conv(q.fix(middle, 7), "y", 4, point=4)
    compiled = compile_and_check(q.done(y))
    assert [s.device for s in compiled.report.subgraphs] == ["USER", "DPU", "CPU", "DPU"]
    assert compiled.report.on_cpu == {"middle": "the DPU has no sigmoid (XCOM_OPERATOR_UNUPPORT)"}
    assert (
        "op middle has been assigned to CPU: "
        "[the DPU has no sigmoid (XCOM_OPERATOR_UNUPPORT)]." in str(compiled.report)
    )


def test_layer_that_fits_no_bank_runs_on_the_cpu() -> None:
    """Tiling finds out, and the reason is its message."""
    q = Quantized()
    attrs = {"kernel": [40, 100], "stride": [40, 100], "pad": [0] * 4, "pad_mode": "FLOOR"}
    q.op("pool", "avgpool2d", (1, 1, 4), [q.data(100, 40, 4)], **attrs)
    compiled = compile_and_check(q.done(q.fix("pool", 5)), "B64", runs=1)
    why = compiled.report.on_cpu["pool"]
    assert "does not fit the image banks" in why
    assert why.endswith("deeper banks would lift it (XCOM_TILING_SIZE_ERROR)")


def test_compiled_form() -> None:
    """Attributes that runners and AMD's tools read."""
    q = Quantized()
    a = q.conv(q.data(8, 8, 3), "a", 16, act="relu")
    y = q.conv(a, "b", 8, kernel=1)
    target = Target.from_name("B4096")
    graph = compile(q.done(y), target)
    root = graph.get_root_subgraph()
    user, dpu = root.toposort_child_subgraph()
    assert user.get_attr("device") == "USER"
    assert dpu.get_attr("device") == "DPU"
    assert dpu.get_attr("dpu_fingerprint") == target.fingerprint
    assert dpu.get_attr("dpu_name") == "DPUCZDX8G_ISA1_B4096"
    assert dpu.get_attr("reg_id_to_context_type_v2") == {
        "REG_0": "CONST", "REG_1": "WORKSPACE", "REG_2": "INTERFACE", "REG_3": "INTERFACE"
    }  # fmt: skip
    assert dpu.get_attr("reg_id_to_hw_segment")["REG_0"] == "W0"
    sizes = dpu.get_attr("reg_id_to_size")
    assert sizes["REG_2"] >= 8 * 8 * 3
    assert len(dpu.get_attr("reg_id_to_parameter_value")["REG_0"]) == sizes["REG_0"]
    assert graph.get_tensor("a_relu_fix").get_attr("location") == 0
    weights = graph.get_op("b_w").get_output_tensor()
    assert weights.get_attr("ddr_addr") % 64 == 0
    blob = dpu.get_attr("reg_id_to_parameter_value")["REG_0"]
    values = q.graph["b_w"].value.reshape(-1) * 2**8
    at = weights.get_attr("ddr_addr")
    assert list(blob[at : at + 4]) == [int(v) & 0xFF for v in values[:4]]
    upload = graph.get_op("x_upload_0").get_output_tensor()
    assert (upload.get_attr("reg_id"), upload.get_attr("stride")) == (2, [192, 24, 3, 1])
    assert graph.get_attr("return_ops") == ["b_download_0"]
    assert graph.get_op("b_download_0").get_output_tensor().name == "b_fix"
    assert graph.get_op("a").get_attr("workload") == 6 * 6 * 16 * (2 * 27 + 1)


def test_unchanged_by_another_round_through_a_file() -> None:
    q = Quantized()
    graph = compile(q.done(q.conv(q.data(5, 5, 3), "a", 4)), Target.from_name("B64"))
    data = graph.to_bytes()
    assert xir.Graph.from_bytes(data).to_bytes() == data


def test_fix_with_another_width_is_refused() -> None:
    q = Quantized()
    q.graph.add("x", "data", (1, 4, 4, 3))
    x = q.fix("x", 3, bit_width=16)
    y = q.fix(q.op("r", "relu", (4, 4, 3), [x]), 3)
    with pytest.raises(UnsupportedError, match=r"fix op 'x_fix' has 16 signed bits, but must have"):
        compile_with_report(q.done(y), Target.from_name("B64"))


def test_graph_without_anything_for_the_dpu() -> None:
    q = Quantized()
    y = q.op("s", "sigmoid", (3, 3, 2), [q.data(3, 3, 2)])
    compiled = compile_and_check(q.done(y))
    assert [s.device for s in compiled.report.subgraphs] == ["USER", "CPU"]


def test_input_that_is_also_read_as_float() -> None:
    q = Quantized()
    q.graph.add("x", "data", (1, 4, 4, 3))
    x = q.fix("x", 4)
    y = q.conv(x, "conv", 5)
    s = q.op("s", "sigmoid", (4, 4, 3), ["x"])
    compiled = compile_with_report(q.done(y, s), Target.from_name("B64"))
    assert [s.device for s in compiled.report.subgraphs] == ["USER", "CPU", "DPU"]
    assert compiled.graph.get_op("x").get_type() == "data"


def test_convolution_without_bias() -> None:
    q = Quantized()
    y = q.conv(q.data(5, 5, 4), "conv", 6)
    del q.graph["conv"].inputs["bias"]
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_shared_weights() -> None:
    q = Quantized()
    x = q.data(5, 5, 4)
    a, b = q.conv(x, "a", 4, kernel=1, point=5), q.conv(x, "b", 4, kernel=1, point=5)
    for arg in ("weights", "bias"):
        q.graph["b"].inputs[arg] = q.graph["a"].inputs[arg]
    assert not compile_and_check(q.done(q.add([a, b], "sum"))).report.on_cpu


def test_fix_behind_fix_moves_the_position() -> None:
    q = Quantized()
    x = q.data(4, 4, 3, point=6)
    y = q.conv(q.fix(x, 3), "conv", 5)
    assert not compile_and_check(q.done(y)).report.on_cpu


def test_two_inputs_and_an_output_in_the_middle() -> None:
    q = Quantized()
    a = q.conv(q.data(6, 6, 3, name="left"), "a", 8, pad=1)
    b = q.conv(q.data(6, 6, 5, name="right"), "b", 8, pad=1)
    total = q.add([a, b], "sum")
    y = q.conv(total, "y", 4)
    assert not compile_and_check(q.done(y, total)).report.on_cpu
