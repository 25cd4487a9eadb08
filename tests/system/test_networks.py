# SPDX-License-Identifier: Apache-2.0
"""Networks that people have: they compile, and their DPU parts are bit-exact.

Small inputs, so that they take seconds; the full sizes are on the page of networks.
"""

import importlib
import importlib.metadata
import pathlib
import sys
import types

import numpy as np
import pytest

from opendpu import api
from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.quantize import quantize

sys.path.append(str(pathlib.Path(__file__).parent))

from dpu_parts import check_parts

pytestmark = pytest.mark.system

QUICK = {
    "fsrcnn": 24, "espcn": 24, "unet": 32, "logmelcnn": 4000, "m5": 2000,
    "crnn": 36,
}  # fmt: skip
"""Sizes of networks, in every run of the tests."""
SLOW = {
    "resnet50": 64, "mobilenetv1": 64, "mobilenetv2": 64, "mobilenetv3": 32, "squeezenet": 64,
    "vgg16": 32, "inceptionv3": 96, "yolov3": 64, "efficientnetb0": 64, "convnexttiny": 32,
    "vittiny": 32, "swintiny": 64, "yolov8n": 64, "yoloxtiny": 64, "deeplabv3": 64,
}  # fmt: skip
TARGETS = ("B512", "B4096")


@pytest.fixture
def networks(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    return importlib.import_module("networks")


def samples_of(graph: FloatGraph, count: int) -> dict[str, np.ndarray]:
    """Return random samples for every input of a network: normal ones, or bytes."""
    rng = np.random.default_rng(0)
    samples = {}
    for node in (node for node in graph if node.kind == "data"):
        shape = (count, *node.shape[1:])
        if node.type.dtype.kind == "f":
            samples[node.name] = rng.standard_normal(shape, np.float32)
        else:
            samples[node.name] = rng.integers(0, 256, shape).astype(node.type.dtype)
    return samples


def check(graph: FloatGraph, seed: int, count: int = 2) -> None:
    """Quantize a network, compile it for both targets, and compare its DPU parts."""
    quantized = quantize(graph, samples_of(graph, count), refinement=False)
    for target in TARGETS:
        compiled = api.compile_graph(quantized, target=target)
        assert check_parts(quantized, compiled, seed) > 0


def test_every_network_is_tested(networks: types.ModuleType) -> None:
    assert QUICK.keys() | SLOW.keys() == networks.NETWORKS.keys()


@pytest.mark.parametrize("name", QUICK)
def test_network(networks: types.ModuleType, name: str, rng: np.random.Generator) -> None:
    check(load_onnx(networks.NETWORKS[name](QUICK[name])), int(rng.integers(1 << 31)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_larger_network(networks: types.ModuleType, name: str, rng: np.random.Generator) -> None:
    check(load_onnx(networks.NETWORKS[name](SLOW[name])), int(rng.integers(1 << 31)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["nudenet", "ppocr-det", "ppocr-rec", "ppocr-cls", "ddddocr", "ddddocr-det", "magika"]
)
def test_trained_network(networks: types.ModuleType, name: str, rng: np.random.Generator) -> None:
    packaged = importlib.import_module("networks.packaged")
    chosen = packaged.PACKAGED[name]
    try:
        path = chosen.path()
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"the package {chosen.package} is not installed (extra 'networks')")
    graph = load_onnx(path, chosen.small or chosen.sizes)
    check(graph, int(rng.integers(1 << 31)))
