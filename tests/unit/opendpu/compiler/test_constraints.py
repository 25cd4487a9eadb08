# SPDX-License-Identifier: Apache-2.0
"""Why an op runs on the CPU, word for word."""

import dataclasses
from collections.abc import Callable

import pytest
from graph_draws import Quantized

from opendpu.compiler.constraints import CONSTRAINTS, reason
from opendpu.compiler.legalize import legalize
from opendpu.compiler.partition import partition
from opendpu.ir import Graph, Node, TensorType
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")  # 8 channels a word


def conv(graph: Graph) -> Node:
    return next(n for n in graph if n.kind == "conv2d-fix")


def legal_conv(**options) -> Graph:
    q = Quantized()
    q.graph.outputs = [q.conv(q.data(6, 6, 16), "conv", 4, **options)]
    return legalize(q.graph)


def set_attrs(**attrs) -> Callable[[Node, Graph], None]:
    return lambda node, graph: node.attrs.update(attrs)


def set_shape(which: str, *shape: int) -> Callable[[Node, Graph], None]:
    def change(node: Node, graph: Graph) -> None:
        target = node if which == "output" else graph[node.inputs[which][0]]
        target.type = target.type.with_shape(shape)

    return change


def set_point(which: str, point: int) -> Callable[[Node, Graph], None]:
    def change(node: Node, graph: Graph) -> None:
        target = node if which == "output" else graph[node.inputs[which][0]]
        target.type = TensorType.int8(target.shape, point)

    return change


def far_apart(node: Node, graph: Graph) -> None:
    node.attrs.update(kernel=[3, 3], dilation=[1, 8], stride=[1, 2])
    set_shape("input", 1, 30, 30, 16)(node, graph)
    set_shape("output", 1, 7, 28, 4)(node, graph)


CASES = {
    "batch": (set_shape("output", 2, 4, 4, 4), "batch to be 1, but it's 2 now"),
    "conv_kernel": (set_attrs(kernel=[17, 3]), '"kernel_width"(17) in 1..16'),
    "conv_stride": (set_attrs(stride=[1, 9]), '"stride_height"(9) in 1..8'),
    "padding": (set_attrs(pad=[3, 0, 0, 0]), '"pad_left"(3) less than "kernel_width"(3)'),
    "padding below": (set_attrs(pad=[0, 0, 0, 3]), '"pad_bottom"(3) less than "kernel_height"(3)'),
    "channels": (set_shape("input", 1, 6, 6, 2049), '"input_channel"(2049) up to 2048'),
    "weights_fit": (
        set_attrs(kernel=[16, 16], pad=[0] * 4, big=True),
        "a kernel of 16x16 with 9 channel groups needs 2304",
    ),
    "nonlinear": (set_attrs(nonlinear="LEAKYRELU"), '"nonlinear"(LEAKYRELU)'),
    "layer_shifts": (set_point("output", 14), '"shift_cut"(-1) in 0..63'),
    "layer_shifts bias": (set_point("bias", 16), '"shift_bias"(-2) in 0..20'),
}  # fmt: skip


def test_dilation_does_not_count_as_kernel() -> None:
    graph = legal_conv()
    node = conv(graph)
    far_apart(node, graph)
    assert reason(node, graph, TARGET) is None


@pytest.mark.parametrize("case", CASES)
def test_reasons_of_convolutions(case: str) -> None:
    change, text = CASES[case]
    graph = legal_conv()
    node = conv(graph)
    target = TARGET
    change(node, graph)
    if node.attrs.get("big"):
        set_shape("input", 1, 20, 20, 72)(node, graph)
    if case == "nonlinear":
        target = dataclasses.replace(TARGET, conv_leaky_relu=False)
    found = reason(node, graph, target)
    assert found is not None
    assert text in found


def test_a_legal_convolution_has_no_reason() -> None:
    graph = legal_conv()
    assert reason(conv(graph), graph, TARGET) is None


def test_other_kinds() -> None:
    q = Quantized()
    x = q.data(4, 4, 3)
    terms = [x] * 5
    q.op("sum", "add", (4, 4, 3), terms)
    y = q.fix("sum", 5)
    constant = q.const("c", 1, 1, 4, 3)
    q.op("more", "add", (4, 4, 3), [y, constant])
    q.op("cat", "concat", (4, 8, 3), [q.fix("more", 5), y], axis=2)
    pool = q.pool(q.fix("cat", 5), "pool", "avgpool2d", 2, stride=300)
    q.graph.outputs = [pool]
    graph = legalize(q.graph)
    reasons = partition(graph, TARGET, {}).reasons
    assert reasons["sum"] == (
        'DPU only supports "input_num"(5) up to 4; several ops with a fix op between would lift '
        "it (XCOM_TOO_MANY_INPUTS)"
    )
    assert reasons["more"] == (
        "DPU only supports add of a feature map and one constant a channel, but "
        '"c" has shape [1, 1, 4, 3] and the feature map [1, 4, 4, 3]; one value a channel '
        "or an element would lift it (XCOM_TENSOR_SHAPE_UNMATCH)"
    )
    assert reasons["cat"] == "no op of the DPU is next to it; one that computes would lift it"
    assert 'DPU only supports "stride_width"(300) in 1..256' in reasons["pool"]


def test_every_constraint_has_a_text() -> None:
    assert len({c.name for c in CONSTRAINTS}) == len(CONSTRAINTS)
    for constraint in CONSTRAINTS:
        assert constraint.text.endswith(".")
        assert constraint.kinds


def test_float_ops_that_the_dpu_would_have() -> None:
    q = Quantized()
    x = q.op("s", "sigmoid", (4, 4, 3), [q.data(4, 4, 3)])
    q.graph.outputs = [q.fix(q.op("r", "relu", (4, 4, 3), [x]), 4)]
    assert partition(legalize(q.graph), TARGET, {}).reasons == {
        "s": "the DPU has no sigmoid (XCOM_OPERATOR_UNUPPORT)",
        "r": 'DPU only supports relu of quantized inputs, but "s" is float; a fix op behind it '
        "would lift it (XCOM_UNSUPPORT_QUANTIZATION)",
    }
