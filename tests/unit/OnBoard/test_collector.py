# SPDX-License-Identifier: Apache-2.0
"""Event files: TensorBoard's own reader finds graph, partition, times and images in them."""

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
from opendpu_arch.errors import TensorError  # noqa: E402


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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
        collector.add_image("array", np.zeros((3, 4, 5), np.float32), 2)
        with pytest.raises(TensorError, match="an image with 2 axes has no dataformats 'CHW'"):
            collector.add_image("flat", np.zeros((4, 5)))
        with pytest.raises(TensorError, match="Linear has no compiled network"):
            wego_torch.network.alive.clear()
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
