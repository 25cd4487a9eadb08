# SPDX-License-Identifier: Apache-2.0
"""Quantized values that bodies of If read: a stock onnxruntime opens and computes the file."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.export import to_onnx
from opendpu.frontend import load_onnx
from opendpu.quantize import complete, quantize

RUN = """
import sys, numpy, onnxruntime
names = onnxruntime.GraphOptimizationLevel
given = numpy.load("given.npy")
for level in (names.ORT_DISABLE_ALL, names.ORT_ENABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession("model.onnx", options)
    numpy.save(f"{level}.npy", session.run(None, {"x": given})[0])
    print(f"{level}.npy")
"""


def body(name: str, operator: str, inputs: list[str], **attrs: object) -> onnx.GraphProto:
    output = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [None] * 4)
    return helper.make_graph(
        [helper.make_node(operator, inputs, [output.name], **attrs)], name, [], [output]
    )


def network(reads: str) -> onnx.ModelProto:
    """Two convolutions; what one makes is read by a body, directly or with weights."""
    rng = np.random.default_rng(0)
    shapes = {"w1": (8, 3, 3, 3), "w2": (8, 8, 3, 3), "w3": (8, 8, 1, 1)}
    weights = [numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)
               for name, shape in shapes.items()]  # fmt: skip
    weights.append(numpy_helper.from_array(np.float32(0), "zero"))
    pads = {"pads": [1, 1, 1, 1]}
    branches = {
        "products": body("then", "Mul", ["b", "b"]),
        "weights": body("then", "Conv", ["b", "w3"]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], **pads),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], **pads),
        helper.make_node("ReduceSum", ["c"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["large"]),
        helper.make_node(
            "If", ["large"], ["d"], then_branch=branches[reads],
            else_branch=body("else", "Identity", ["b"]),
        ),
        helper.make_node("Add", ["d", "c"], ["y"]),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 8, 8])
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9)


@pytest.mark.parametrize("reads", ["products", "weights"])
def test_bodies_read_quantized_values(reads, tmp_path):
    samples = np.random.default_rng(1).normal(0, 1, (8, 8, 8, 3)).astype(np.float32)
    made = quantize(load_onnx(network(reads)), {"x": samples}, refinement=False)
    model = to_onnx(made)
    assert [n.op_type for n in model.graph.node].count("Max") == 1
    onnx.save(model, tmp_path / "model.onnx")
    given = samples[:1].transpose(0, 3, 1, 2)
    np.save(tmp_path / "given.npy", given)
    done = subprocess.run(  # a failed assertion of onnxruntime ends the process
        [sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-800:]
    plain, optimized = (np.load(tmp_path / name) for name in done.stdout.split())
    np.testing.assert_array_equal(optimized, plain)
    again = to_onnx(complete(load_onnx(model)))
    assert [n.op_type for n in again.graph.node].count("If") == 1
