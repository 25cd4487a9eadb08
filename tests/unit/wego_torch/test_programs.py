# SPDX-License-Identifier: Apache-2.0
"""Programs around networks for ``torch.compile``: threads, what is written in place, numbers."""

import concurrent.futures
import copy
import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import seeded  # noqa: E402

from wego_torch import WegoError  # noqa: E402
from wego_torch.network import Network  # noqa: E402

SHAPE = (3, 8, 8)


class Small(torch.nn.Module):
    """Two convolutions, a normalization and a classifier."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.last = torch.nn.Linear(8, 5)

    def features(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))

    def forward(self, x):
        return self.last(self.features(x).mean((2, 3)))


@pytest.fixture(autouse=True)
def forgotten():
    """Let TorchDynamo begin anew, without gradients."""
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


@pytest.fixture
def runs(monkeypatch):
    """Return how many samples each call of a compiled network was given."""
    found = []
    run = Network.run
    monkeypatch.setattr(
        Network, "run", lambda self, inputs: found.append(len(inputs[0])) or run(self, inputs)
    )
    return found


def on_dpu(net, calibration=None, **settings):
    data = torch.randn(4, *SHAPE) if calibration is None else calibration
    options = {"calibration": data, "target": "B512"}
    return torch.compile(net, backend="opendpu", options=options, **settings)


def close(found, wanted):
    """Return whether a result is the float one but for quantization, by 15 dB or more."""
    assert found.shape == wanted.shape
    return 0 < (found - wanted).square().sum() < wanted.square().sum() / 30


def test_threads_that_call_during_calibration_wait_for_it(seed, runs):
    net = seeded(Small(), seed).eval()
    begun = threading.Event()

    class Batches:
        def __iter__(self):
            begun.set()
            yield torch.randn(4, *SHAPE)

    compiled = on_dpu(net, Batches())
    images = torch.randn(1, *SHAPE)

    def call(first):
        with torch.no_grad():
            assert first or begun.wait(60)
            return compiled(images)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        one, other = pool.map(call, [True, False])
    assert runs == [1, 1]
    assert torch.equal(one, other)


def test_sizes_and_numbers_that_are_symbols(seed, runs):
    """With ``dynamic=True`` TorchDynamo hands over numbers of modules as tensors."""
    net = seeded(Small(), seed).eval()
    compiled = on_dpu(net, dynamic=True)
    images = torch.randn(2, *SHAPE)
    assert close(compiled(images), net(images))
    assert runs == [2]


def test_inputs_that_a_network_changes_in_place(seed, runs):
    class Scaled(Small):
        def forward(self, x):
            return super().forward(x.mul_(2))

    net = seeded(Scaled(), seed).eval()
    compiled = on_dpu(net)
    images = torch.randn(2, *SHAPE)
    given, exact = images.clone(), images.clone()
    assert close(compiled(given), net(exact))
    assert torch.equal(given, 2 * images)
    assert runs == [2]


def test_a_network_that_counts_its_calls(seed, runs):
    class Counting(Small):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            return super().forward(x) + self.calls

    net = seeded(Counting(), seed).eval()
    net.calls.zero_()
    compiled = on_dpu(net)
    images = torch.randn(2, *SHAPE)
    compiled(images)
    before = net.calls.item()
    assert torch.equal(compiled(images), Small.forward(net, images) + (before + 1))
    assert net.calls.item() == before + 1
    assert runs == []


def test_complex_numbers_stay_in_pytorch(seed, runs):
    class Spectrum(Small):
        def forward(self, x):
            return torch.fft.rfft2(self.features(x)).abs().mean((2, 3))

    net = seeded(Spectrum(), seed).eval()
    images = torch.randn(2, *SHAPE)
    assert close(on_dpu(net)(images), net(images))
    assert runs == [2]


def test_two_networks_of_one_class(seed, runs):
    """PyTorch compares the options of both, with the calibration data in them."""
    net = seeded(Small(), seed).eval()
    other = copy.deepcopy(net)
    other.last.weight.mul_(-3)
    images = torch.randn(2, *SHAPE)
    for one in (net, other):
        assert close(on_dpu(one)(images), one(images))
    assert runs == [2, 2]


def test_calibration_data_may_be_an_array(seed, runs):
    net = seeded(Small(), seed).eval()
    images = torch.randn(2, *SHAPE)
    assert close(on_dpu(net, torch.randn(4, *SHAPE).numpy())(images), net(images))


def test_what_cannot_run_says_so(seed):
    net = seeded(Small(), seed).eval()
    images = torch.randn(1, *SHAPE)
    compiled = on_dpu(net)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(compiled(images), net(images)), "other types are PyTorch's"
    torch._dynamo.reset()
    with pytest.raises(WegoError, match="on the device meta, where tensors have no values"):
        on_dpu(Small().eval().to("meta"), images.to("meta"))(images.to("meta"))
