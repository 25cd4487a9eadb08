# SPDX-License-Identifier: Apache-2.0
"""Results and arguments without axes (numbers): quantized and compiled modules have none either."""

import io

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

import onnxruntime  # noqa: E402
from frameworks.torch_nets import seeded  # noqa: E402
from small_programs import SHAPE, Small, samples  # noqa: E402

import wego_torch  # noqa: E402
from pytorch_nndct.apis import torch_quantizer  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:`torch.jit.{name}` is deprecated:DeprecationWarning")
    for name in ("save", "load")
]


class Scored(Small):
    """A network whose second result is a number, and whose third is one for a single sample."""

    def forward(self, x):
        found = self.features(x)
        return found, (found * found).mean(), found.mean((1, 2, 3)).squeeze()


class Squeezed(Small):
    """A network that gives a number for one sample, and one axis for several."""

    def forward(self, x):
        return self.last(self.features(x).mean((2, 3)))[:, :1].squeeze()


def feed(model, batch, index, device):
    model(batch)


def alike(found, wanted):
    assert [one.shape for one in found] == [one.shape for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=0.1, rtol=0.1)


@pytest.mark.usefixtures("seed")
def test_quantized_and_compiled():
    net, x = seeded(Scored(), 3), torch.randn(1, *SHAPE)
    with torch.no_grad():
        wanted = net(x)
    batches = [one[None] for one in samples()]
    quantized = wego_torch.quantize(net, [[1, *SHAPE]], batches, feed)
    alike(quantized(x), wanted)
    made = wego_torch.compile(quantized, wego_torch.CompileOptions())
    alike(made(x), wanted)
    content = io.BytesIO()
    torch.jit.save(made, content)
    content.seek(0)
    alike(torch.jit.load(content)(x), wanted)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("count", [1, 3])
def test_one_number_a_sample(count):
    net, x = seeded(Squeezed(), 3), torch.randn(count, *SHAPE)
    with torch.no_grad():
        wanted = net(x)
    quantized = wego_torch.quantize(net, [[1, *SHAPE]], [samples()], feed)
    made = wego_torch.compile(quantized, wego_torch.CompileOptions())
    for one in (quantized, made):
        assert one(x).shape == wanted.shape == (() if count == 1 else (count,))
        torch.testing.assert_close(one(x), wanted, atol=0.1, rtol=0.1)


@pytest.mark.usefixtures("seed")
def test_test_mode_and_its_onnx(folder):
    net, x = seeded(Scored(), 3), torch.randn(1, *SHAPE)
    with torch.no_grad():
        wanted = net(x)
    quantizer = torch_quantizer("calib", net, (x,))
    for one in samples():
        quantizer.quant_model(one[None])
    quantizer.export_quant_config()
    quantizer = torch_quantizer("test", net, (x,))
    alike(quantizer.quant_model(x), wanted)
    quantizer.export_onnx_model()
    session = onnxruntime.InferenceSession(folder / "quantize_result" / "Scored_int.onnx")
    found = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    alike([torch.from_numpy(one) for one in found], wanted)
