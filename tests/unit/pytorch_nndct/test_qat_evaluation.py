# SPDX-License-Identifier: Apache-2.0
"""A model that is trained computes in evaluation mode the bits of what is deployed of it."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import seeded  # noqa: E402
from qat_nets import ResNet  # noqa: E402
from random_qat_nets import drawn  # noqa: E402
from small_nets import compiled, own_arithmetic, ratio  # noqa: E402
from torch import nn  # noqa: E402

from opendpu_arch.errors import UnsupportedError  # noqa: E402
from pytorch_nndct import QatProcessor  # noqa: E402
from pytorch_nndct.nn import DeQuantStub, QuantStub, functional  # noqa: E402
from pytorch_nndct.qat.plan import Plan  # noqa: E402

SIZE = 16


def trained(model: nn.Module, shape: tuple[int, ...] = (4, 3, SIZE, SIZE), steps: int = 2):
    """Train a few steps towards zero: weights and thresholds move off where they began."""
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    model.train()
    for _ in range(steps):
        found = model(torch.randn(*shape))
        loss = sum(part.square().mean() for part in torch.utils._pytree.tree_leaves(found))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def equal(one: object, other: object) -> bool:
    pairs = zip(*map(torch.utils._pytree.tree_leaves, (one, other)), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


class Elan(nn.Module):
    """What YOLOv7-tiny is made of: LeakyReLU of 0.1 behind each convolution, branches joined."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.quant, self.dequant = QuantStub(), nn.ModuleList([DeQuantStub(), DeQuantStub()])
        self.stem = self.block(3, channels, 3, 2)
        self.branches = nn.ModuleList(
            [self.block(channels, channels, 1), self.block(channels, channels, 1)]
        )
        self.deeper = nn.ModuleList([self.block(channels, channels, 3) for _ in range(2)])
        self.cat, self.join = functional.Cat(), self.block(4 * channels, channels, 1)
        self.pool, self.up = nn.MaxPool2d(2), nn.Upsample(scale_factor=2)
        self.lower = self.block(channels, channels, 3)
        self.second = functional.Cat()
        self.heads = nn.ModuleList([nn.Conv2d(2 * channels, 6, 1), nn.Conv2d(channels, 6, 1)])

    @staticmethod
    def block(given: int, made: int, kernel: int, stride: int = 1) -> nn.Sequential:
        convolution = nn.Conv2d(given, made, kernel, stride, kernel // 2, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(made), nn.LeakyReLU(0.1))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = self.stem(self.quant(x))
        parts = [branch(x) for branch in self.branches]
        for layer in self.deeper:
            parts.append(layer(parts[-1]))
        x = self.join(self.cat(parts, 1))
        low = self.lower(self.pool(x))
        high = self.second([x, self.up(low)], 1)
        made = zip(self.heads, (high, low), self.dequant, strict=True)
        return [stub(head(part)) for head, part, stub in made]


def test_a_detector_with_leaky_slopes(seed: int) -> None:
    module = seeded(Elan(), seed)
    processor = QatProcessor(module, torch.randn(1, 3, SIZE, SIZE))
    model = trained(processor.trainable_model())
    x = torch.randn(5, 3, SIZE, SIZE)
    with torch.no_grad():
        found = model(x)
    deployed = processor.to_deployable(model, "qat_result")
    assert equal(found, deployed(x))
    with torch.no_grad(), own_arithmetic(model):
        own = model(x)
    assert all(ratio(*pair) > 25 for pair in zip(found, own, strict=True))
    slopes = [p.negative_slope for p in model.modules() if isinstance(p, nn.LeakyReLU)]
    assert slopes == [26 / 256] * 7
    kept = processor.convert_to_deployable(model, "qat_result").modules()
    assert [p.negative_slope for p in kept if isinstance(p, nn.LeakyReLU)] == [0.1] * 7
    assert all(part.abs().max() > 0 for part in found)


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 30))]
)
def test_random_networks(number: int, rng) -> None:
    module = drawn(rng)
    processor = QatProcessor(module, torch.randn(2, 3, SIZE, SIZE))
    model = trained(processor.trainable_model())
    x = torch.randn(3, 3, SIZE, SIZE)
    with torch.no_grad():
        found = model(x)
    deployed = processor.to_deployable(model, "qat_result")
    assert equal(found, deployed(x)), module
    processor.export_xmodel("qat_result")
    result = torch.utils._pytree.tree_leaves(found)
    assert len(result) == 1
    assert torch.equal(compiled(f"qat_result/{type(module).__name__}_0_int.xmodel", x), result[0])


