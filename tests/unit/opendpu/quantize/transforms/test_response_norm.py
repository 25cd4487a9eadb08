# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt V2's normalization in parts: the same in float, and near it in integers."""

import dataclasses

import numpy as np
import onnx
import pytest

from opendpu.api import compile_graph
from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.ops.session import Session
from opendpu.quantize import QuantizeConfig, quantize
from opendpu.quantize.samples import calibration_samples
from opendpu.quantize.transforms.response_norm import is_response_norm
from opendpu.quantize.transforms.tabulate import tabulate
from opendpu_arch.target import Target

TABLES = QuantizeConfig(
    target=Target.from_name("B512+table"), cross_layer=False, bias_correction=False,
    weight_correction=False, refinement=False,
)  # fmt: skip
CHANNELS, SIZE = 24, 12
TEXT = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 6, 12, 12] x) => (float[1, 8, 12, 12] y) {{
        c = Conv <kernel_shape = [1, 1]> (x, w1, b1)
        f = Relu(c)
        a = Transpose <perm = [0, 2, 3, 1]> (f)
        l = ReduceL2 <axes = [{axes}], keepdims = 1> (a)
        m = ReduceMean <axes = [3], keepdims = 1> (l)
        e = Add(m, epsilon)
        op = Div({divided}, {divisor})
        n = Mul(a, op)
        s = Mul(n, gamma)
        t = Add(s, beta)
        r = Add(t, a)
        b = Transpose <perm = [0, 3, 1, 2]> (r)
        y = Conv <kernel_shape = [1, 1]> (b, w2)
    }}"""


def network(
    spread: float = 1.0,
    *,
    axes: str = "1, 2",
    divided: str = "l",
    divisor: str = "e",
    bias: float = 1.0,
) -> FloatGraph:
    """Return a response normalization between two convolutions of one pixel."""
    rng = np.random.default_rng(3)
    proto = onnx.parser.parse_model(TEXT.format(axes=axes, divided=divided, divisor=divisor))
    factors = np.geomspace(1, spread, CHANNELS)[:, None, None, None]
    arrays = {
        "w1": factors * rng.standard_normal((CHANNELS, 6, 1, 1)),
        "b1": bias * factors.ravel() * rng.standard_normal(CHANNELS), "epsilon": np.array(1e-6),
        "gamma": rng.normal(0, 0.5, CHANNELS),
        "beta": rng.normal(0, 0.2, CHANNELS),
        "w2": rng.standard_normal((8, CHANNELS, 1, 1)) / 5,
    }  # fmt: skip
    for name, value in arrays.items():
        proto.graph.initializer.append(
            onnx.numpy_helper.from_array(np.asarray(value, np.float32), name)
        )
    return load_onnx(proto)


def images(count: int = 6, low: float = 0.5) -> np.ndarray:
    """Return images of different contrast, NHWC."""
    rng = np.random.default_rng(4)
    contrast = np.linspace(low, 1, count)[:, None, None, None]
    return (contrast * rng.standard_normal((count, SIZE, SIZE, 6))).astype(np.float32)


def computed(graph: FloatGraph, values: np.ndarray) -> np.ndarray:
    (found,) = Session(graph, keep=graph.outputs, batched=True).run({"x": values}).values()
    return np.asarray(found)


def noise(wanted: np.ndarray, found: np.ndarray) -> float:
    return float(10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum()))


@pytest.mark.parametrize("spread", [1.0, 20.0])
def test_it_is_the_same_in_float(spread):
    graph, values = network(spread), images()
    wanted = computed(graph, values)
    given = values.transpose(0, 3, 1, 2)
    names, _ = tabulate(graph, calibration_samples(graph, {"x": given}), TABLES)
    assert names == ["op"]
    assert not [node.name for node in graph if node.kind == "div"]
    np.testing.assert_allclose(computed(graph, values), wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(("spread", "low"), [(1.0, 0.5), (20.0, 0.5), (1.0, 0.3), (1.0, 0.1)])
def test_it_loses_little_against_the_cpu(spread, low):
    graph, values = network(spread), images(low=low)
    wanted, given = computed(graph, values), {"x": values.transpose(0, 3, 1, 2)}
    plain = dataclasses.replace(TABLES, target=Target.from_name("B512"))
    parts, whole = (quantize(graph.copy(), given, config) for config in (TABLES, plain))
    assert not [node.name for node in parts if node.kind == "div"]
    assert noise(wanted, computed(parts, values)) > noise(wanted, computed(whole, values)) - 1


def test_one_part_of_the_dpu():
    quantized = quantize(network(), {"x": images().transpose(0, 3, 1, 2)}, TABLES)
    compiled = compile_graph(quantized, target="B512+table")
    assert [part.device for part in compiled.report.subgraphs] == ["USER", "DPU"]


def test_images_that_differ_too_much_stay_in_float():
    graph, values = network(bias=0.0), images(low=0.01)
    names, _ = tabulate(
        graph, calibration_samples(graph, {"x": values.transpose(0, 3, 1, 2)}), TABLES
    )
    assert not names
    assert (
        "the variances of its images differ by more than a factor of 64, for" in graph["op"].reason
    )


@pytest.mark.parametrize(
    "changed", [{"axes": "3"}, {"divided": "m", "divisor": "e"}, {"divided": "e", "divisor": "l"}]
)
def test_other_quotients_are_none(changed):
    graph = network(**changed)
    assert is_response_norm(network(), network()["op"])
    assert not is_response_norm(graph, graph["op"])


def test_a_plain_target_keeps_the_operators():
    graph = network()
    plain = QuantizeConfig(target=Target.from_name("B512"))
    given = images().transpose(0, 3, 1, 2)
    assert tabulate(graph, calibration_samples(graph, {"x": given}), plain)[0] == []
