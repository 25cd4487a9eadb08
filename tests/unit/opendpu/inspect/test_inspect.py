# SPDX-License-Identifier: Apache-2.0
"""What an inspection says of the operators of a model: ONNX, quantized, compiled."""

import dataclasses
import pathlib

import numpy as np
import onnx
import pytest
from float_nets import Net
from graph_draws import Quantized
from onnx import helper, numpy_helper

from opendpu import api
from opendpu.compiler.pipeline import compile_with_report
from opendpu.frontend import load_onnx
from opendpu.inspect import InspectedNode, Inspection, inspect_compiled, inspect_graph
from opendpu.ir import to_xir
from opendpu_arch.errors import TargetError, TensorError, UnsupportedError
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")


def by_name(found: Inspection) -> dict[str, InspectedNode]:
    return {node.name: node for node in found.nodes}


def model(*nodes: onnx.NodeProto, channels: int = 4, **constants: np.ndarray) -> onnx.ModelProto:
    """Return a model from input x, [1, channels, 8, 8], to the result of the last node."""
    kind = onnx.TensorProto.FLOAT
    made = helper.make_graph(
        list(nodes), "net", [helper.make_tensor_value_info("x", kind, [1, channels, 8, 8])],
        [helper.make_tensor_value_info(nodes[-1].output[0], kind, None)],
        [numpy_helper.from_array(value.astype("f"), name) for name, value in constants.items()],
    )  # fmt: skip
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 15)], ir_version=9)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape)


def classifier() -> onnx.ModelProto:
    """Return convolution, batch normalization, ReLU, swish of two nodes, softmax."""
    conv = helper.make_node("Conv", ["x", "w"], ["a"], "stem/conv", pads=[1, 1, 1, 1])
    conv.metadata_props.add(
        key="pkg.torch.onnx.stack_trace", value='File "/home/me/net.py", line 12, in forward'
    )
    ones, zeros = np.ones(6), np.zeros(6)
    return model(
        conv,
        helper.make_node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"], "stem/bn"),
        helper.make_node("Relu", ["n"], ["r"], "stem/relu"),
        helper.make_node("Conv", ["r", "u"], ["c"], "head/conv"),
        helper.make_node("Sigmoid", ["c"], ["g"], "head/act/gate"),
        helper.make_node("Mul", ["c", "g"], ["h"], "head/act"),
        helper.make_node("Conv", ["h", "u"], ["d"], "last/conv"),
        helper.make_node("Softmax", ["d"], ["y"], "soft", axis=1),
        w=weights(6, 4, 3, 3), u=weights(6, 6, 1, 1), s=ones, b=zeros, m=zeros, v=ones,
    )  # fmt: skip


def test_every_operator_has_a_device_and_a_place() -> None:
    found = by_name(inspect_graph(load_onnx(classifier()), TARGET))
    devices = {name: node.device for name, node in found.items()}
    assert devices == {
        "x": "USER", "stem/conv": "DPU", "stem/bn": "DPU", "stem/relu": "DPU", "head/conv": "DPU",
        "head/act": "CPU", "last/conv": "CPU", "soft": "CPU",
    }  # fmt: skip
    conv = found["stem/conv"]
    assert (conv.op_type, conv.source, conv.shape) == ("Conv", "net.py:12", (1, 8, 8, 6))
    assert (conv.inputs, conv.outputs) == (("x",), ("stem/bn",))
    assert conv.attributes["kernel"] == [3, 3]
    assert (conv.constraint, conv.message, conv.runs_in) == ("", "", "")
    soft = found["soft"]
    assert soft.message == soft.constraint == "the DPU has no softmax"
    assert soft.code == "XCOM_OPERATOR_UNUPPORT"


def test_what_does_not_pay_says_so() -> None:
    small = by_name(inspect_graph(load_onnx(classifier()), TARGET))["last/conv"]
    assert small.message == (
        "it stands between ops of the CPU, and two hand-overs cost more than it takes there"
    )
    assert small.lift == "these on the DPU"


def test_what_is_fused_says_into_what() -> None:
    found = by_name(inspect_graph(load_onnx(classifier()), TARGET))
    assert found["stem/bn"].runs_in == found["stem/relu"].runs_in == "stem/conv"


def test_substitution_is_what_lifts_a_swish() -> None:
    graph = load_onnx(classifier())
    act = by_name(inspect_graph(graph, TARGET))["head/act"]
    assert (act.op_type, act.lift) == ("Swish", "activation substitution 'hard'")
    hard = by_name(inspect_graph(graph, TARGET, activation_substitution="hard"))
    assert hard["head/act"].device == "DPU"


def test_a_constraint_comes_with_its_text_its_numbers_and_what_lifts_it() -> None:
    wide = helper.make_node("Conv", ["x", "w"], ["y"], "wide", pads=[32, 32, 32, 32])
    found = by_name(inspect_graph(load_onnx(model(wide, w=weights(2, 4, 70, 70))), TARGET))["wide"]
    assert found.device == "CPU"
    assert found.constraint == (
        "Kernels of convolutions are 1..16 rows and columns; dilation is not counted."
    )
    assert found.message == 'DPU only supports "kernel_height"(70) in 1..16'
    assert (found.lift, found.code) == ("a smaller kernel", "XCOM_UNSUPPORT_KERNEL_SIZE")
    assert not found.of_scales


def test_a_layer_that_no_bank_holds_is_found_without_planning_the_rest() -> None:
    small = dataclasses.replace(Target.from_name("B64"), bank_depth=64)
    conv = helper.make_node("Conv", ["x", "w"], ["y"], "deep", pads=[2, 2, 2, 2])
    graph = load_onnx(model(conv, channels=64, w=weights(8, 64, 5, 5)))
    found = by_name(inspect_graph(graph, small))["deep"]
    assert (found.device, found.code) == ("CPU", "XCOM_TILING_SIZE_ERROR")