def test_it_follows_what_is_trained(seed: int) -> None:
    processor = QatProcessor(seeded(ResNet(), seed), torch.randn(1, 3, 16, 16))
    model = trained(processor.trainable_model())
    x = torch.randn(4, 3, 16, 16)
    with torch.no_grad():
        before = model(x)
        assert torch.equal(model(x), before)
        for parameter in model.non_quantizer_parameters():
            parameter.data.mul_(1.5)  # what no version of the parameter tells
        after = model(x)
    assert not torch.equal(after, before)
    assert torch.equal(processor.to_deployable(model, "out")(x), after)


def test_gradients_in_evaluation_mode(seed: int) -> None:
    model = trained(
        QatProcessor(seeded(ResNet(), seed), torch.randn(1, 3, 16, 16)).trainable_model()
    )
    x = torch.randn(4, 3, 16, 16)
    with torch.no_grad():
        wanted = model(x)
    model.zero_grad()
    found = model(x)
    assert torch.equal(found, wanted)
    found.square().sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(g is not None for g in gradients)
    model.zero_grad()
    with own_arithmetic(model):
        (model(x) * 2 * found.detach()).sum().backward()
    for found_one, parameter in zip(gradients, model.parameters(), strict=True):
        assert torch.equal(found_one, parameter.grad)


def test_other_sizes_and_copies(seed: int) -> None:
    processor = QatProcessor(seeded(ResNet(), seed), torch.randn(1, 3, 16, 16))
    model = trained(processor.trainable_model())
    average = copy.deepcopy(model)
    large, small = torch.randn(2, 3, 24, 20), torch.randn(3, 3, 16, 16)
    with torch.no_grad():
        for x in (small, large, small):
            found = average(x)
            with own_arithmetic(average):
                assert ratio(found, average(x)) > 20
        torch.save(model, "whole.pth")
        again = torch.load("whole.pth", weights_only=False)
        assert torch.equal(again(large), average(large))
    other = QatProcessor(processor._source.module, large)
    other.trainable_model()
    assert torch.equal(other.to_deployable(model, "out")(large), average(large))


def test_hooks_are_called(seed: int) -> None:
    model = trained(
        QatProcessor(seeded(ResNet(), seed), torch.randn(1, 3, 16, 16)).trainable_model()
    )
    seen = []
    model.model.layer1.register_forward_hook(lambda module, args, result: seen.append(result.shape))
    with torch.no_grad():
        model(torch.randn(2, 3, 16, 16))
    assert seen == [(2, 16, 4, 4)]


def test_what_cannot_be_computed_so_is_said_once(seed: int, capsys, monkeypatch) -> None:
    processor = QatProcessor(seeded(ResNet(), seed), torch.randn(1, 3, 16, 16))
    model = trained(processor.trainable_model())
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad(), own_arithmetic(model):
        wanted = model(x)

    def fail(*_):
        raise UnsupportedError("something in it cannot be computed")

    monkeypatch.setattr(Plan, "quantized", fail)
    capsys.readouterr()
    with torch.no_grad():
        assert torch.equal(model(x), wanted)
        assert torch.equal(model(x), wanted)
    said = capsys.readouterr().out
    assert said.count("PyTorch's arithmetic, which differs a little from the program's: some") == 1
