# SPDX-License-Identifier: Apache-2.0
"""The guide's Inspector: files, messages, devices of modules."""

import pathlib

import pytest

torch = pytest.importorskip("torch")

from pytorch_nndct.apis import Inspector  # noqa: E402 - needs torch
from pytorch_nndct.messages import VAIQError  # noqa: E402

CPU = torch.device("cpu")
STEM = "inspect_DPUCZDX8G_ISA1_B4096"


class Net(torch.nn.Module):
    """A convolution with batch normalization and ReLU, a hard-sigmoid with a shared scale."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.bn = torch.nn.BatchNorm2d(8)
        self.gate = torch.nn.Hardsigmoid()
        self.head = torch.nn.Conv2d(16, 4, 3)

    def forward(self, x):
        y = torch.relu(self.bn(self.conv(x)))
        return torch.softmax(self.head(torch.cat([y, self.gate(y)], 1)), 1)


def inspected(folder: pathlib.Path, **options):
    torch.manual_seed(0)  # whether scales decide depends on the weights
    inspector = Inspector("DPUCZDX8G_ISA1_B4096")
    given = (torch.randn(1, 3, 16, 16),)
    return inspector.inspect(Net().eval(), given, CPU, output_dir=folder, **options)


def test_modules_have_devices_and_source_lines(tmp_path: pathlib.Path) -> None:
    found = {node.name: node for node in inspected(tmp_path).nodes}
    (conv,) = [node for name, node in found.items() if name.endswith("conv")]
    assert (conv.device, conv.shape) == ("DPU", (1, 14, 14, 8))
    assert conv.source.startswith("test_inspector.py:")
    (soft,) = [node for node in found.values() if node.device == "CPU"]
    assert soft.message == "the DPU has no softmax"


def test_files(tmp_path: pathlib.Path) -> None:
    inspected(tmp_path, image_format="svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{STEM}.gv", f"{STEM}.svg", f"{STEM}.txt",
    ]  # fmt: skip


def test_what_is_printed(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspected(tmp_path)
    out = capsys.readouterr().out
    begin, end = (
        out.index(f"[VAIQ_NOTE]: {text}")
        for text in ("=>Start to inspect model...", "=>Finish inspecting.")
    )
    between = out[begin:end]
    assert "is assigned to the CPU: the DPU has no softmax" in between
    assert "[VAIQ_WARN][QUANTIZER_TORCH_INSPECTOR_PATTERN]: " in between
    assert "node name" in between
    assert "conv" not in between.split("node name")[1]
    inspected(tmp_path, verbose_level=2)
    assert "conv  " in capsys.readouterr().out.split("node name")[1]
    inspected(tmp_path, verbose_level=0)
    assert capsys.readouterr().out == ""


def test_without_a_gpu_the_cpu_is_taken(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    wrapped = torch.nn.DataParallel(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1)))
    found = Inspector("0x101000056010407").inspect(
        wrapped, torch.randn(1, 3, 8, 8), output_dir=tmp_path
    )
    out = capsys.readouterr().out
    assert "[VAIQ_WARN][QUANTIZER_TORCH_CUDA_UNAVAILABLE]: CUDA (HIP) is not" in out
    assert "[VAIQ_WARN][QUANTIZER_TORCH_DATA_PARALLEL]: " in out
    assert len(found.on("DPU")) == 1


@pytest.mark.parametrize("name", ["DPUCAHX8L_ISA0_SP", "0x603000b16013831"])
def test_targets_that_are_no_dpuczdx8g(name: str) -> None:
    with pytest.raises(VAIQError, match=r"\[VAIQ_ERROR\]\[QUANTIZER_TORCH_INSPECTOR_INPUT_FORMAT"):
        Inspector(name)


def test_an_unknown_format_writes_nothing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(VAIQError, match=r"OUTPUT_FORMAT\]: image format 'pdf' is unknown"):
        inspected(tmp_path, image_format="pdf")
    assert not list(tmp_path.iterdir())


def test_a_module_that_cannot_be_traced(tmp_path: pathlib.Path) -> None:
    class Branch(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(VAIQError, match=r"\[VAIQ_ERROR\]\[QUANTIZER_TORCH_PYTORCH_TRACE\]: "):
        Inspector("B4096").inspect(Branch(), torch.randn(1, 3), CPU, output_dir=tmp_path)
