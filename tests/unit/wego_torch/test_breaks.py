# SPDX-License-Identifier: Apache-2.0
"""Programs that TorchDynamo cuts into graphs: sizes and gradients from one to the next."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import seeded  # noqa: E402
from small_programs import SHAPE, close, on_dpu, samples  # noqa: E402
from small_programs import forgotten as forgotten  # noqa: E402
from small_programs import runs as runs  # noqa: E402

from opendpu_arch.errors import UnsupportedError  # noqa: E402
from wego_torch.dynamo import region  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"  # TorchDynamo looks
)


class Shaped(torch.nn.Module):
    """Hands sizes of a tensor over a break, and gives some, the number of samples among them."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        y = torch.relu(self.first(x))
        count, channels, height, width = y.shape
        torch._dynamo.graph_break()
        z = self.second(y.view(count, channels, height, width))
        torch._dynamo.graph_break()
        return z.reshape(count, -1), height * width, {"count": count, "shape": y.shape}


@pytest.mark.parametrize("dynamic", [pytest.param(None, marks=pytest.mark.slow), True])
def test_sizes_are_those_of_the_call(seed, runs, dynamic):
    net = seeded(Shaped(), seed).eval()
    compiled = on_dpu(net, dynamic=dynamic)
    for count in (3, 2):
        images = torch.randn(count, *SHAPE)
        (found, *sizes), (wanted, *right) = compiled(images), net(images)
        assert close(found, wanted)
        assert sizes == right
    assert sum(runs) == 2 * (3 + 2)


class Numbered(torch.nn.Module):
    """Takes a number that is no size of anything."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x, rows):
        return self.second(torch.relu(self.first(x))[:, :, :rows])


def test_numbers_are_those_of_the_call(seed, runs, monkeypatch):
    monkeypatch.setattr(region, "PLANS", 2)
    net = seeded(Numbered(), seed).eval()
    compiled = on_dpu(net, [(samples(), rows) for rows in (8, 7)], dynamic=True)
    images = torch.randn(2, *SHAPE)
    for rows in (4, 6, 4):
        assert close(compiled(images, rows), net(images, rows))
    assert len(runs) == 3
    torch.testing.assert_close(compiled(images, 5), net(images, 5))
    assert len(runs) == 3, "a third number is not worth a network"


class Cut(torch.nn.Module):
    """Two parts, and between them an operator that nobody captures."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.scale = torch.nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        y = aside(torch.relu(self.first(x)), self.scale)
        return self.second(y)


@torch._dynamo.disable
def aside(x, scale):
    return x * scale


def test_gradients_may_be_enabled(seed, runs):
    net, images = seeded(Cut(), seed).eval(), torch.randn(2, *SHAPE)
    compiled = on_dpu(net)
    with torch.enable_grad():
        found = compiled(images)
        assert runs == [2, 2]
        assert close(found.detach(), net(images))
        with pytest.raises(UnsupportedError, match="gradients are asked for, but the DPU"):
            found.sum().backward()
    assert net.scale.grad is None
    compiled(images)
    assert runs == [2, 2, 2, 2]
