# SPDX-License-Identifier: Apache-2.0
"""Maxima and minima of feature maps, and weighted sums of pixels: the same numbers, on the DPU."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.parser import parse_model

from opendpu.compiler.pipeline import compile_with_report
from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph, Graph
from opendpu.ops.session import Session
from opendpu.quantize import QuantizeConfig, quantize
from opendpu.quantize.transforms.extrema import extrema
from opendpu.quantize.transforms.fold import fold
from opendpu.quantize.transforms.weighted_sums import weighted_sums
from opendpu_arch.target import Target

SHAPES = {"w": (6, 3, 3, 3), "v": (6, 3, 3, 3), "d": (12, 3, 3, 3), "q": (1, 6, 1, 1),
          "last": (6, 4)}  # fmt: skip
TWO = """a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)  b0 = Relu (a)
  b = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, v)"""
HALVES = """c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, d)
  a, b = Split <axis = 1> (c, halves)"""
END = "p = GlobalAveragePool (m)  f = Flatten (p)  y = MatMul (f, last)"


def model(body: str, rng: np.random.Generator) -> onnx.ModelProto:
    proto = parse_model(f"""<ir_version: 9, opset_import: ["" : 17]>
        g (float[1, 3, 9, 7] x) => (float[1, 4] y)
        <int64[2] halves = {{6, 6}}, int64[3] flat = {{1, 6, 63}}, int64[3] row = {{1, 1, 63}},
         int64[1] two = {{2}}, int64[1] one = {{1}}> {{ {body} }}""")
    for name, shape in SHAPES.items():
        values = rng.standard_normal(shape).astype(np.float32) * 0.3
        proto.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return proto


def check(proto: onnx.ModelProto, graph: Graph, rng: np.random.Generator) -> None:
    """Check that a graph computes what onnxruntime does."""
    x = rng.standard_normal((1, 3, 9, 7)).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    (found,) = Session(graph).run({"x": x.transpose(0, 2, 3, 1)}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def kinds(graph: FloatGraph) -> list[str]:
    return [node.kind for node in graph if node.kind not in ("const", "data", "reshape")]


@pytest.mark.parametrize("op", ["Max", "Min"])
@pytest.mark.parametrize(
    ("body", "layers"), [(f"{TWO}  m = {{}} (a, b)", 2), (f"{TWO}  m = {{}} (b0, b, a)", 2),
                         (f"{HALVES}  m = {{}} (a, b)", 2)],
)  # fmt: skip
def test_extrema_of_maps_are_pools(op: str, body: str, layers: int, rng) -> None:
    proto = model(f"{body.format(op)}  {END}", rng)
    graph = load_onnx(proto)
    assert extrema(graph)
    fold(graph)
    check(proto, graph, rng)
    found = kinds(graph)
    assert not {"max", "min", "strided_slice", "scale"} & set(found)
    assert found.count("maxpool2d") == 1
    assert found.count("conv2d") == layers


def test_halves_that_others_read_are_slices_still(rng) -> None:
    proto = model(f"{HALVES}  n = Max (a, b)  m = Add (n, a)  {END}", rng)
    graph = load_onnx(proto)
    assert extrema(graph)
    check(proto, graph, rng)
    assert kinds(graph).count("conv2d") == 2  # the sum reads the layer of its half

    proto = model(f"{HALVES}  n = Max (a, b)  s = ReduceMax (c, one)  m = Add (n, s)  {END}", rng)
    proto.opset_import[0].version = 18
    graph = load_onnx(proto)
    assert extrema(graph)
    check(proto, graph, rng)
    assert kinds(graph).count("conv2d") == 1


def test_extrema_with_one_number_a_pixel_stay(rng) -> None:
    proto = model(f"{TWO}  r = ReduceMax <axes = [1]> (a)  m = Max (b, r)  {END}", rng)
    graph = load_onnx(proto)
    assert not extrema(graph)


ATTENTION = """a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)  b = Relu (a)
  s = Conv (b, q)  r = Reshape (s, row)  p = Softmax <axis = 2> (r)  u = Reshape (b, flat)
  m = Mul ({})  z = ReduceSum <keepdims = 0> (m, {})"""


@pytest.mark.parametrize("operands", ["u, p", "p, u"])
def test_weighted_sums_of_pixels_are_products(operands: str, rng) -> None:
    proto = model(f"{ATTENTION.format(operands, 'two')}  y = MatMul (z, last)", rng)
    graph = load_onnx(proto)
    weighted_sums(graph)
    check(proto, graph, rng)
    assert kinds(graph).count("matmul") == 1
    assert not {"mul", "reduction_sum"} & set(kinds(graph))


def test_sums_over_channels_stay(rng) -> None:
    end = "k = ReduceMean <axes = [1], keepdims = 0> (b)  n = GlobalAveragePool (a)"
    body = f"{ATTENTION.format('u, p', 'one')}  {end}  e = Flatten (n)"
    proto = model(f"{body}  t = ReduceMax <keepdims = 1> (z)  o = Add (e, t)"
                  "  y = MatMul (o, last)", rng)  # fmt: skip
    graph = load_onnx(proto)
    before = kinds(graph).count("mul")
    weighted_sums(graph)
    assert kinds(graph).count("mul") == before


def test_all_but_the_softmax_is_the_dpus(rng) -> None:
    body = ATTENTION.replace("b = Relu (a)", "k = Relu (a)  b = Max (k, e)")
    body = f"e = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, v)  {body}"
    proto = model(f"{body.format('u, p', 'two')}  y = MatMul (z, last)", rng)
    samples = rng.standard_normal((4, 9, 7, 3)).astype(np.float32)
    target = Target.from_name("B512")
    config = QuantizeConfig(target=target, cross_layer=False, weight_correction=False)
    graph = quantize(load_onnx(proto), {"x": samples}, config)
    report = compile_with_report(graph, target).report
    assert set(report.on_cpu) == {"p", "s_reshape"}
