# SPDX-License-Identifier: Apache-2.0
"""The MLPerf Tiny networks: the converted graphs give what onnxruntime gives."""

from collections import Counter

import numpy as np
import onnxruntime
import pytest
from oracle import evaluate_float

from opendpu.frontend import load_onnx
from opendpu.ir import to_xir

LAYERS = {
    "kws_dscnn": {"conv2d": 5, "depthwise-conv2d": 4, "avgpool2d": 1, "inner-product": 1},
    "ic_resnet8": {"conv2d": 9, "add": 3, "avgpool2d": 1, "inner-product": 1},
    "vww_mobilenetv1_025": {"conv2d": 14, "depthwise-conv2d": 13, "inner-product": 1},
    "ad01": {"inner-product": 10},
}


@pytest.mark.parametrize("name", LAYERS)
def test_network(models, rng, name):
    path = models / "mlperf_tiny" / f"{name}.onnx"
    graph = load_onnx(path)
    to_xir(graph)  # every op is as XIR defines it
    counts = Counter(node.kind for node in graph)
    assert {kind: counts[kind] for kind in LAYERS[name]} == LAYERS[name]
    assert not counts["transpose"]
    session = onnxruntime.InferenceSession(str(path))
    (item,) = session.get_inputs()
    x = rng.standard_normal([3, *item.shape[1:]]).astype(np.float32)
    (expected,) = session.run(None, {item.name: x})
    found = evaluate_float(graph, {item.name: x})
    np.testing.assert_allclose(found["Identity"], expected, rtol=1e-4, atol=1e-4)
