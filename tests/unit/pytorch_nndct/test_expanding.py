# SPDX-License-Identifier: Apache-2.0
"""AMD's expander: networks, specifications and files with channels filled up."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[optimizer])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[optimizer])")
pytest.importorskip("torch_pruning", reason="torch-pruning is not installed (opendpu[optimizer])")

import onnxruntime  # noqa: E402
from torch import nn  # noqa: E402

from opendpu_arch.errors import DPUError, ModelFormatError  # noqa: E402
from pytorch_nndct.expanding.expanding_lib import (  # noqa: E402
    expand_and_export,
    load_expanded_model,
)
from pytorch_nndct.expanding.spec import ExpandingSpec  # noqa: E402
from pytorch_nndct.expanding.structured import ExpandingRunner  # noqa: E402

INPUTS = torch.randn(1, 3, 8, 8)


@pytest.fixture
def model(seed):
    layers = nn.Conv2d(3, 10, 3), nn.BatchNorm2d(10), nn.ReLU(), nn.Flatten(), nn.Linear(360, 5)
    return nn.Sequential(*layers).eval()


def test_outputs_are_filled_up_with_zeros(seed):
    model = nn.Sequential(nn.Conv2d(3, 58, 3, padding=1), nn.Conv2d(58, 29, 1)).eval()
    larger, spec = ExpandingRunner(model, INPUTS).expand(64)
    assert (larger[0].out_channels, larger[1].in_channels, larger[1].out_channels) == (64, 64, 64)
    assert spec.added == {"0": 6, "1": 35}
    result = larger(INPUTS)
    torch.testing.assert_close(result[:, :29], model(INPUTS))
    assert not result[:, 29:].any()


def test_files_give_the_network_back(model):
    names = {
        "input_names": ["input"], "output_names": ["output"],
        "dynamic_axes": {"input": {0: "batch_size"}, "output": {0: "batch_size"}},
    }  # fmt: skip
    expand_and_export("net", model, INPUTS, [4, 16], "out", names)
    wanted = model(INPUTS).detach()
    for multiple in (4, 16):
        folder = Path("out") / f"net_padded_{multiple}"
        found = load_expanded_model(folder / "expanding_spec", model, INPUTS, folder / "net.pth")
        assert found[0].out_channels == 12 if multiple == 4 else 16
        torch.testing.assert_close(found.eval()(INPUTS), wanted)
        session = onnxruntime.InferenceSession(folder / "net_fp32.onnx")
        (result,) = session.run(None, {"input": INPUTS.expand(3, -1, -1, -1).numpy()})
        torch.testing.assert_close(torch.tensor(result), wanted.expand(3, -1), rtol=1e-4, atol=1e-5)
        assert (folder / "net_fp16.onnx").is_file()


def test_what_is_wrong_is_said(model):
    runner = ExpandingRunner(model, INPUTS)
    with pytest.raises(DPUError, match="channel_divisible is 0"):
        runner.expand(0)
    with pytest.raises(DPUError, match="no module"):
        runner.expand(4, ["nothing"])
    with pytest.raises(ModelFormatError, match="'other'"):
        runner.expand_from_spec(ExpandingSpec(4, {"other": 2}))
    for text in ("[]", "{", json.dumps({"channel_divisible": 4, "added": {"0": "x"}, "kept": {}})):
        with pytest.raises(ModelFormatError, match="no expanding specification"):
            ExpandingSpec.from_string(text)
    with pytest.raises(ModelFormatError, match="nowhere"):
        load_expanded_model("nowhere", model, INPUTS, "net.pth")
