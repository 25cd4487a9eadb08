# SPDX-License-Identifier: Apache-2.0
"""Quantized float ops to fixed-point ops."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check

from opendpu.compiler.fixed import point_of, tensor_of
from opendpu.compiler.legalize import legalize
from opendpu.ir import Graph, Node, TensorType
from opendpu.ops.window import explicit_pad


def kinds(graph: Graph) -> dict[str, str]:
    return {n.name: n.kind for n in graph if n.value is None}


def legal(q: Quantized, *outputs: str) -> Graph:
    q.graph.outputs = list(outputs)
    return legalize(q.graph)


def test_conv_relu_and_fix_become_one() -> None:
    q = Quantized()
    made = legal(q, q.conv(q.data(6, 6, 3), "conv", 4, act="relu", point=3))
    assert kinds(made) == {"x": "data-fix", "conv": "conv2d-fix"}
    conv = made["conv"]
    assert (conv.attrs["nonlinear"], point_of(conv)) == ("RELU", 3)
    assert tensor_of(conv) == "conv_relu_fix"
    assert made["conv_w"].value is not None
    assert made["conv_w"].value.dtype == np.int8


@pytest.mark.parametrize(("point", "nonlinear"), [(4, "RELU6"), (5, "RELU")])
def test_relu6_is_exact_or_replaced(point: int, nonlinear: str) -> None:
    q = Quantized()
    made = legal(q, q.conv(q.data(4, 4, 3), "conv", 4, act="relu6", point=point))
    assert made["conv"].attrs["nonlinear"] == nonlinear


def test_relu6_that_the_engine_would_clamp_elsewhere_stays_float() -> None:
    q = Quantized()
    made = legal(q, q.conv(q.data(4, 4, 3), "conv", 4, act="relu6", point=3))
    assert kinds(made)["conv"] == "conv2d"
    assert kinds(made)["conv_relu6_fix_float2fix"] == "float2fix"


def test_activation_with_other_users_is_not_fused() -> None:
    q = Quantized()
    made = legal(q, q.conv(q.data(4, 4, 3), "conv", 4, act="relu"), q.fix("conv", 4))
    (fused,) = (n for n in made if n.kind == "conv2d-fix")
    assert fused.attrs["nonlinear"] == "NONE"
    assert {"conv2d", "relu", "float2fix"} <= set(kinds(made).values())


def test_relu_alone_is_an_addition_of_one_term() -> None:
    q = Quantized()
    x = q.data(4, 4, 3)
    made = legal(q, q.fix(q.op("r", "relu", (4, 4, 3), [x]), 4))
    assert made["r"].kind == "eltwise-fix"
    assert made["r"].attrs["nonlinear"] == "RELU"


def test_dense_behind_a_reshape_reads_the_feature_map() -> None:
    q = Quantized()
    x = q.data(3, 5, 7)
    made = legal(q, q.dense(q.reshape(x, "flat", 105), "y", 4))
    assert kinds(made) == {"x": "data-fix", "y": "conv2d-fix", "y_reshaped": "reshape-fix"}
    assert made["y"].attrs["kernel"] == [5, 3]
    assert made[made["y"].inputs["weights"][0]].shape == (4, 3, 5, 7)
    assert made["y"].shape == (1, 1, 1, 4)
    assert tensor_of(made["y_reshaped"]) == "y_fix"


def test_dense_of_a_large_map_reads_the_reshape() -> None:
    q = Quantized()
    x = q.data(17, 2, 3)
    made = legal(q, q.dense(q.reshape(x, "flat", 102), "y", 4))
    assert made["y"].attrs["kernel"] == [1, 1]
    assert made[made["y"].inputs["input"][0]].shape == (1, 1, 1, 102)


def test_concat_inputs_get_the_position_of_the_result() -> None:
    q = Quantized()
    a, b = q.data(2, 2, 3, name="a", point=4), q.data(2, 2, 3, name="b", point=5)
    q.op("cat", "concat", (2, 2, 6), [a, b], axis=-1)
    made = legal(q, q.fix("cat", 4))
    assert made["cat"].inputs["input"] == ["a", "cat_part1"]
    assert made["cat_part1"].kind == "eltwise-fix"
    assert made["cat"].attrs["axis"] == 3


def test_float_ops_stay_between_conversions() -> None:
    q = Quantized()
    x = q.data(2, 2, 3)
    made = legal(q, q.fix(q.op("s", "sigmoid", (2, 2, 3), [x]), 7))
    assert kinds(made) == {
        "x": "data-fix", "x_fix_fix2float": "fix2float", "s": "sigmoid",
        "s_fix_float2fix": "float2fix",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "size", "stride", "pad"),
    [
        ("FLOOR", 8, 2, [0, 0, 0, 0]),
        ("SAME", 8, 1, [1, 1, 1, 1]),
        ("SAME", 8, 2, [0, 1, 0, 1]),
        ("CEIL", 8, 2, [0, 1, 0, 1]),
        ("CEIL", 7, 2, [0, 0, 0, 0]),
    ],
)
def test_pad_modes_become_explicit(mode: str, size: int, stride: int, pad: list[int]) -> None:
    attrs = {"kernel": [3, 3], "stride": [stride] * 2, "pad_mode": mode}
    node = Node("n", "conv2d", TensorType(()), attrs=attrs)
    assert explicit_pad(node, (1, size, size, 3)) == pad


def test_outputs_that_pass_something_on() -> None:
    """Each has its own name, also where the bytes are those of an input or of another output."""
    q = Quantized()
    x = q.data(4, 3, 5, point=5)
    same = q.reshape(x, "same", 4, 3, 5, point=5)
    y = q.conv(x, "conv", 6, kernel=1)
    again = q.reshape(y, "again", 4, 3, 6, point=4)
    compiled = compile_and_check(q.done(x, same, y, again))
    names = {"x_fix", "same_fix", "conv_fix", "again_fix"}
    assert names <= {op.get_output_tensor().name for op in compiled.graph.get_ops()}


def test_networks_of_any_depth() -> None:
    q = Quantized()
    x = q.data(1, 1, 8)
    for i in range(400):
        before, x = x, q.conv(x, f"c{i}", 8, kernel=1, act="relu" if i % 2 else None)
        x = x if i % 3 else q.add([x, before], f"a{i}")
    made = legal(q, x)
    assert sum(node.kind == "conv2d-fix" for node in made) == 400
    for i in range(1500):  # in float
        x = q.graph.add(f"f{i}", "sigmoid", (1, 1, 1, 8), {"input": [x]}).name
        x = x if i % 4 else q.fix(x, 5)
    made = legal(q, q.fix(x, 5))
    assert sum(node.kind == "sigmoid" for node in made) == 1500
    assert [node.kind for node in made][-1] == "float2fix"


@pytest.mark.parametrize("kind", ["conv", "sigmoid", "add"])
def test_networks_may_be_deep(kind: str) -> None:
    """A network of hundreds of ops, one behind the other: MambaOut has more than recursion took."""
    q = Quantized()
    x = q.data(1, 1, 2)
    for number in range(500):
        name = f"n{number}"
        if kind == "conv":
            x = q.conv(x, name, 2, kernel=1)
        else:
            x = q.fix(q.op(name, kind, (1, 1, 2), [x] if kind == "sigmoid" else [x, x]), 5)
    q.graph.outputs = [x]
    made = legalize(q.graph, tables=True)
    fixed = {"conv": "conv2d-fix", "sigmoid": "table-fix", "add": "eltwise-fix"}[kind]
    assert list(kinds(made).values()).count(fixed) == 500
