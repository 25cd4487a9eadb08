# SPDX-License-Identifier: Apache-2.0
"""Trained networks that ship inside packages: converted, they give what onnxruntime gives."""

import importlib.util
import pathlib

import numpy as np
import onnxruntime
import pytest

from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph, to_xir
from opendpu.ops.session import Session

pytestmark = pytest.mark.system

VOICE = {"input": (1, 576), "state": (2, 1, 128)}
NETWORKS = {
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": ({"x": (1, 3, 96, 160)}, ()),
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": (
        {"x": (1, 3, 48, 160)}, ("LayerNormalization",),
    ),
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": (
        {"x": (1, 3, 48, 192)}, (),
    ),
    "nudenet/320n.onnx": ({"height": 320, "width": 320}, ()),
    "magika/models/standard_v3_3/model.onnx": (
        {}, ("Equal", "Expand", "Reciprocal", "Reshape", "Sqrt"),
    ),
    "silero_vad/data/silero_vad.onnx": (VOICE, ("Equal", "If")),
    "silero_vad/data/silero_vad_half.onnx": (VOICE, ("Gather", "LSTM", "Sqrt")),
    "silero_vad/data/silero_vad_16k_op15.onnx": (VOICE, ("Gather", "LSTM", "Mul", "Sqrt")),
    "silero_vad/data/silero_vad_16k_sequence.onnx": ({"input": (7, 576)}, ("LSTM", "Sqrt")),
}  # fmt: skip
"""Files in packages: sizes that they leave open, and operators that stay ONNX."""
RATE = 16000
"""What the voice detectors take as ``sr``."""


def find(name: str) -> pathlib.Path:
    """Return a file in an installed package; the package is not imported."""
    package, _, rest = name.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the package {package} is not installed (extra 'networks')")
    return pathlib.Path(spec.submodule_search_locations[0]) / rest


def inputs_of(graph: FloatGraph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return random numbers for every input, in the graph's order of axes."""
    feeds = {}
    for node in (node for node in graph if node.kind == "data"):
        if node.name == "sr":
            feeds[node.name] = np.full(node.shape, RATE, node.type.dtype)
        elif node.type.dtype.kind == "f":
            feeds[node.name] = rng.standard_normal(node.shape).astype(node.type.dtype)
        else:
            feeds[node.name] = rng.integers(0, 256, node.shape).astype(node.type.dtype)
    return feeds


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str, rng: np.random.Generator) -> None:
    path, (sizes, stay) = find(name), NETWORKS[name]
    graph = load_onnx(path, sizes)
    to_xir(graph)  # every op is as XIR defines it
    assert {node.origin.op_type for node in graph if node.kind == "onnx"} == set(stay)
    order = graph.attrs.get("onnx_order", {})
    feeds = inputs_of(graph, rng)
    found = Session(graph).run(feeds)
    session = onnxruntime.InferenceSession(str(path))
    given = {}
    for item in session.get_inputs():
        array = feeds[item.name]
        straight = array.transpose(np.argsort(order[item.name])) if item.name in order else array
        given[item.name] = straight.reshape(()) if not item.shape else straight
    for output, array in zip(graph.outputs, session.run(None, given), strict=True):
        want = array.transpose(order[output]) if output in order else array
        size = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(found[output], want, rtol=1e-4, atol=1e-5 * size)


def test_activations_of_yolo_are_one_op_each() -> None:
    graph = load_onnx(find("nudenet/320n.onnx"), {"height": 320, "width": 320})
    kinds = [node.kind for node in graph]
    assert kinds.count("swish") == 57
    assert kinds.count("sigmoid") == 1
