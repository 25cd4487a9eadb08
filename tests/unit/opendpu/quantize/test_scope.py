# SPDX-License-Identifier: Apache-2.0
"""What stays float: every rule, on a network that is there for it."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.api import compile_graph
from opendpu.ir import TensorType
from opendpu.ops.session import Session
from opendpu.quantize import Override, QuantizeConfig, TensorSpec, quantize
from opendpu.quantize.placement.place import FED, LEAVES
from opendpu.quantize.placement.scope import COSTS, JOINS, MOVES, floating_ops
from opendpu.runtime import Runner
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch.target import Target

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples

MANY = 512
"""Channels that make a layer worth its hand-overs."""


def computed(net) -> set[str]:
    """Return the ops that stay float, constants left out."""
    return set(floating_ops(net))


def fixes(graph) -> set[str]:
    return {node.inputs["input"][0] for node in graph if node.kind == "fix"}


def test_what_the_dpu_has_not_is_float():
    net = Net()
    net.conv("a", "x", 4)
    net.put("t", "tanh", ["a"])
    net.conv("b", "t", MANY)
    graph = net.done("b")
    assert computed(graph) == {"t"}
    found = fixes(quantize(graph, samples()))
    assert {"x", "a", "t", "b"} <= found  # t is rounded where the DPU takes it


def test_an_operator_that_nobody_knows_is_float():
    net = Net()
    net.conv("a", "x", 4)
    net.put("u", "onnx", ["a"])
    net.conv("b", "u", MANY)
    assert computed(net.done("b")) == {"u"}


@pytest.mark.parametrize("other", ["constant", "computed"])
def test_products_are_the_dpus_whatever_is_constant(other):
    net = Net()
    net.put("f", "reshape", ["x"], {"shape": [1, 16, 16]}, (1, 16, 16))
    net.put("r", "relu", ["f"])
    name = net.add_const("c", np.eye(16)).name if other == "constant" else "r"
    attrs = {"transpose_a": False, "transpose_b": False}
    net.put("m", "matmul", ["r", name], attrs)
    assert "m" not in computed(net.done("m"))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float64])
def test_other_types_pass_through(dtype):
    net = Net()
    net.conv("a", "x", 4)
    kind = TensorType((1, 8, 8, 4), np.dtype(dtype))
    net.add("i", "data", kind)
    net.add("j", "reshape", TensorType((1, 256), np.dtype(dtype)), {"input": ["i"]},
            {"shape": [1, 256]})  # fmt: skip
    graph = net.done("a", "j")
    assert computed(graph) == {"i", "j"}
    given = samples() | {"i": np.ones((16, 8, 8, 4), dtype)}
    made = quantize(graph, given)
    assert made.outputs == ["a_fix", "j"]
    assert made["i"].type == kind
    (whole,) = (Session(made).run({n: v[:1] for n, v in given.items()})["j"],)
    assert whole.dtype == dtype


def test_moves_are_float_where_an_input_or_all_readers_are():
    net = Net()
    net.conv("a", "x", 4)
    net.put("read", "reshape", ["a"], {"shape": [1, 256]}, (1, 256))
    net.put("s", "softmax", ["read"], {"axis": 1})
    net.put("fed", "reshape", ["s"], {"shape": [1, 8, 8, 4]}, (1, 8, 8, 4))
    net.conv("b", "fed", MANY)
    graph = net.done("b")
    assert computed(graph) == {"read", "s", "fed"}
    assert {"a", "fed"} <= fixes(quantize(graph, samples()))
    assert not {"read", "s"} & fixes(quantize(graph, samples()))


def test_a_move_that_the_dpu_reads_too_is_quantized():
    net = Net()
    net.conv("a", "x", 4)
    net.put("m", "reshape", ["a"], {"shape": [1, 8, 8, 4]})
    net.put("s", "softmax", ["m"], {"axis": 3})
    net.conv("b", "m", 4)
    assert computed(net.done("s", "b")) == {"s"}


def head(*, join: bool):
    """Boxes in hundreds and scores below one, joined at the end or not."""
    net = Net()
    net.conv("a", "x", 4)
    net["a_w"].value = net["a_w"].value * 200
    net.conv("c", "x", 4)
    net.put("g", "relu", ["c"])
    net.put("k", "concat", ["a", "g"], {"axis": 3}, (1, 8, 8, 8))
    net.put("r", "reshape", ["k"], {"shape": [1, 512]}, (1, 512))
    return net.done("r") if join else net.done("a", "g")


def test_joined_heads_keep_their_own_scales():
    graph = head(join=True)
    assert computed(graph) == {"k", "r"}
    whole, parts = (quantize(g, samples()) for g in (graph, head(join=False)))
    assert whole.outputs == ["r"]
    for name in ("a_fix", "g_fix"):
        assert whole[name].fix_point == parts[name].fix_point
    assert whole["g_fix"].fix_point - whole["a_fix"].fix_point > 4


def test_a_joint_of_one_source_or_with_layers_behind_stays_on_the_dpu():
    net = Net()
    net.conv("a", "x", 4)
    net.put("one", "concat", ["a", "a"], {"axis": 3}, (1, 8, 8, 8))
    assert computed(net.done("one")) == set()
    net.conv("c", "x", 4)
    net.put("k", "concat", ["a", "c"], {"axis": 3}, (1, 8, 8, 8))
    net.conv("b", "k", 4)
    assert computed(net.done("k", "b")) == set()


def test_inputs_that_only_float_ops_read_stay_as_they_are():
    net = Net()
    net.add("y", "data", (1, 8, 8, 4))
    net.put("e", "exp", ["y"])
    net.conv("a", "x", 4)
    net.put("s", "sub", ["a", "e"])
    graph = net.done("s")
    assert computed(graph) == {"y", "e", "s"}


@pytest.mark.parametrize("kind", ["add", "mul", "relu", "maxpool2d"])
def test_one_op_between_float_ones_is_not_worth_two_hand_overs(kind):
    net = Net()
    net.conv("a", "x", 4)
    net.put("t", "tanh", ["a"])
    attrs = {"kernel": [3, 3], "stride": [1, 1], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
    inputs = ["t", "t"] if kind in ("add", "mul") else ["t"]
    net.put("lone", kind, inputs, attrs if kind == "maxpool2d" else None)
    net.put("e", "exp", ["lone"])
    net.conv("b", "e", MANY)
    assert computed(net.done("b")) == {"t", "lone", "e"}


def test_a_layer_between_float_ones_is_worth_them_if_it_is_large():
    for channels, size, stays in ((4, 1, True), (MANY, 3, False)):
        net = Net()
        net.conv("a", "x", channels)
        net.put("t", "tanh", ["a"])
        net.conv("c", "t", channels, size)
        net.put("e", "exp", ["c"])
        assert ("c" in computed(net.done("e"))) == stays, channels


def test_the_result_of_argmax_is_no_real_number():
    net = Net()
    net.conv("a", "x", 4)
    kind = TensorType((1, 8, 8), np.dtype(np.int32))
    net.add("i", "argmax", kind, {"input": ["a"]}, {"axis": 3})
    graph = net.done("i")
    assert computed(graph) == set()
    made = quantize(graph, samples())
    assert made.outputs == ["i"]
    assert made["i"].inputs["input"] == ["a_fix"]


def test_reasons_are_in_the_compilers_report():
    net = Net()
    net.conv("a", "x", 4)
    net.put("t", "tanh", ["a"])
    net.put("lone", "relu", ["t"])
    net.put("e", "exp", ["lone"])
    net.put("r", "reshape", ["e"], {"shape": [1, 256]}, (1, 256))
    net.conv("b", "x", 4)
    net.put("k", "concat", ["a", "b"], {"axis": 3}, (1, 8, 8, 8))
    graph = net.done("r", "k")
    assert floating_ops(graph) == {"t": "", "e": "", "lone": COSTS, "r": MOVES, "k": JOINS}
    report = compile_graph(quantize(graph, samples()), target="B512").report
    assert {name: report.on_cpu[name] for name in ("lone", "r", "k")} == {
        "lone": COSTS, "r": MOVES, "k": JOINS,
    }  # fmt: skip
    assert report.on_cpu["t"].startswith("the DPU has no tanh")


def test_functions_that_a_table_could_compute_say_why_they_stay():
    """At an output, or behind what the CPU has made, a table would only lose."""
    net = Net()
    net.conv("a", "x", 4)
    net.put("t", "tanh", ["a"])
    net.conv("b", "x", 4)
    net.put("s", "softmax", ["b"], {"axis": 3})
    net.put("e", "sigmoid", ["s"])
    graph = net.done("t", "e")
    quantized = quantize(graph, samples(), target=Target.from_name("B512+table"))
    report = compile_graph(quantized, target="B512+table").report
    assert report.on_cpu["t"] == LEAVES
    assert report.on_cpu["e"] == FED


def test_joined_outputs_are_one_tensor_of_the_dpu():
    """Detectors whose program looks for the boxes of all maps in one tensor of the DPU."""
    net = Net()
    net.conv("a", "x", 4)
    net.conv("b", "x", 8)
    for name, size in (("a", 256), ("b", 512)):
        net.put(f"{name}_flat", "reshape", [name], {"shape": [1, size]}, (1, size))
    net.put("boxes", "concat", ["a_flat", "b_flat"], {"axis": 1}, (1, 768))
    graph = net.done("boxes")
    assert floating_ops(graph) == {"a_flat": MOVES, "b_flat": MOVES, "boxes": JOINS}
    assert floating_ops(graph, join_outputs=True) == {}
    quantized = quantize(graph, samples(), QuantizeConfig(join_outputs=True))
    (dpu,) = dpu_subgraphs(compile_graph(quantized, target="B512").graph)
    values = np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 4)).astype(np.int8)
    with Runner(dpu, device="iss") as runner:
        (tensor,) = runner.get_output_tensors()
        assert (tensor.name, tensor.dims) == ("boxes_fix", [1, 768])
        found = runner.run([values])["boxes_fix"]
    point = quantized["x_fix"].fix_point
    wanted = Session(quantized).run({"x": np.ldexp(np.float32(values), -point)})
    expected = np.ldexp(wanted[quantized.outputs[0]], tensor.get_attr("fix_point"))
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 20


@pytest.mark.parametrize("moved", [False, True])
def test_a_layer_without_weights_that_is_kept_in_float(moved):
    """The compiler does not take it back where a layer of the DPU reads its result."""
    net = Net()
    net.conv("a", "x", 8)
    net.put("p", "relu", ["a"])
    if moved:
        net.put("r", "reshape", ["p"], {"shape": [1, 4, 16, 8]}, (1, 4, 16, 8))
    net.conv("b", "r" if moved else "p", MANY)
    off = TensorSpec(number_format="float32")
    rule = Override(names=("p",), input=off, weights=off, bias=off, activation=off)
    made = quantize(net.done("b"), samples(), QuantizeConfig(overrides=(rule,)))
    report = compile_graph(made, target="B512").report
    reason = "the configuration keeps it in float; quantizing it would lift it"
    assert report.on_cpu["p"] == reason
    assert not {"a", "b"} & set(report.on_cpu)


def test_gates_of_attention_stay_on_the_dpu():
    """Squeeze and excite with a hard sigmoid, and hard-swish, as MobileNetV3 has them."""
    net = Net()
    net.conv("a", "x", 4)
    net.put("h", "hard-swish", ["a"])
    net.put("p", "avgpool2d", ["h"], {"kernel": [8, 8], "stride": [8, 8], "pad": [0, 0, 0, 0],
                                      "pad_mode": "FLOOR"}, (1, 1, 1, 4))  # fmt: skip
    net.conv("c", "p", 4, 1)
    net.put("g", "hard-sigmoid", ["c"])
    net.put("y", "mul", ["h", "g"], shape=(1, 8, 8, 4))
    assert computed(net.done("y")) == set()


def test_little_preprocessing_in_front_of_the_cpu_is_float():
    """Degrees and weeks that go into a sine: BirdNET's metadata."""
    net = Net()
    net.put("half", "mul", ["x", net.add_const("c", np.full((1, 1, 1, 1), 1 / 180)).name])
    net.put("s", "sin", ["half"])
    net.conv("b", "s", MANY)
    net.put("r", "relu", ["x"])  # an output that the DPU makes of the input stays there
    assert floating_ops(net.done("b", "r")) == {"s": "", "half": COSTS}
