# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's own quantizer has changed is refused by name, what it leaves in float is taken."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from torch import nn  # noqa: E402
from torch.ao import quantization  # noqa: E402

from opendpu.frontend.pytorch import load_torch  # noqa: E402
from opendpu_arch.errors import UnsupportedError  # noqa: E402

X = torch.randn(1, 3, 8, 8)


class Net(nn.Module):
    """Stubs around a convolution and a dense layer."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        x = self.relu(self.norm(self.conv(self.quant(x))))
        return self.dequant(self.fc(x.mean((2, 3))))


def prepared_for_training() -> nn.Module:
    net = Net().train()
    net.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    return quantization.prepare_qat(
        quantization.fuse_modules_qat(net, [["conv", "norm", "relu"]])
    ).eval()


def observed() -> nn.Module:
    net = Net().eval()
    net.qconfig = quantization.default_qconfig
    return quantization.prepare(net)


def dynamic() -> nn.Module:
    return quantization.quantize_dynamic(Net().eval(), {nn.Linear})


@pytest.fixture(autouse=True)
def deprecated():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.mark.parametrize("make", [prepared_for_training, observed, dynamic])
def test_it_is_said_which_part_it_is(make):
    net = make()
    with pytest.raises(UnsupportedError, match=r"changed by torch\.ao\.quantization") as caught:
        load_torch(net, (X,))
    assert caught.value.code == "QUANTIZER_TORCH_PYTORCH_TRACE"
    assert "give the float module as it was before" in str(caught.value)
    named = str(caught.value).split("'")[1]
    assert named in dict(net.named_modules())


def test_stubs_and_layers_in_a_row_are_float():
    net = quantization.fuse_modules(Net().eval(), [["conv", "norm", "relu"]])
    kinds = {node.kind for node in load_torch(net, (X,))}
    assert "conv2d" in kinds
