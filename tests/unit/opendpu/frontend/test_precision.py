# SPDX-License-Identifier: Apache-2.0
"""Networks in half and double precision are the same networks, and the DPU's."""

import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from opendpu.api import compile_graph
from opendpu.frontend import load_onnx
from opendpu.frontend.precision import in_single_precision
from opendpu.frontend.source import PRECISION
from opendpu.ir import NOTES, FloatGraph
from opendpu.ops.foreign import KIND
from opendpu.ops.session import Session
from opendpu.quantize import quantize

HALF, DOUBLE, SINGLE = TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.FLOAT
SHAPE = (1, 3, 12, 10)


def model(kind: int, ports: int | None = None, *, domain: str = "") -> onnx.ModelProto:
    """Return two convolutions, a product and a constant of one precision; ports may be another."""
    rng = np.random.default_rng(3)
    dtype, ports = helper.tensor_dtype_to_np_dtype(kind), kind if ports is None else ports
    weights = {
        "w1": rng.normal(0, 0.3, (8, 3, 3, 3)), "w2": rng.normal(0, 0.2, (8, 8, 3, 3)),
        "w3": rng.normal(0, 0.3, (8, 5)),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("Cast", ["image"], ["x"], to=kind),
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        node("Constant", [], ["six"], value=numpy_helper.from_array(np.array(6, dtype))),
        node("Clip", ["a", "", "six"], ["b"]),
        node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["d"]),
        node("ReduceMean", ["d"], ["e"], axes=[2, 3], keepdims=0),
        node("MatMul", ["e", "w3"], ["f"]),
        node("Cast", ["f"], ["scores"], to=ports),
    ]
    if domain:
        nodes.insert(0, node("Strange", ["x"], ["ignored"], domain=domain))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("image", ports, SHAPE)],
        [helper.make_tensor_value_info("scores", ports, (1, 5))],
        [numpy_helper.from_array(w.astype(dtype), name) for name, w in weights.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def image(seed: int, dtype: np.dtype) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, SHAPE).astype(dtype)


def float_results(graph: FloatGraph, x: np.ndarray) -> np.ndarray:
    given = x.astype(np.float32).transpose(graph.attrs["onnx_order"]["image"])
    return Session(graph).run({"image": given})["scores"]


PORTS = [(HALF, HALF), (HALF, SINGLE), (DOUBLE, DOUBLE), (DOUBLE, HALF)]


@pytest.mark.parametrize(("kind", "ports"), PORTS)
def test_it_is_the_network_in_single_precision(kind: int, ports: int) -> None:
    proto = model(kind, ports)
    x = image(0, helper.tensor_dtype_to_np_dtype(ports))
    graph = load_onnx(proto)
    assert {node.type.dtype.name for node in graph} == {"float32"}
    assert all(node.kind != KIND for node in graph)
    declared = helper.tensor_dtype_to_np_dtype(ports).name
    assert PRECISION in graph.attrs[NOTES]
    wanted = {} if ports == SINGLE else {"image": declared, "scores": declared}
    assert graph.attrs.get("onnx_dtype", {}) == wanted
    expected = ReferenceEvaluator(proto).run(None, {"image": x})[0].astype(np.float32)
    np.testing.assert_allclose(float_results(graph, x), expected, rtol=5e-3, atol=5e-3)


def test_bfloat16_whose_weights_are_rounded() -> None:
    """onnxruntime's CPU has no convolution of bfloat16: the same weights in float32 do for it."""
    proto = model(TensorProto.BFLOAT16, SINGLE)
    graph = load_onnx(proto)
    single = model(SINGLE)
    weights = {item.name: numpy_helper.to_array(item) for item in proto.graph.initializer}
    for item in single.graph.initializer:
        item.CopyFrom(numpy_helper.from_array(weights[item.name].astype(np.float32), item.name))
    x = image(1, np.dtype(np.float32))
    expected = onnxruntime.InferenceSession(single.SerializeToString()).run(None, {"image": x})[0]
    np.testing.assert_allclose(float_results(graph, x), expected, rtol=1e-4, atol=1e-5)


def test_the_dpu_computes_all_of_it() -> None:
    graph = load_onnx(model(HALF))
    samples = np.concatenate([image(seed, np.dtype(np.float16)) for seed in range(4)])
    report = compile_graph(quantize(graph, {"image": samples}), target="B512").report
    assert [p.device for p in report.subgraphs if p.device != "USER"] == ["DPU"]


def test_weights_in_a_file_of_their_own(tmp_path: pathlib.Path) -> None:
    proto = model(HALF)
    path = tmp_path / "half.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights", size_threshold=0)
    x = image(2, np.dtype(np.float16))
    np.testing.assert_array_equal(
        float_results(load_onnx(path), x), float_results(load_onnx(model(HALF)), x)
    )


def test_bodies_of_control_flow_too() -> None:
    info, node = helper.make_tensor_value_info, helper.make_node
    weight = numpy_helper.from_array(np.full((4, 4), 0.25, np.float16), "w")
    inner = helper.make_graph(
        [node("MatMul", ["x", "w"], ["y"])], "then", [], [info("y", HALF, None)], [weight]
    )
    other = helper.make_graph([node("Identity", ["x"], ["z"])], "else", [], [info("z", HALF, None)])
    graph = helper.make_graph(
        [node("If", ["yes"], ["out"], then_branch=inner, else_branch=other)], "g",
        [info("x", HALF, (2, 4)), info("yes", TensorProto.BOOL, ())], [info("out", HALF, (2, 4))],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for yes in (True, False):
        expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(
            None, {"x": x.astype(np.float16), "yes": np.array(yes)}
        )[0]
        found = Session(load_onnx(proto)).run({"x": x, "yes": np.array([yes])})["out"]
        np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_without_layers_types_stay() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (double[4] x) => (double[4] y) { y = Exp(x) }'
    )
    graph = load_onnx(proto)
    assert graph["y"].type.dtype == np.float64
    assert "onnx_dtype" not in graph.attrs


def test_operators_of_strangers_keep_their_types() -> None:
    assert in_single_precision(model(HALF)) is not None
    assert in_single_precision(model(HALF, domain="com.stranger")) is None
