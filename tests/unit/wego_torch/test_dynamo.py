# SPDX-License-Identifier: Apache-2.0
"""``torch.compile(model, backend="opendpu")``: parts on the DPU, the rest in PyTorch."""

import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import ResNet, seeded  # noqa: E402
from small_nets import TwoHeads, ratio  # noqa: E402

from opendpu.frontend.pytorch import trace  # noqa: E402
from opendpu.quantize import quantize  # noqa: E402
from opendpu_arch.errors import UnsupportedError  # noqa: E402
from opendpu_arch.target import Target  # noqa: E402
from pytorch_nndct.apis import torch_quantizer  # noqa: E402
from pytorch_nndct.program import IntegerNetwork  # noqa: E402
from pytorch_nndct.settings import config_of  # noqa: E402
from wego_torch import WegoError  # noqa: E402
from wego_torch.dynamo import opendpu  # noqa: E402
from wego_torch.dynamo.part import DpuPart  # noqa: E402
from wego_torch.network import Network  # noqa: E402

TARGET = "DPUCZDX8G_ISA1_B512"

_LOCK = threading.Lock()
"""What TorchDynamo does not trace."""


@pytest.fixture(autouse=True)
def forgotten():
    """Let TorchDynamo begin anew."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def networks(monkeypatch):
    """Return the compiled networks that a test makes."""
    found = []
    before = Network.__init__

    def watched(self, artefact):
        before(self, artefact)
        found.append(self)

    monkeypatch.setattr(Network, "__init__", watched)
    return found


def on_dpu(networks):
    return sum(
        len(part["ops"])
        for network in networks
        for part in network.artefact.report["subgraphs"]
        if part["device"] == "DPU"
    )


def test_any_batch_gives_what_the_other_doors_give(seed, networks):
    """The bits are those of the front end, the quantizer and the integers of its result."""
    net = seeded(ResNet(), seed).eval()
    data = torch.randn(6, 3, 16, 16)
    compiled = torch.compile(net, backend=opendpu, options={"calibration": data})
    config = config_of(None, None, Target.from_name(TARGET))
    wanted = IntegerNetwork(
        quantize(trace(net, data[:1]).graph, {"x": data.permute(0, 2, 3, 1).numpy()}, config),
        Target.from_name(TARGET),
    )
    with torch.no_grad():
        for count in (2, 1, 5):
            images = torch.randn(count, 3, 16, 16)
            (found,) = wanted.run({"x": images.numpy()}, count)
            assert torch.equal(compiled(images), torch.from_numpy(found))
    assert len(networks) == 1, "one program for every batch"
    assert on_dpu(networks) > 5
    with torch.no_grad():
        net.fc.weight.mul_(2)
        assert not torch.equal(compiled(images), torch.from_numpy(found))
    assert len(networks) == 2, "other weights are another network"


class Broken(torch.nn.Module):
    """A graph break, an operator that only PyTorch has, two results."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.second = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.third = torch.nn.Conv2d(32, 16, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.second(torch.relu(self.first(x))))
        if x.abs().sum() > 0:
            x = torch.special.i1e(x) + x
        return torch.relu(self.third(x)), torch.softmax(x.mean((2, 3)), -1)


def test_graph_breaks_and_what_only_pytorch_has(seed, networks):
    net = seeded(Broken(), seed).eval()
    data = [(torch.randn(1, 3, 16, 16), "label") for _ in range(6)]
    compiled = torch.compile(net, backend=opendpu, options={"calibration": data})
    image = torch.randn(1, 3, 16, 16)
    with torch.no_grad():
        found, wanted = compiled(image), net(image)
    assert all(ratio(f, w) > 20 for f, w in zip(found, wanted, strict=True))
    assert len(networks) >= 2
    assert on_dpu(networks) >= 3
    assert not any(torch.equal(f, w) for f, w in zip(found, wanted, strict=True))


def test_several_inputs_and_nested_results(seed, networks):
    net = seeded(TwoHeads(), seed).eval()
    data = (torch.randn(4, 3, 8, 8), torch.randn(4, 3, 8, 8))
    compiled = torch.compile(net, backend=opendpu, options={"calibration": data})
    with torch.no_grad():
        found, wanted = compiled(*data), net(*data)
    assert found.keys() == wanted.keys()
    assert ratio(found["map"], wanted["map"]) > 20
    assert ratio(found["classes"][0], wanted["classes"][0]) > 20
    assert on_dpu(networks)


