# SPDX-License-Identifier: Apache-2.0
"""One quantizer called with sentences of several lengths, in both modes."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from torch import nn  # noqa: E402

from pytorch_nndct.apis import torch_quantizer  # noqa: E402
from pytorch_nndct.messages import VAIQError  # noqa: E402


class Speech(nn.Module):
    """Takes any length."""

    def __init__(self):
        super().__init__()
        self.deep = nn.Conv1d(4, 4, 5, stride=2, padding=2, groups=4, bias=False)
        self.wide, self.norm = nn.Conv1d(4, 8, 1), nn.BatchNorm1d(8)

    def forward(self, x):
        return torch.relu(self.norm(self.wide(self.deep(x))))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def sentence(length, seed=0):
    return torch.randn(1, 4, length, generator=torch.Generator().manual_seed(seed + length))


def in_test_mode(example):
    torch.manual_seed(3)
    return torch_quantizer("test", Speech().eval(), example, device="cpu")


def calibrated(capsys):
    torch.manual_seed(3)
    module = Speech().eval()
    quantizer = torch_quantizer("calib", module, sentence(32), device="cpu")
    for length in (24, 24, 40, 24, 56):
        x = sentence(length)
        assert torch.equal(quantizer.quant_model(x), module(x))
    capsys.readouterr()
    quantizer.export_quant_config()


def test_other_lengths_are_computed_but_not_calibrated_with(capsys):
    torch.manual_seed(3)
    module = Speech().eval()
    quantizer = torch_quantizer("calib", module, sentence(32), device="cpu")
    for length in (24, 40, 24, 56):
        x = sentence(length)
        assert torch.equal(quantizer.quant_model(x), module(x))
    shown = capsys.readouterr().out
    assert shown.count("not calibrated with") == 1
    assert "[1, 4, 40]" in shown
    assert quantizer.quant_model.reservoir.kept == 2
    with pytest.raises(VAIQError, match=r"has shape \[1, 3, 24\]"):
        quantizer.quant_model(torch.zeros(1, 3, 24))


def test_every_length_gives_what_a_quantizer_of_it_gives(capsys):
    calibrated(capsys)
    quantizer = in_test_mode(sentence(32))
    lengths = (40, 24, 40, 32, 24)
    found = [quantizer.quant_model(sentence(n, seed)) for seed, n in enumerate(lengths)]
    assert capsys.readouterr().out.count("tracing Speech") == 3  # 32, 40, 24
    for seed, (length, result) in enumerate(zip(lengths, found, strict=True)):
        x = sentence(length, seed)
        assert torch.equal(in_test_mode(x).quant_model(x), result)
    with pytest.raises(VAIQError, match=r"has shape \[1, 3, 24\]"):
        quantizer.quant_model(torch.zeros(1, 3, 24))
    assert torch.equal(quantizer.quant_model(sentence(24, 4)), found[4])
    quantizer.export_xmodel()  # of the last call's length
