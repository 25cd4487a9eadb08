# SPDX-License-Identifier: Apache-2.0
"""Programs around networks for ``torch.compile``: threads, what is written in place, numbers."""

import concurrent.futures
import copy
import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import seeded  # noqa: E402
from small_programs import SHAPE, Small, close, on_dpu, samples  # noqa: E402
from small_programs import forgotten as forgotten  # noqa: E402
from small_programs import runs as runs  # noqa: E402

from wego_torch import WegoError  # noqa: E402


def test_threads_that_call_during_calibration_wait_for_it(seed, runs):
    net = seeded(Small(), seed).eval()
    begun = threading.Event()

    class Batches:
        def __iter__(self):
            begun.set()
            yield samples()

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


def test_threads_that_all_compile_first(seed, runs):
    """PyTorch traces one program at a time: its tracers change state of the whole process."""
    nets = [seeded(Small(), seed + i).eval() for i in range(4)]
    data = samples()
    compiled = [on_dpu(net, data) for net in nets]
    begin = threading.Barrier(len(nets), timeout=60)
    found = {}

    def call(index):
        begin.wait()
        with torch.no_grad():  # counts in its thread only
            found[index] = compiled[index](data[:2])

    threads = [threading.Thread(target=call, args=(index,)) for index in range(len(nets))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, net in enumerate(nets):
        assert close(found[index], net(data[:2]))
    assert runs == [2] * len(nets)


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


def test_what_is_written_in_place_while_others_see_it(seed, runs):
    class Clamping(Small):
        def forward(self, x):
            found = self.features(x)
            signs = torch.where(found > 10, found, -found)
            found[:, :2] *= 2
            return signs, self.last(found.clamp_(-0.5, 0.5).mean((2, 3))), found

    net = seeded(Clamping(), seed).eval()
    images = torch.randn(2, *SHAPE)
    for found, wanted in zip(on_dpu(net)(images), net(images), strict=True):
        assert close(found, wanted)
    assert runs


def test_weights_that_are_computed(seed, runs):
    """The old form writes what it computes into the module, which is a result of the graph."""
    net = seeded(Small(), seed).eval()
    torch.nn.utils.parametrizations.weight_norm(net.first)
    with pytest.warns(FutureWarning, match="weight_norm"):
        torch.nn.utils.weight_norm(net.second)
    images = torch.randn(2, *SHAPE)
    exact = net(images)
    assert close(on_dpu(net)(images), exact)
    assert runs == [2]


def test_an_argument_that_only_its_size_counts_of(seed, runs):
    class Padded(Small):
        def forward(self, x, like):
            return super().forward(x) + torch.zeros_like(like).mean((1, 2, 3))[:, None]

    net = seeded(Padded(), seed).eval()
    images, like = torch.randn(2, *SHAPE), torch.randint(0, 9, (2, *SHAPE)).float()
    compiled = on_dpu(net, [(samples(), samples())])
    assert close(compiled(images, like), net(images, like))
    assert runs == [2]


def test_functions_that_are_transformed_stay_in_pytorch(seed, runs):
    net = seeded(Small(), seed).eval()
    images = torch.randn(2, *SHAPE)
    each = torch.func.vmap(lambda x: net(x[None])[0])
    assert torch.equal(on_dpu(each)(images), each(images))
    assert not runs


def test_normalizations_over_tokens(seed, runs):
    """As LeViT has them: the compiler carries a scale across the reshape behind it."""

    class Tokens(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64)
            self.last = torch.nn.Linear(64, 16)

        def forward(self, x):
            found = self.first(x)
            found = self.norm(found.flatten(0, 1)).reshape_as(found)
            return x + self.last(torch.nn.functional.hardswish(found))

    net = seeded(Tokens(), seed).eval()
    compiled = on_dpu(net, samples(50, 16))
    tokens = torch.randn(2, 50, 16)
    assert close(compiled(tokens), net(tokens))
    assert runs


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
    assert close(on_dpu(net, samples().numpy())(images), net(images))


def test_what_cannot_run_says_so():
    images = torch.randn(1, *SHAPE)
    with pytest.raises(WegoError, match="on the device meta, where tensors have no values"):
        on_dpu(Small().eval().to("meta"), images.to("meta"))(images.to("meta"))


def test_weights_that_are_standardized_by_a_batch_norm_without_statistics(seed, runs):
    """As in networks without normalization of activations; there is no other mode of it."""

    class Standardized(Small):
        def features(self, x):
            weight = self.first.weight
            flat = weight.reshape(1, len(weight), -1)
            gain = torch.full((len(weight),), 0.3)
            flat = torch.nn.functional.batch_norm(flat, None, None, weight=gain, training=True)
            x = torch.nn.functional.conv2d(x, flat.reshape_as(weight), self.first.bias, padding=1)
            return self.second(torch.relu(x))

    net = seeded(Standardized(), seed).eval()
    images = torch.randn(2, *SHAPE)
    assert close(on_dpu(net)(images), net(images))
    assert runs == [2]


class Kept(Small):
    """Computes a table with its first call, and keeps it."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(8, 1, 1))
        self.kept = {}

    def forward(self, x):
        if "table" not in self.kept:
            self.kept["table"] = self.table.exp()
        return self.second(torch.relu(self.first(x) + self.kept["table"]))


def test_what_a_network_keeps_from_its_first_call(seed, runs):
    net = seeded(Kept(), seed).eval()
    data = samples()
    compiled = on_dpu(net, data)
    found = [compiled(data[:2]) for _ in range(3)]
    assert len(runs) >= 3, "all calls are on the DPU"
    assert all(close(one, net(data[:2])) for one in found)


def test_a_batch_without_samples(seed, runs):
    net = seeded(Small(), seed).eval()
    compiled = on_dpu(net)
    assert compiled(torch.randn(2, *SHAPE)).shape == (2, 5)
    assert compiled(torch.randn(0, *SHAPE)).shape == (0, 5)
    assert runs == [2]


@pytest.mark.parametrize("extra", ["labels", pytest.param("ids", marks=pytest.mark.slow)])
def test_batches_with_more_than_the_network_takes(extra, seed, runs):
    class Named(Small):
        def forward(self, pixels, mask=None):
            return super().forward(pixels if mask is None else pixels * mask)

    net = seeded(Named(), seed).eval()
    data = samples()
    compiled = on_dpu(net, [{"pixels": data, extra: torch.arange(32)}])
    assert close(compiled(pixels=data[:2]), net(data[:2]))
    assert runs == [2]
