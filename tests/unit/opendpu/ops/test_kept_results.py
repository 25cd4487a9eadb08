# SPDX-License-Identifier: Apache-2.0
"""Results that are kept though other operators read them."""

import numpy as np
import onnx
import pytest

from opendpu.frontend import load_onnx
from opendpu.ops.session import Session
from opendpu.quantize import quantize
from opendpu_arch.target import Target

PEAKS = """
<ir_version: 8, opset_import: ["" : 17]>
peaks (float[1, 3, 8, 10] x) => (float[1, 7] y)
<int64[2] shape = {1, 400}, int64[1] seven = {7}>
{
    c = Conv(x, w)
    h = Sigmoid(c)
    p = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (h)
    e = Equal(p, h)
    k = Cast <to = 1> (e)
    m = Mul(h, k)
    f = Reshape(m, shape)
    y, places = TopK(f, seven)
}
"""


@pytest.mark.parametrize("target", ["B4096", "B4096+table"])
def test_all_have_the_axes_of_the_graph(target: str, rng: np.random.Generator) -> None:
    """Peaks of a heat map, as detectors find them: onnxruntime left some as NCHW."""
    model = onnx.parser.parse_model(PEAKS)
    weights = rng.standard_normal((5, 3, 1, 1)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    samples = rng.standard_normal((4, 3, 8, 10)).astype(np.float32)
    graph = quantize(load_onnx(model), {"x": samples}, target=Target.from_name(target))
    kept = [n.name for n in graph if n.kind == "fix" and graph[n.inputs["input"][0]].value is None]
    given = {"x": samples[:1].transpose(0, 2, 3, 1)}
    together = Session(graph, keep=[*kept, *graph.outputs]).run(given)
    for name in kept:
        (alone,) = Session(graph, keep=[name]).run(given).values()
        assert together[name].shape == alone.shape == graph[name].shape
        np.testing.assert_array_equal(together[name], alone)
