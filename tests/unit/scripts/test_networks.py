# SPDX-License-Identifier: Apache-2.0
"""The networks of the benchmarks are what their papers say, and alive."""

import importlib
import pathlib
import types

import numpy as np
import onnx
import onnxruntime
import pytest

import xir
from opendpu.frontend import load_onnx

SMALL = {
    "resnet50": 64, "mobilenetv1": 64, "mobilenetv2": 64, "squeezenet": 64, "vgg16": 32,
    "inceptionv3": 96, "yolov3": 64, "mobilenetv3": 64, "efficientnetb0": 64, "convnexttiny": 64,
    "vittiny": 64, "swintiny": 64, "yolov8n": 64, "yoloxtiny": 64, "deeplabv3": 64, "unet": 32,
    "espcn": 24, "fsrcnn": 24, "crnn": 52, "m5": 2000, "logmelcnn": 4000,
}  # fmt: skip
LARGE = ("vgg16", "yolov3", "resnet50", "inceptionv3")
"""As the rest of them are built, and of more weights."""
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in SMALL]
MACS = {
    "resnet50": 4.09e9, "mobilenetv1": 0.569e9, "mobilenetv2": 0.301e9, "squeezenet": 0.349e9,
    "mobilenetv3": 0.217e9, "efficientnetb0": 0.386e9, "deeplabv3": 3.84e9,
}  # fmt: skip
"""At full size, of those that are built quickly."""
LEAST = 0.05
LEAST_MEAN = 0.01
"""Of averages over channels that are around zero."""


@pytest.fixture
def networks(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "bench"))
    return importlib.import_module("networks")


@pytest.mark.parametrize("name", NAMES)
def test_activations_neither_vanish_nor_explode(networks: types.ModuleType, name: str) -> None:
    model = networks.NETWORKS[name](SMALL[name])
    onnx.checker.check_model(model)
    for node in model.graph.node:  # every activation becomes a result
        model.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (head,) = session.get_inputs()
    image = np.random.default_rng(0).standard_normal(head.shape, np.float32)
    for tensor, array in zip(
        model.graph.output, session.run(None, {head.name: image}), strict=True
    ):
        least = LEAST_MEAN if tensor.name.startswith("reducemean") else LEAST
        assert least < np.abs(array).max() < 2000, tensor.name


def test_every_network_is_tested(networks: types.ModuleType) -> None:
    assert networks.NETWORKS.keys() == SMALL.keys()


@pytest.mark.parametrize("name", NAMES)
def test_shapes_are_those_of_onnx(networks: types.ModuleType, name: str) -> None:
    """What the builder says of every tensor is what ONNX infers."""
    model = networks.NETWORKS[name](SMALL[name])
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    declared = [[d.dim_value for d in o.type.tensor_type.shape.dim] for o in model.graph.output]
    assert [o.shape for o in session.get_outputs()] == declared


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_seeded(networks: types.ModuleType, name: str) -> None:
    build = networks.NETWORKS[name]
    first, second = (build(SMALL[name]).SerializeToString() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", MACS)
def test_multiply_accumulates(networks: types.ModuleType, name: str) -> None:
    graph = load_onnx(networks.NETWORKS[name]())
    bench = importlib.import_module("bench_networks")
    assert bench.macs_of(graph) == pytest.approx(MACS[name], rel=0.01)


def test_the_cache_is_keyed_by_content(
    networks: types.ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    module = importlib.import_module("quantized")
    monkeypatch.setattr(module, "SAMPLES", 1)
    monkeypatch.setattr(module, "quantize", lambda graph, samples, **_: graph)
    monkeypatch.setitem(networks.NETWORKS, "squeezenet", lambda: networks.squeezenet(64))
    made = module.quantized("squeezenet", tmp_path, tmp_path / "cache")
    again = module.quantized("squeezenet", tmp_path, tmp_path / "cache")
    assert made.seconds > 0 == again.seconds
    assert bytes_of(again.graph, tmp_path) == bytes_of(made.graph, tmp_path)
    (kept,) = (tmp_path / "cache").iterdir()
    copy = tmp_path / "quantized.py"
    copy.write_text(pathlib.Path(module.__file__).read_text() + "\n")
    monkeypatch.setattr(module, "__file__", str(copy))
    assert module.quantized("squeezenet", tmp_path, tmp_path / "cache").seconds > 0
    assert len(list((tmp_path / "cache").iterdir())) == 2 and kept.is_file()


def bytes_of(graph: xir.Graph, folder: pathlib.Path) -> bytes:
    graph.serialize(folder / "graph.xmodel")
    return (folder / "graph.xmodel").read_bytes()
