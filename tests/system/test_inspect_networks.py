# SPDX-License-Identifier: Apache-2.0
"""Inspections of networks that people have, without data, against compilations with data.

What may differ is what assumed scales decide; the inspection marks it.
"""

import importlib
import importlib.metadata
import pathlib
import types

import numpy as np
import pytest

from opendpu import api
from opendpu.frontend import load_onnx
from opendpu.inspect import Inspection, inspect_graph
from opendpu.ir import FloatGraph
from opendpu.quantize import quantize

pytestmark = pytest.mark.system

TARGETS = ("B64", "B4096")
MLPERF = ("kws_dscnn.onnx", "vww_mobilenetv1_025.onnx", "ic_resnet8.onnx", "ad01.onnx")
SIZES = {
    "mobilenetv3": 32, "fsrcnn": 24, "espcn": 24, "unet": 32, "logmelcnn": 4000, "m5": 2000,
    "crnn": 36, "squeezenet": 64, "mobilenetv2": 64, "yolov8n": 64,
}  # fmt: skip


def calibrated(graph: FloatGraph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    return {
        node.name: (2 * random.standard_normal((4, *node.shape[1:]))).astype(node.type.dtype)
        for node in graph
        if node.kind == "data"
    }


def check(graph: FloatGraph, target: str) -> Inspection:
    """Compare operators: scales also decide whether ops for other scales go between them."""
    chosen = api.find_target(target)
    found = inspect_graph(graph, chosen)
    quantized = quantize(graph, calibrated(graph), refinement=False)
    real = inspect_graph(quantized, chosen)
    parts = api.compile_graph(quantized, target=chosen).report.subgraphs
    assert real.devices == {name: part.device for part in parts for name in part.ops}
    there = {node.name: node.device for node in real.nodes}
    other = {n.name for n in found.nodes if n.device != there.get(n.name, n.device)}
    assert not other or other & {n.name for n in found.nodes if n.of_scales}, sorted(other)
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("file", MLPERF)
def test_trained_networks(models: pathlib.Path, file: str, target: str) -> None:
    """Nothing of these is a matter of scales."""
    found = check(load_onnx(models / "mlperf_tiny" / file), target)
    assert not any(node.of_scales for node in found.nodes)
    assert all(node.op_type == "Softmax" for node in found.on("CPU"))


@pytest.fixture
def networks(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    return importlib.import_module("networks")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name.startswith("mobilenet") else name
        for name in SIZES
    ],
)
def test_well_known_networks(networks: types.ModuleType, name: str) -> None:
    check(load_onnx(networks.NETWORKS[name](SIZES[name])), "B4096")


def check_packaged(networks: types.ModuleType, name: str) -> None:
    chosen = importlib.import_module("networks.packaged").PACKAGED[name]
    try:
        path = chosen.path()
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"the package {chosen.package} is not installed (extra 'networks')")
    check(load_onnx(path, chosen.small or chosen.sizes), "B4096")


@pytest.mark.parametrize("name", ["nudenet", "ppocr-cls", "magika"])
def test_packaged_networks(networks: types.ModuleType, name: str) -> None:
    check_packaged(networks, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppocr-det", "ppocr-rec", "ddddocr", "ddddocr-det"])
def test_larger_packaged_networks(networks: types.ModuleType, name: str) -> None:
    check_packaged(networks, name)