def test_scales_that_are_known_are_not_marked() -> None:
    q = Quantized()
    x = q.op("gate", "hard-sigmoid", (6, 6, 4), [q.data(6, 6, 4)])
    graph = q.done(q.conv(q.fix(x, 5), "conv", 4))
    found = inspect_graph(graph, TARGET)
    gate = by_name(found)["gate"]
    assert not found.assumed_scales
    assert gate.device == "CPU"
    assert gate.constraint.startswith("The result of hard-sigmoid has at least 7 fractional bits")
    assert not gate.of_scales


def test_a_network_with_a_logarithm_gets_other_inputs() -> None:
    """Of numbers below zero it has no value, so that the first made-up sample is refused."""
    log = helper.make_node("Log", ["x"], ["l"], "log")
    conv = helper.make_node("Conv", ["l", "w"], ["y"], "conv")
    graph = load_onnx(model(log, conv, channels=128, w=weights(128, 128, 5, 5)))
    assert by_name(inspect_graph(graph, TARGET))["conv"].device == "DPU"


def test_a_network_without_finite_results_is_an_error() -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Abs", ["n"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Sqrt", ["b"], ["s"]),
        helper.make_node("Conv", ["s", "w"], ["y"]),
    ]
    with pytest.raises(TensorError, match="gives values that are not finite"):
        inspect_graph(load_onnx(model(*nodes, channels=128, w=weights(128, 128, 5, 5))), TARGET)


def test_an_unknown_substitution() -> None:
    with pytest.raises(UnsupportedError, match="activation substitution 'soft' is unknown"):
        inspect_graph(Net().done("x"), TARGET, activation_substitution="soft")


def test_files_of_every_kind(tmp_path: pathlib.Path) -> None:
    """A float, a quantized and a compiled file of one network tell of the same devices."""
    q = Quantized()
    y = q.conv(q.data(6, 6, 4), "conv", 5, act="relu")
    q.graph.add("soft", "softmax", q.graph[y].type.shape, {"input": [y]}, {"axis": -1})
    graph = q.done("soft")
    quantized, compiled = tmp_path / "q.xmodel", tmp_path / "c.xmodel"
    to_xir(graph).serialize(quantized)
    compile_with_report(graph, TARGET).graph.serialize(compiled)
    one = by_name(api.inspect(quantized, target="B512"))
    assert (one["conv"].device, one["soft"].device) == ("DPU", "CPU")
    two = by_name(api.inspect(compiled))
    assert (two["conv"].device, two["soft"].device) == ("DPU", "CPU")
    assert two["soft"].message == "the DPU has no softmax"
    with pytest.raises(TargetError, match="is not compiled: say for which target"):
        api.inspect(quantized)
    with pytest.raises(TargetError, match="was compiled for DPUCZDX8G_ISA1_B512, but DPUC"):
        api.inspect(compiled, target="B64")
    path = tmp_path / "float.onnx"
    onnx.save(classifier(), path)
    assert by_name(api.inspect(path, target="B512"))["soft"].device == "CPU"


def test_a_compiled_file_does_not_say_why_an_op_of_the_dpu_is_on_the_cpu() -> None:
    q = Quantized()
    x = q.op("gate", "hard-sigmoid", (6, 6, 4), [q.data(6, 6, 4)])
    graph = q.done(q.conv(q.fix(x, 5), "conv", 4))
    found = by_name(inspect_compiled(compile_with_report(graph, TARGET).graph, TARGET))
    (gate,) = [node for node in found.values() if "gate" in node.name and node.device == "CPU"]
    assert gate.message == "the file was compiled so, and does not say why"


def test_json_values() -> None:
    found = inspect_graph(load_onnx(classifier()), TARGET).as_dict()
    assert found["target"] == "DPUCZDX8G_ISA1_B512"
    assert found["operators"] == {"DPU": 4, "CPU": 3, "USER": 1}
    assert found["nodes"][1]["name"] == "stem/conv"


def test_a_layer_is_on_the_dpu_though_a_move_in_front_of_it_is_not() -> None:
    """What an operator computes says where it is, and why; not what brings its input in shape."""
    graph = load_onnx(
        model(
            helper.make_node("Softmax", ["x"], ["s"], "soft", axis=1),
            helper.make_node("Constant", [], ["shape"], value_ints=[1, 8, 32]),
            helper.make_node("Reshape", ["s", "shape"], ["t"], "tokens"),
            helper.make_node("MatMul", ["t", "w"], ["m"], "wide"),
            helper.make_node("Relu", ["m"], ["r"], "relu"),
            helper.make_node("MatMul", ["r", "u"], ["n"], "deep"),
            helper.make_node("Sub", ["n", "t"], ["d"], "sub"),
            helper.make_node("Transpose", ["d"], ["f"], "turn", perm=[0, 2, 1]),
            helper.make_node("ReduceMean", ["f"], ["v"], "mean", axes=[1], keepdims=0),
            helper.make_node("Softmax", ["v"], ["y"], "last", axis=1),
            w=weights(32, 1024),
            u=weights(1024, 32),
        )
    )
    found = by_name(inspect_graph(graph, TARGET))
    assert {name: node.device for name, node in found.items()} == {
        "x": "USER", "soft": "CPU", "wide": "DPU", "relu": "DPU", "deep": "DPU", "sub": "CPU",
        "mean": "CPU", "last": "CPU",
    }  # fmt: skip
    assert found["last"].message == "the DPU has no softmax"
    assert found["mean"].message.startswith("it stands between ops of the CPU")
