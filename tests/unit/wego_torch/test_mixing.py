# SPDX-License-Identifier: Apache-2.0
"""Programs for ``torch.compile`` that do not treat every sample by itself, or have tensors of their
own: what does goes to the DPU.
"""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import seeded  # noqa: E402
from small_programs import SHAPE, Small, close, on_dpu, samples  # noqa: E402
from small_programs import forgotten as forgotten  # noqa: E402
from small_programs import runs as runs  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import wego_torch  # noqa: E402
from wego_torch.dynamo.captured import Captured  # noqa: E402
from wego_torch.dynamo.samples import Samples  # noqa: E402

MEAN = torch.tensor([0.1, -0.2, 0.3]).view(3, 1, 1)


class Similar(Small):
    """Compares all samples with each other."""

    def forward(self, x):
        found = super().forward(x)
        return found @ found.T


class Remembering(Small):
    """Keeps the mean of what it has seen."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8, 8, 8))

    def forward(self, x):
        found = self.features(x)
        self.mean = found.mean(0)
        return self.last(found.mean((2, 3)))


class Warped(Small):
    """Has the number of samples in a shape."""

    def forward(self, x):
        found = self.features(x)
        turned = torch.eye(2, 3).expand(len(x), 2, 3)
        grid = F.affine_grid(turned, list(found.shape), align_corners=False)
        return F.grid_sample(found, grid, align_corners=False)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Similar, marks=pytest.mark.slow),
        pytest.param(Remembering, marks=pytest.mark.slow),
        Warped,
    ],
)
def test_what_treats_samples_by_itself_is_on_the_dpu(kind, seed, runs):
    net = seeded(kind(), seed).eval()
    images = torch.randn(2, *SHAPE)
    exact = net(images)
    compiled = on_dpu(net)
    for _ in range(2):
        assert close(compiled(images), exact)
    assert sum(runs) == 4


def test_tensors_from_around_a_program_are_constants(seed, runs):
    net = seeded(Small(), seed).eval()
    scale = torch.tensor([2.0, 1.0, 0.5]).view(3, 1, 1)

    def program(x, factor):
        return net((x - MEAN) * scale) * factor

    data = [(samples(), torch.tensor(3.0))]
    compiled = on_dpu(program, data)
    images, factor = torch.randn(2, *SHAPE), torch.tensor(2.0)
    assert close(compiled(images, factor), program(images, factor))
    assert runs == [2]
    scale.mul_(3)
    assert torch.equal(compiled(images, factor), program(images, factor)), "no longer"


def test_captured_tensors_are_constants_until_they_change():
    found, one = Captured(), torch.zeros(2)
    found.look_at([one])
    found.look_at([one])
    assert found.steady
    found.look_at([torch.zeros(2)])
    assert not found.steady
    found = Captured()
    found.look_at([one])
    one.add_(1)
    found.look_at([one])
    assert not found.steady


def test_samples_of_calls_with_what_is_of_each_of_them():
    samples = Samples(8)
    for start in (0, 3):
        images = torch.arange(start, start + 3.0)[:, None]
        samples.add([images, torch.tensor(7.0), torch.tensor([[9.0]])], 3)
    found = list(samples.each(2))
    assert [call[0].flatten().tolist() for call in found] == [[0, 1], [2, 3], [4, 5]]
    assert all(call[1] == 7 and call[2].tolist() == [[9]] for call in found)
    uneven = Samples(8)
    uneven.add([torch.zeros(4, 2), torch.zeros(3, 2)], 4)
    assert [[len(tensor) for tensor in call] for call in uneven.each(4)] == [[4, 3]]
    assert not list(uneven.each(1))


class Heads(torch.nn.Module):
    """Attention over a map whose heads are cut by a size that is left open."""

    def __init__(self):
        super().__init__()
        self.stem, self.qkv = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 64, 1)
        self.proj = torch.nn.Conv2d(32, 8, 1)

    def forward(self, x):
        x = self.stem(x)
        count, _, high, wide = x.shape
        q, k, v = self.qkv(x).view(count, 2, -1, high * wide).split([8, 8, 16], dim=2)
        weights = (q.transpose(-2, -1) @ k * 8**-0.5).softmax(-1)
        return self.proj((v @ weights.transpose(-2, -1)).view(count, -1, high, wide))


def test_a_batch_is_not_cut_into_parts_of_a_sample(seed, runs):
    net = seeded(Heads(), seed).eval()
    data = samples()[:16]
    compiled = on_dpu(net, [(batch, 0) for batch in data.split(2)])
    for images in data[:4].split(2):
        assert close(compiled(images), net(images))
    assert runs


class Squeezed(torch.nn.Module):
    """The result for one sample has no axis for samples, that for several has."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 5, 8)

    def forward(self, x):
        return self.last(torch.relu(self.first(x))).squeeze()


@pytest.mark.parametrize("batch", [4, 1])
def test_results_that_lose_the_axis_of_one_sample(batch, seed, runs):
    net = seeded(Squeezed(), seed).eval()
    data = samples()
    compiled = on_dpu(net, [(part, 0) for part in data.split(batch)])
    for count in (4, 1, 2):
        assert close(compiled(data[:count]), net(data[:count]))
    assert runs == [4, 1, 2]
    quantized = wego_torch.quantize(
        net, [[batch, *SHAPE]], data.split(batch), lambda model, part, *_: model(part)
    )
    compiled = wego_torch.compile(quantized)
    for count in (4, 1, 2):
        found = compiled(data[:count])
        assert close(found, net(data[:count]))
        assert torch.equal(found, quantized(data[:count]))
    assert compiled(data[:0]).shape == (0, 5)
