# SPDX-License-Identifier: Apache-2.0
"""Families of networks, small, through ``torch.compile``: detectors, segmentation, transformers.

Parts on the DPU are bit for bit the same on devices that share no code, ``ref`` and ``iss``; what
the whole program returns is near the float program.
"""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from wego_torch.dynamo import opendpu  # noqa: E402
from wego_torch.network import Network  # noqa: E402


def block(inputs, outputs, stride=1, groups=1, act=nn.ReLU):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, groups=groups, bias=False),
        nn.BatchNorm2d(outputs), act(),
    )  # fmt: skip


class Inverted(nn.Module):
    """Blocks of MobileNetV2."""

    def __init__(self):
        super().__init__()
        self.stem = block(3, 8, 2, act=nn.ReLU6)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 32, 1), nn.ReLU6(), block(32, 32, groups=32, act=nn.ReLU6),
                          nn.Conv2d(32, 8, 1)) for _ in range(2)
        )  # fmt: skip
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        for inner in self.blocks:
            x = x + inner(x)
        return self.head(x.mean((2, 3)))


class Detector(nn.Module):
    """Two scales with an upsampled path, and boxes as YOLO has them."""

    def __init__(self):
        super().__init__()
        self.stem, self.deep = block(3, 16, 2, act=nn.LeakyReLU), block(16, 32, 2)
        self.near, self.far = nn.Conv2d(48, 18, 1), nn.Conv2d(32, 18, 1)

    def forward(self, x):
        fine = self.stem(x)
        coarse = F.max_pool2d(self.deep(fine), 3, 1, 1)
        wide = torch.cat([F.interpolate(coarse, scale_factor=2.0), fine], 1)
        found = []
        for y in (self.near(wide), self.far(coarse)):
            n, _, h, w = y.shape
            y = y.view(n, 3, 6, h, w).permute(0, 1, 3, 4, 2)
            found.append(torch.cat([y[..., :4], y[..., 4:].sigmoid()], -1).reshape(n, -1, 6))
        return torch.cat(found, 1)


class Segmentation(nn.Module):
    """A U-Net."""

    def __init__(self):
        super().__init__()
        self.down, self.middle = block(3, 16), block(16, 32, 2)
        self.up, self.last = nn.ConvTranspose2d(32, 16, 2, 2), nn.Conv2d(32, 4, 1)

    def forward(self, x):
        x = self.down(x)
        return self.last(torch.cat([self.up(self.middle(x)), x], 1))


class Transformer(nn.Module):
    """Attention behind a convolutional stem."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(block(3, 16, 2), nn.Conv2d(16, 24, 4, 4))
        self.layer = nn.TransformerEncoderLayer(24, 2, 48, 0.0, batch_first=True)
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.layer(x).mean(1))


class Body(nn.Module):
    """What looks at the whole image."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(block(3, 16, 2), block(16, 16))
        self.score = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        features = self.blocks(x)
        return features, self.score(features)


class Box(nn.Module):
    """What looks at a region."""

    def __init__(self):
        super().__init__()
        self.block = block(16, 16)

    def forward(self, x):
        return self.block(x).mean((2, 3))


class TwoStage(nn.Module):
    """Regions as a first network proposes them, in a loop in Python; each seen by a second.

    TorchDynamo leaves a function with such a loop to Python, and looks at those that it calls.
    """

    def __init__(self):
        super().__init__()
        self.body, self.box, self.kinds = Body(), Box(), nn.Linear(16, 4)

    def forward(self, x):
        features, scores = self.body(x)
        places = scores.flatten(1).topk(2).indices
        width = features.shape[-1]
        found = []
        for sample, chosen in zip(features, places, strict=True):
            for place in chosen.tolist():
                row = min(max(place // width - 2, 0), sample.shape[1] - 4)
                column = min(max(place % width - 2, 0), width - 4)
                found.append(self.box(sample[None, :, row : row + 4, column : column + 4]))
        return self.kinds(torch.cat(found))


@pytest.mark.parametrize(
    "make",
    [
        Transformer,
        *(
            pytest.param(make, marks=pytest.mark.slow)
            for make in (TwoStage, Inverted, Detector, Segmentation)
        ),
    ],
)
def test_families_of_networks_run(make, seed, monkeypatch):
    torch.manual_seed(seed)
    net = make().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.3, 0.3)
            module.running_var.uniform_(0.5, 1.5)
    made = []
    before = Network.__init__

    def watched(self, artefact):
        before(self, artefact)
        made.append(self)

    monkeypatch.setattr(Network, "__init__", watched)
    images, data = torch.randn(3, 3, 16, 16), torch.randn(8, 3, 16, 16)
    results = []
    for device in ("ref", "iss"):
        torch._dynamo.reset()
        options = {"calibration": data, "device": device}
        compiled = torch.compile(net, backend=opendpu, options=options)
        with torch.no_grad():
            results.append(compiled(images))
    torch._dynamo.reset()
    with torch.no_grad():
        exact = net(images)
    assert {network.device for network in made} == {"ref", "iss"}
    assert any(part["device"] == "DPU" for n in made for part in n.artefact.report["subgraphs"])
    assert torch.equal(*results)
    assert results[0].shape == exact.shape
    if make is not TwoStage:  # where the regions may be others
        error = (results[0] - exact).norm() / exact.norm()
        assert error < 0.15, error
