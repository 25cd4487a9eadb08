# SPDX-License-Identifier: Apache-2.0
"""ONNX models full of operators that only move data: nothing of them is left to the CPU."""

import pathlib
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from oracle import evaluate_quantized

from opendpu import api
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner

pytestmark = pytest.mark.system


class Model:
    """An ONNX model in the making, with seeded weights."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.random = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, values: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def __call__(self, kind: str, *inputs: str | np.ndarray, **attrs: object) -> str:
        names = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [name], name=name, **attrs))
        return name

    def conv(self, source: str, inputs: int, outputs: int, kernel: int = 3) -> str:
        weights = self.random.normal(size=(outputs, inputs, kernel, kernel)) / kernel
        pads = [kernel // 2] * 4
        return self("Conv", source, weights.astype(np.float32), pads=pads)

    def save(self, path: pathlib.Path, output: str, kind: int = onnx.TensorProto.FLOAT) -> None:
        graph = helper.make_graph(
            self.nodes, "model",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(output, kind, None)], self.constants,
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        onnx.save(made, path)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def super_resolution(m: Model) -> str:
    a = m.conv("x", 3, 8)
    b = m.conv(m("SpaceToDepth", a, blocksize=2), 32, 27)
    c = m.conv(m("DepthToSpace", b, blocksize=3, mode="CRD"), 3, 4)
    return m("DepthToSpace", c, blocksize=2, mode="DCR")


def pyramid(m: Model) -> str:
    a = m("Relu", m.conv("x", 3, 8))
    b = m("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2])
    b = m("Relu", m.conv(b, 8, 12))
    nearest = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    up = m("Resize", b, "", np.array([1, 1, 2, 2], np.float32), mode="nearest", **nearest)
    return m.conv(m("Concat", up, a, axis=1), 20, 5)


def segmentation(m: Model) -> str:
    a = m.conv("x", 3, 6)
    b = m("MaxPool", a, kernel_shape=[4, 4], strides=[4, 4])
    b = m.conv(b, 6, 10)
    up = m("Resize", b, "", np.array([1, 1, 4, 4], np.float32), mode="linear",
           coordinate_transformation_mode="half_pixel")  # fmt: skip
    return m("ArgMax", m.conv(up, 10, 7, kernel=1), axis=1, keepdims=0)


def style(m: Model) -> str:
    a = m.conv(m("Pad", "x", ints(0, 0, 2, 3, 0, 0, 3, 2), mode="reflect"), 3, 8)
    b = m("Slice", a, ints(0, 1), ints(6, 14), ints(1, 2), ints(1, 2))
    c = m("Pad", b, ints(0, 0, 1, 1, 0, 0, 1, 1), np.float32(0))
    return m("ReduceMax", m.conv(c, 6, 9), axes=[1])


def shuffle(m: Model) -> str:
    a = m.conv("x", 3, 12, kernel=1)
    b = m("Transpose", m("Reshape", a, ints(1, 3, 4, 12, 12)), perm=[0, 2, 1, 3, 4])
    c = m.conv(m("Reshape", b, ints(1, 12, 12, 12)), 12, 12)
    left, right = (m("Slice", c, ints(s), ints(s + 6), ints(1)) for s in (0, 6))
    return m("ReduceMean", m("Concat", right, left, axis=1), axes=[2, 3], keepdims=0)


@pytest.mark.parametrize("target", ["B512", "B4096"])
@pytest.mark.parametrize("make", [super_resolution, pyramid, segmentation, style, shuffle])
def test_all_of_it_is_on_the_dpu(
    make: Callable[[Model], str], target: str, tmp_path: pathlib.Path
) -> None:
    model = Model(1, 3, 12, 12)
    output = make(model)
    kind = onnx.TensorProto.INT64 if make is segmentation else onnx.TensorProto.FLOAT
    model.save(tmp_path / "model.onnx", output, kind)
    graph = load_onnx(tmp_path / "model.onnx")
    (head,) = (node for node in graph if node.kind == "data")
    samples = np.random.default_rng(0).normal(size=(4, 12, 12, 3)).astype(np.float32)
    quantized = quantize(graph, {head.name: samples})
    compiled = api.compile_graph(quantized, target=target)
    assert all(graph[name].kind == "cast" for name in compiled.report.on_cpu)  # of an index
    assert [s.device for s in compiled.report.subgraphs].count("DPU") == 1
    with GraphRunner(compiled.graph, device="iss", check=True, schedule_seed=2) as runner:
        (first,) = runner.get_input_tensors()
        given = {first.name: np.random.default_rng(1).integers(-128, 128, first.dims, np.int8)}
        found = runner.run(given)
    wanted = evaluate_quantized(quantized, given)
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)
