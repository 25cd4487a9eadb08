# SPDX-License-Identifier: Apache-2.0
"""Frames, views and persons in the batch: a layer for each map, and the same numbers."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from opendpu.compiler.pipeline import compile_with_report
from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.ops.session import Session
from opendpu.quantize import quantize
from opendpu.quantize.transforms.inner_samples import MOST_MAPS, take_apart
from opendpu_arch.target import Target

FRAMES = """
<ir_version: 10, opset_import: ["": 17]>
g (float[{inputs}] x) => (float[N] y) {{
  b = Reshape(x, maps) c = Conv<pads=[1,1,1,1]>(b, w) r = Relu(c) {body}
}}
"""


def net(body, rng, count=3, inputs="1,{count},2,6,8", **weights) -> FloatGraph:
    """Return the graph of a convolution over several maps, ``r``, and what is behind it."""
    text = FRAMES.format(inputs=inputs.format(count=count), body=body)
    model = onnx.parser.parse_model(text)
    weights |= {"maps": np.array([count, 2, 6, 8]), "w": rng.standard_normal((4, 2, 3, 3)) / 3}
    for name, value in weights.items():
        if name in text:
            kept = value if value.dtype == np.int64 else value.astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(kept, name))
    return load_onnx(model)


BODIES = {
    "a residual": "d = Conv<pads=[1,1,1,1]>(r, v) s = Sigmoid(d) p = Mul(d, s) y = Add(p, r)",
    "a gate": "m = GlobalAveragePool(r) d = Conv(m, u) s = Sigmoid(d) y = Mul(r, s)",
    "pools": "p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r) q = AveragePool<kernel_shape=[3,2]>"
             "(p) y = Concat<axis=1>(q, q)",
    "a transposed convolution": "y = ConvTranspose<strides=[2,2], kernel_shape=[3,3]>(r, v)",
    "pixels of a shuffle": "d = DepthToSpace<blocksize=2>(r) y = Pad(d, amounts)",
    "a mean of the maps": "m = ReduceMean<axes=[0], keepdims=1>(r) y = Relu(m)",
    "another map for all": "h = ReduceMax<axes=[0], keepdims=1>(r) a = Add(r, h) "
                           "y = Conv<pads=[1,1,1,1]>(a, v)",
    "a constant for each": "a = Mul(r, each) y = MaxPool<kernel_shape=[2,2]>(a)",
}  # fmt: skip


@pytest.mark.parametrize("what", BODIES)
def test_maps_of_a_batch_are_layers_of_their_own(what, rng):
    graph = net(
        BODIES[what], rng, v=rng.standard_normal((4, 4, 3, 3)), u=rng.standard_normal((4, 4, 1, 1)),
        amounts=np.array([0, 0, 1, 2, 0, 0, 0, 1]), each=rng.standard_normal((3, 1, 1, 1)),
    )  # fmt: skip
    x = rng.standard_normal(graph["x"].shape).astype(np.float32)
    (before,) = Session(graph).run({"x": x}).values()
    assert take_apart(graph)
    (found,) = Session(graph).run({"x": x}).values()
    assert found.shape == before.shape
    np.testing.assert_allclose(found, before, rtol=1e-4, atol=1e-5)
    layers = [node for node in graph if "conv2d" in node.kind or "pool2d" in node.kind]
    assert len(layers) >= 3
    assert all(node.shape[0] == 1 for node in layers)


@pytest.mark.parametrize(("count", "inputs"), [(MOST_MAPS + 1, "1,{count},2,6,8"), (3, "3,2,6,8")])
def test_many_maps_and_batches_of_samples_stay(count, inputs, rng):
    graph = net("y = Relu(r)", rng, count, inputs)
    kinds = [node.kind for node in graph]
    assert not take_apart(graph)
    assert [node.kind for node in graph] == kinds


@pytest.mark.parametrize("target", ["B512", "B512+table"])
def test_frames_are_one_part_of_the_dpu(target, rng):
    graph = net("m = GlobalAveragePool(r) f = Reshape(m, flat) y = MatMul(f, k)", rng,
                flat=np.array([1, 12]), k=rng.standard_normal((12, 5)))  # fmt: skip
    calib = {"x": rng.standard_normal((3, 3, 2, 6, 8)).astype(np.float32)}
    found = Target.from_name(target)
    quantized = quantize(graph, calib, target=found)
    report = compile_with_report(quantized, found).report
    assert [part.device for part in report.subgraphs if part.device != "USER"] == ["DPU"]
