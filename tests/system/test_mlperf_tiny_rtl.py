# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny networks on the RTL: every DPU output equals the functional simulator's."""

import functools
import pathlib

import numpy as np
import pytest

import xir
from opendpu import api
from opendpu.frontend import load_onnx
from opendpu.ir import Node
from opendpu.quantize import quantize
from opendpu_arch import numerics

pytestmark = [pytest.mark.system, pytest.mark.cosim]

FILES = {
    "kws": "kws_dscnn.onnx",
    "ic": "ic_resnet8.onnx",
    "vww": "vww_mobilenetv1_025.onnx",
    "ad": "ad01.onnx",
}
LARGEST = {"ic": 255.0, "vww": 1.0, "ad": 4.0}
"""Range of the seeded inputs."""
CLIPS = 20


@functools.cache
def samples(models: pathlib.Path, name: str) -> np.ndarray:
    """Calibration data: keyword clips, seeded noise for the others."""
    if name == "kws":
        data = np.load(models / "mlperf_tiny" / "kws01.npz")
        values = (data["x"].astype(np.float32) - data["zero_point"]) * data["scale"]
        found: np.ndarray = values[:100].astype(np.float32)
        return found
    head = head_of(models, name)
    shape = head.shape[1:]
    noise: np.ndarray = np.random.default_rng(0).random((10, *shape), np.float32)
    return noise * LARGEST[name]


@functools.cache
def head_of(models: pathlib.Path, name: str) -> Node:
    graph = load_onnx(models / "mlperf_tiny" / FILES[name])
    (head,) = (node for node in graph if node.kind == "data")
    return head


@functools.cache
def compiled(models: pathlib.Path, name: str, target: str) -> xir.Graph:
    graph = load_onnx(models / "mlperf_tiny" / FILES[name])
    head = head_of(models, name)
    quantized = quantize(graph, {head.name: samples(models, name)}, refinement=False)
    return api.compile_graph(quantized, target=target).graph


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("target", ["B4096", pytest.param("B512", marks=pytest.mark.slow)])
def test_rtl_equals_iss(models: pathlib.Path, name: str, target: str) -> None:
    graph = compiled(models, name, target)
    count = CLIPS if name == "kws" else 2
    results = {}
    for device in ("iss", "rtl"):
        with api.create_runner(graph, subgraph=0, device=device, memory="kv260") as runner:
            (head,) = runner.get_input_tensors()
            given = numerics.quantize(samples(models, name)[:count], head.get_attr("fix_point"))
            given = given.astype(np.int8).reshape(count, *head.dims[1:])
            results[device], _ = api.run_batch(runner, {head.name: given})
    assert results["iss"].keys() == results["rtl"].keys()
    for key, wanted in results["iss"].items():
        assert wanted.any()
        np.testing.assert_array_equal(results["rtl"][key], wanted)
