# SPDX-License-Identifier: Apache-2.0
"""Event files: TensorBoard's own reader finds graph, partition, times and images in them."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")
pytest.importorskip("tensorboard", reason="TensorBoard is not installed (opendpu[tensorboard])")

sys.path.append(str(Path(__file__).parent.parent / "pytorch_nndct"))

from frameworks.torch_nets import ResNet, seeded  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import (  # noqa: E402
    EventAccumulator,
)

import wego_torch  # noqa: E402
from OnBoard import SummaryCollector  # noqa: E402
from opendpu_arch.errors import TensorError, ToolError  # noqa: E402


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENDPU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XLNX_TARGET_NAME", "DPUCZDX8G_ISA1_B512")
    net = seeded(ResNet(), 3)
    batches = [torch.randn(2, 3, 16, 16)] * 2
    quantized = wego_torch.quantize(
        net, [[2, 3, 16, 16]], batches, lambda model, batch, *_: model(batch)
    )
    return wego_torch.compile(quantized)


def test_what_tensorboard_reads(module):
    pillow = pytest.importorskip("PIL.Image")
    pillow.new("RGB", (20, 10), (200, 10, 10)).save("photo.png")
    with SummaryCollector("info", comment="resnet") as collector:
        collector.add_platform_info()
        collector.add_graph(module, input_to_model=torch.randn(2, 3, 16, 16))
        collector.add_image("photo", "photo.png", dataformats="HWC")
        collector.add_image("array", np.zeros((3, 4, 5), np.float32), global_step=2)
        with pytest.raises(TensorError, match="an image with 2 axes has no dataformats 'CHW'"):
            collector.add_image("flat", np.zeros((4, 5)))
        with pytest.raises(TensorError, match="Linear has no compiled network"):
            collector.add_graph(torch.nn.Linear(1, 1))
    found = EventAccumulator("info/resnet")
    found.Reload()
    nodes = {node.name: node for node in found.Graph().node}
    assert any(name.startswith("PyTorch/vai.quantized_network") for name in nodes)
    devices = {node.device for node in nodes.values()}
    assert {"/device:DPU:0", "/device:PyTorch:0"} <= devices
    assert all(source in nodes for node in nodes.values() for source in node.input)
    convolution = nodes["network_0/DPU_1/layer1.0.conv1"]
    assert convolution.device == "/device:DPU:0"
    assert any(name.startswith("network_0/DPU_1") for name in convolution.input)
    stats = found.RunMetadata("network_0").step_stats.dev_stats
    times = {one.device: sum(n.all_end_rel_micros for n in one.node_stats) for one in stats}
    assert times["/device:DPU:0"] > 0
    seconds = [tag for tag in found.Tags()["scalars"] if tag.startswith("network_0/seconds/")]
    assert any(len(found.Scalars(tag)) == 2 for tag in seconds), "two samples, two jobs"
    text = found.Tensors("network_0/partition/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "| DPU |" in text
    platform = found.Tensors("platform/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "DPUCZDX8G_ISA1_B512" in platform
    photo = found.Images("photo")[0]
    assert (photo.width, photo.height) == (20, 10)
    assert found.Images("array")[0].step == 2


def test_what_the_examples_of_amd_write():
    pytest.importorskip("PIL.Image")
    photo = torch.full((30, 40, 3), 200, dtype=torch.uint8)
    with SummaryCollector("demo") as collector:
        collector.add_text("Hello", "| a | b |")
        collector.user_command_result("echo DPU")
        with pytest.raises(ToolError, match="command 'exit 3' ended with code 3"):
            collector.user_command_result("exit 3")
        collector.add_image(["dog", "dog"], [photo, photo.numpy()], dataformats="HWC")
        boxes = [np.array([[5.0, 4.0, 20.0, 10.0]]), torch.tensor([[1, 1, 8, 8], [9, 9, 60, 60]])]
        collector.add_image(["found", "found"], [photo, photo], boxes, dataformats="HWC")
        with pytest.raises(TensorError, match="2 tags for 1 images with 2 sets of boxes"):
            collector.add_image(["a", "b"], [photo], dataformats="HWC")
        with pytest.raises(TensorError, match=r"boxes have shape \(4,\), but must have \[N, 4\]"):
            collector.add_image("a", photo, np.zeros(4), dataformats="HWC")
    found = EventAccumulator("demo")
    found.Reload()
    texts = {tag: found.Tensors(f"{tag}/text_summary")[0].tensor_proto.string_val[0].decode()
             for tag in ("Hello", "echo DPU")}  # fmt: skip
    assert texts == {"Hello": "| a | b |", "echo DPU": "```\nDPU\n```"}
    assert [image.step for image in found.Images("dog")] == [0, 1]
    plain, drawn = found.Images("dog")[0], found.Images("found")[0]
    assert pixel(plain, 5, 4) == (200, 200, 200)
    assert pixel(drawn, 5, 4) == pixel(drawn, 20, 10) == (255, 0, 0)
    assert pixel(drawn, 12, 7) == (200, 200, 200)


def pixel(image, x, y):
    from PIL import Image

    return Image.open(io.BytesIO(image.encoded_image_string)).getpixel((x, y))


def test_modules_that_are_not_compiled():
    net = seeded(ResNet(), 3).eval()
    with SummaryCollector("float") as collector:
        collector.add_graph(net, input_to_model=torch.randn(1, 3, 16, 16))
    names = [node.name for path in Path("float").iterdir() for node in nodes_of(path)]
    assert any("conv1" in name for name in names)


def nodes_of(path):
    found = EventAccumulator(str(path))
    found.Reload()
    return found.Graph().node if found.Tags()["graph"] else []


def test_functions_of_the_compiler_of_pytorch(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENDPU_CACHE", str(tmp_path / "cache"))
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    image = torch.randn(1, 3, 8, 8)

    def program(x):
        return net(x) * 2

    compiled = torch.compile(program, backend="opendpu", options={"calibration": image})
    with SummaryCollector("dynamo") as collector, torch.no_grad():
        collector.add_graph(compiled, input_to_model=image)
    found = EventAccumulator("dynamo")
    found.Reload()
    assert any(node.device == "/device:DPU:0" for node in found.Graph().node)