def test_a_quantized_module_in_a_program(seed, networks):
    net = seeded(ResNet(), seed)
    data = torch.randn(4, 3, 16, 16)
    quantizer = torch_quantizer("calib", net, data[:1], device="cpu")
    quantizer.quant_model(data)
    quantizer.export_quant_config()
    model = torch_quantizer("test", net, data[:1], device="cpu").quant_model

    class Program(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return torch.softmax(self.model(x * 2), -1)

    compiled = torch.compile(Program(), backend=opendpu)
    for count in (2, 3):
        images = torch.randn(count, 3, 16, 16)
        assert torch.equal(compiled(images), Program()(images))
    assert on_dpu(networks) > 5


def test_errors(seed):
    net = seeded(ResNet(), seed).eval()
    image = torch.randn(1, 3, 16, 16)

    def run(options, model=net, given=image):
        torch._dynamo.reset()
        return torch.compile(model, backend=opendpu, options=options)(given)

    with pytest.raises(Exception, match="is not quantized, and there is nothing to calibrate it"):
        run(None)
    with pytest.raises(Exception, match=r"WEGO_TORCH_INVALID_ARGUMENT\] option 'calib' of backend"):
        run({"calib": image})
    with pytest.raises(Exception, match="the calibration data is empty"):
        run({"calibration": []})
    with pytest.raises(Exception, match="option calibration is int, but must be tensors or"):
        run({"calibration": 3})
    with pytest.raises(Exception, match="option calibration is str, but must be tensors or"):
        run({"calibration": "samples.npz"})
    with pytest.raises(Exception, match=r"option threads is '2', but must be an integer of at"):
        run({"calibration": image, "threads": "2"})
    with pytest.raises(Exception, match=r"is in training mode.*call model\.eval\(\)"):
        run({"calibration": image}, torch.nn.Dropout().train())
    wanting = torch.randn(1, 3, 16, 16, requires_grad=True)
    with pytest.raises(UnsupportedError, match="an input requires gradients"):
        run({"calibration": image}, given=wanting)
    with pytest.raises(
        UnsupportedError, match="gradients are asked for, but the DPU computes none"
    ):
        run({"calibration": image}).sum().backward()
    graph = torch.fx.symbolic_trace(torch.nn.ReLU())
    with pytest.raises(WegoError, match=r"WEGO_TORCH_UNIMPLEMENTED\] the backend was not called"):
        opendpu(graph, [image], {"calibration": image})(image)


def test_parts_are_modules():
    part = DpuPart(torch.nn.ReLU())
    assert torch.equal(part(torch.tensor([-1.0, 2.0])), torch.tensor([0.0, 2.0]))


def _hook(module):
    """Put a hook on a module's part, once."""
    if getattr(module, "hooked", False):
        return
    with _LOCK:
        module.part.register_forward_hook(lambda part, args, output: None)
        module.hooked = True


class Hooked(torch.nn.Module):
    """Puts a hook on a part of itself when it is called first, as networks of transformers do."""

    def __init__(self):
        super().__init__()
        self.part = torch.nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x):
        _hook(self)
        return torch.relu(self.part(x))


class WithHooked(torch.nn.Module):
    """Traced as a whole only when its part has its hook."""

    def __init__(self):
        super().__init__()
        self.body, self.last = Hooked(), torch.nn.Conv2d(8, 8, 3)

    def forward(self, x):
        return self.last(self.body(x))


def test_a_network_that_its_first_call_changes(seed, networks):
    """TorchDynamo keeps graphs of the first call, which data in batches had not come to."""
    net, data = seeded(WithHooked(), seed).eval(), torch.randn(4, 3, 8, 8)
    options = {"calibration": data, "target": TARGET}
    compiled = torch.compile(net, backend="opendpu", options=options)
    with torch.no_grad():
        first, second, batch = compiled(data[:1]), compiled(data[:1]), compiled(data)
    assert on_dpu(networks) >= 2
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert ratio(first, batch[:1]) > 25  # of one graph
    with torch.no_grad():
        assert ratio(first, net(data[:1])) > 25
        assert not torch.equal(net(data[:1]), first)
