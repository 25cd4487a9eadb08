# SPDX-License-Identifier: Apache-2.0
"""A script in the guide's form: float, calib, test, deploy, inspect, finetuned."""

import runpy
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import ResNet, seeded  # noqa: E402
from small_nets import compiled, loaded  # noqa: E402

from opendpu.quantize import FinetuneConfig  # noqa: E402
from pytorch_nndct.apis import quantizer  # noqa: E402
from pytorch_nndct.messages import VAIQError  # noqa: E402

SCRIPT = Path(__file__).parent / "quantize_script.py"


@pytest.fixture
def run(monkeypatch, capsys, seed):
    torch.save(seeded(ResNet(), seed).state_dict(), "resnet.pth")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return capsys.readouterr().out

    return call


def images(count):
    return torch.randn(64, 3, 16, 16, generator=torch.Generator().manual_seed(3))[:count]


def test_calibrate_test_and_deploy(run):
    wanted = run("--quant_mode", "float")
    assert run("--quant_mode", "calib", "--subset_len", "48").count("[VAIQ_NOTE]: ")
    found = run("--quant_mode", "test")
    losses = [float(text.split("loss: ")[1].split()[0]) for text in (wanted, found)]
    assert losses[1] == pytest.approx(losses[0], rel=0.1)
    run("--quant_mode", "test", "--subset_len", "1", "--batch_size=1", "--deploy")
    written = {path.name for path in Path("quantize_result").iterdir()}
    assert written == {
        "ResNet.py", "ResNet.pth", "quant_info.json", "bias_corr.pth", "ResNet_int.xmodel",
        "ResNet_int.onnx", "ResNet_int.pt",
    }  # fmt: skip
    scripted = loaded("quantize_result/ResNet_int.pt")
    assert torch.equal(
        scripted(images(3)), compiled("quantize_result/ResNet_int.xmodel", images(3))
    )


def test_inspect(run):
    with pytest.raises(SystemExit):
        run("--quant_mode", "float", "--inspect", "--target", "DPUCZDX8G_ISA1_B4096")
    text = Path("quantize_result/inspect_DPUCZDX8G_ISA1_B4096.txt").read_text()
    assert "layer1.1.downsample.0" in text
    assert "torch.nn.Conv2d" in text


def test_finetune(run, monkeypatch):
    quick = FinetuneConfig(iterations=4, samples=8)
    monkeypatch.setattr(quantizer, "FINETUNING", quick)
    run("--quant_mode", "calib", "--subset_len", "32", "--fast_finetune")
    warning = "[VAIQ_WARN][QUANTIZER_TORCH_FAST_FINETUNE]: "
    said = run("--quant_mode", "test", "--fast_finetune", "--deploy")
    assert warning not in said
    tuned = loaded("quantize_result/ResNet_int.pt")(images(3))
    assert torch.equal(tuned, compiled("quantize_result/ResNet_int.xmodel", images(3)))
    said = run("--quant_mode", "test", "--deploy")
    assert "load_ft_param was not called" in said[said.index(warning) :]
    assert torch.equal(loaded("quantize_result/ResNet_int.pt")(images(3)), tuned)
    Path("quantize_result/param.pth").unlink()
    with pytest.raises(VAIQError, match=r"FAST_FINETUNE.*param\.pth cannot be used: no such file"):
        run("--quant_mode", "test", "--fast_finetune")
