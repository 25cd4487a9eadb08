# SPDX-License-Identifier: Apache-2.0
"""What an inspection, and a quantizer, remark about a module."""

import pathlib

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")

from torch import nn  # noqa: E402

from pytorch_nndct.apis import Inspector, torch_quantizer  # noqa: E402


def warnings_of(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    lines = [line for line in capsys.readouterr().out.splitlines() if "[VAIQ_WARN]" in line]
    found = (line.removeprefix("[VAIQ_WARN][").split("]: ", 1) for line in lines)
    return {line[0]: line[1] for line in found}


class Odd(nn.Module):
    """Has everything that is remarked."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4, affine=False)
        self.act = nn.LeakyReLU(0.1)
        self.table = nn.Embedding(7, 4)

    def forward(self, x, index):
        y = self.act(self.bn(self.conv(x)))
        return torch.erfc(y) + self.table(index)[:, :, None, None]


CALL = (torch.randn(1, 3, 8, 8), torch.zeros(1, dtype=torch.int64))


def test_an_inspection(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    Inspector("B4096").inspect(Odd().eval(), CALL, device="cpu", output_dir=tmp_path)
    found = warnings_of(capsys)
    assert found["QUANTIZER_TORCH_BATCHNORM_AFFINE"].startswith("BatchNorm2d 'bn' has affine=False")
    assert "has negative_slope 0.1, which becomes 0.101562" in found["QUANTIZER_TORCH_LEAKYRELU"]
    assert "is of int64 and stays so" in found["QUANTIZER_TORCH_TENSOR_TYPE_NOT_QUANTIZABLE"]
    assert found["QUANTIZER_TORCH_FLOAT_OP"].startswith("these operators stay in float: ")


def test_a_quantizer_of_an_ordinary_module_remarks_nothing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.LeakyReLU(26 / 256)).eval()
    torch_quantizer("calib", plain, CALL[:1], output_dir=tmp_path, device="cpu")
    assert not warnings_of(capsys)


def test_a_quantizer_remarks_slopes(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaky = nn.Sequential(nn.Conv2d(3, 4, 3), nn.LeakyReLU(0.1)).eval()
    torch_quantizer("calib", leaky, CALL[:1], output_dir=tmp_path, device="cpu")
    assert list(warnings_of(capsys)) == ["QUANTIZER_TORCH_LEAKYRELU"]
