# SPDX-License-Identifier: Apache-2.0
"""Results in dictionaries and dataclasses, and arguments that are no tensors."""

import collections
import dataclasses
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import seeded  # noqa: E402
from small_programs import SHAPE, Small, close, on_dpu, runs, samples  # noqa: E402

import wego_torch  # noqa: E402
from pytorch_nndct.apis import torch_quantizer  # noqa: E402
from pytorch_nndct.messages import VAIQError  # noqa: E402
from wego_torch.messages import WegoError  # noqa: E402

runs = runs
Pair = collections.namedtuple("Pair", "scores largest")


@dataclasses.dataclass(frozen=True)
class Found:
    maps: Any
    pair: Any
    loss: Any = None


class Dictionary(Small):
    def forward(self, x):
        found = self.features(x)
        return {"z": found, "a": self.last(found.mean((2, 3)))}


class WithNone(Small):
    def forward(self, x):
        found = self.features(x)
        return {"z": found, "a": [self.last(found.mean((2, 3)))], "none": None, "name": "small"}


class Dataclass(Small):
    def forward(self, x):
        found = self.features(x)
        scores = self.last(found.mean((2, 3)))
        return Found([found], Pair(scores, {"m": found.amax((2, 3))}))


class Scaled(Small):
    """A network whose result depends on one of its numbers, and not on the other."""

    def forward(self, x, rate, note=""):
        found = self.last(self.features(x).mean((2, 3)))
        return found * 2 if rate == 16000 else found


def same(found, wanted):
    if isinstance(wanted, torch.Tensor):
        return close(found, wanted)
    if not isinstance(wanted, dict | tuple | list | Found):
        return found == wanted
    assert type(found) is type(wanted)
    if isinstance(wanted, Found):
        found, wanted = vars(found), vars(wanted)
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        found, wanted = found.values(), wanted.values()
    return all(same(a, b) for a, b in zip(found, wanted, strict=True))


def quantized(net, *args):
    quantizer = torch_quantizer("calib", net, args)
    quantizer.quant_model(samples(), *args[1:])
    quantizer.export_quant_config()
    return torch_quantizer("test", net, args)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Dictionary, marks=pytest.mark.slow),
        pytest.param(WithNone, marks=pytest.mark.slow),
        Dataclass,
    ],
)
def test_results_keep_their_form(kind):
    net, x = seeded(kind(), 3), torch.randn(2, *SHAPE)
    with torch.no_grad():
        wanted = net(x)
    assert same(quantized(net, x).quant_model(x), wanted)
    made = wego_torch.quantize(net, [[1, *SHAPE]], [samples()], lambda model, b, i, d: model(b))
    assert isinstance(made, torch.jit.ScriptModule) == (kind is Dictionary)
    assert same(made(x), wanted)
    assert same(wego_torch.compile(made, wego_torch.CompileOptions())(x), wanted)


@pytest.mark.usefixtures("seed")
def test_torchscript_that_cannot_return_it():
    quantizer = quantized(seeded(WithNone(), 3), torch.randn(1, *SHAPE))
    quantizer.quant_model(torch.randn(1, *SHAPE))
    with pytest.raises(VAIQError, match="but TorchScript can return only tensors") as caught:
        quantizer.export_torch_script()
    assert caught.value.code == "QUANTIZER_TORCH_NO_SCRIPT_MODEL"


@pytest.mark.usefixtures("seed")
def test_numbers_that_the_trace_holds():
    net, x = seeded(Scaled(), 3), torch.randn(2, *SHAPE)
    with torch.no_grad():
        wanted = net(x, 16000, "")
    model = quantized(net, x, 16000, "").quant_model
    assert close(model(x, 16000, ""), wanted)
    assert close(model(x, 16000, "other"), wanted)  # changes nothing
    said = r"argument 'rate' is 8000, but was 16000 when it was traced"
    with pytest.raises(VAIQError, match=said):
        model(x, 8000, "")
    made = wego_torch.compile(model, wego_torch.CompileOptions())
    assert close(made(x, 16000, ""), wanted)
    with pytest.raises((WegoError, VAIQError), match=said):
        made(x, 8000, "")


@pytest.mark.usefixtures("seed", "forgotten_with_gradients")
@pytest.mark.parametrize(
    "around", [torch.no_grad, pytest.param(torch.inference_mode, marks=pytest.mark.slow)]
)
def test_no_gradients_inside_of_a_function(around, runs):
    net, mean = seeded(Small(), 3), torch.tensor([0.5, 0.4, 0.3]).reshape(1, 3, 1, 1)

    def predict(x):
        with around():
            return net(x - mean)

    made, x = on_dpu(predict), torch.randn(3, *SHAPE)
    found = made(x)
    assert runs == [3]
    assert not found.requires_grad
    assert close(found, predict(x))


@pytest.mark.usefixtures("seed", "forgotten_with_gradients")
def test_one_number_of_each_sample_or_of_one(runs):
    class Single(Small):
        def forward(self, x):
            return self.last(self.features(x).mean((2, 3)))[:, 0].squeeze()

    net = seeded(Single(), 3)
    made = on_dpu(net)
    with torch.no_grad():
        for count in (1, 3, 1):
            x = torch.randn(count, *SHAPE)
            assert made(x).shape == net(x).shape == (() if count == 1 else (count,))
    assert runs == [1, 3, 1]


@pytest.fixture
def forgotten_with_gradients():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
