# SPDX-License-Identifier: Apache-2.0
"""What was trained computes the same bits as the program it is compiled to, kind by kind."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import seeded  # noqa: E402
from small_nets import compiled, own_arithmetic, ratio  # noqa: E402
from torch import nn  # noqa: E402

from pytorch_nndct import QatProcessor  # noqa: E402
from pytorch_nndct.nn import DeQuantStub, QuantStub, functional  # noqa: E402

SIZE = 8


def normalized(made: nn.Module, channels: int) -> nn.Sequential:
    return nn.Sequential(made, nn.BatchNorm2d(channels))


class Stem(nn.Module):
    """A convolution, a body, and a classifier."""

    def __init__(self, body: nn.Module, channels: int, behind: int) -> None:
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.first = normalized(nn.Conv2d(3, channels, 3, padding=1, bias=False), channels)
        self.relu, self.body = nn.ReLU(), body
        self.pool, self.last = nn.AdaptiveAvgPool2d(1), nn.Linear(behind, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(self.relu(self.first(self.quant(x))))
        return self.dequant(self.last(torch.flatten(self.pool(x), 1)))


class Gate(nn.Module):
    """A factor a channel, as MobileNetV3 has it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.less, self.relu = nn.Conv2d(channels, channels // 4, 1), nn.ReLU()
        self.more, self.gate = nn.Conv2d(channels // 4, channels, 1), nn.Hardsigmoid()
        self.mul = functional.Mul()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mul(x, self.gate(self.more(self.relu(self.less(self.pool(x))))))


class Inverted(nn.Module):
    """A block of MobileNetV3: wide, depthwise, gated, narrow, and the input added."""

    def __init__(self, channels: int = 8, wide: int = 16) -> None:
        super().__init__()
        self.expand = normalized(nn.Conv2d(channels, wide, 1, bias=False), wide)
        self.swish1, self.swish2 = nn.Hardswish(), nn.Hardswish()
        depthwise = nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False)
        self.depthwise, self.gate = normalized(depthwise, wide), Gate(wide)
        self.project = normalized(nn.Conv2d(wide, channels, 1, bias=False), channels)
        self.add = functional.Add()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.swish2(self.depthwise(self.swish1(self.expand(x))))
        return self.add(x, self.project(self.gate(y)))


class Joined(nn.Module):
    """Two convolutions side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.left = normalized(nn.Conv2d(8, 8, 1, bias=False), 8)
        self.right = normalized(nn.Conv2d(8, 4, 3, padding=1, bias=False), 4)
        self.relu1, self.relu2, self.cat = nn.ReLU(), nn.ReLU(), functional.Cat()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cat([self.relu1(self.left(x)), self.relu2(self.right(x))], 1)


BODIES = {
    "hard activations": lambda: Stem(Inverted(), 8, 8),
    "grouped": lambda: Stem(
        nn.Sequential(nn.Conv2d(8, 12, 3, padding=1, groups=4, bias=False), nn.BatchNorm2d(12),
                      nn.ReLU()), 8, 12),
    "transposed": lambda: Stem(
        nn.Sequential(nn.ConvTranspose2d(8, 6, 4, stride=2, padding=1), nn.BatchNorm2d(6),
                      nn.ReLU()), 8, 6),
    "transposed, grouped": lambda: Stem(
        nn.Sequential(nn.ConvTranspose2d(8, 8, 2, stride=2, groups=8), nn.ReLU6()), 8, 8),
    "concatenation": lambda: Stem(Joined(), 8, 12),
}  # fmt: skip


def trained(model: nn.Module) -> nn.Module:
    """Train a few steps towards noise: weights and thresholds move off where they began."""
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    model.train()
    for _ in range(3):
        loss = (model(torch.randn(8, 3, SIZE, SIZE)) - torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize(
    "body",
    [pytest.param(b, marks=[pytest.mark.slow] if b != "hard activations" else []) for b in BODIES],
)
def test_what_was_trained_is_what_the_program_computes(body: str, seed: int) -> None:
    module = seeded(BODIES[body](), seed)
    processor = QatProcessor(module, torch.randn(4, 3, SIZE, SIZE))
    model = trained(processor.trainable_model())
    deployed = processor.to_deployable(model, "qat_result")
    x = torch.randn(6, 3, SIZE, SIZE)
    found = deployed(x)
    assert found.abs().max() > 0
    with torch.no_grad():
        assert torch.equal(found, model(x))
        with own_arithmetic(model):
            assert ratio(found, model(x)) > 25
    processor.export_xmodel("qat_result", deploy_check=True)
    assert torch.equal(compiled("qat_result/Stem_0_int.xmodel", x), found)
