# SPDX-License-Identifier: Apache-2.0
"""What cannot be exported says so, with the guide's ids, and writes nothing."""

import pathlib
import types
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")

from opendpu.ir import Quantization, QuantizedGraph  # noqa: E402
from pytorch_nndct.apis import torch_quantizer  # noqa: E402
from pytorch_nndct.export import onnx_file, xmodel  # noqa: E402
from pytorch_nndct.messages import VAIQError  # noqa: E402


def broken() -> QuantizedGraph:
    """Return a ReLU whose result has another shape than its input."""
    graph = QuantizedGraph("broken")
    graph.add("x", "data", (1, 4))
    graph.add_fix("x_fix", "x", Quantization.power_of_two(3))
    graph.add("y", "relu", (1, 5), {"input": ["x_fix"]})
    graph.outputs = [graph.add_fix("y_fix", "y", Quantization.power_of_two(3)).name]
    return graph


def network(graph: QuantizedGraph) -> Any:
    return types.SimpleNamespace(quantized=graph, deployable=True, batched=True)


def test_a_graph_that_xir_refuses(tmp_path: pathlib.Path) -> None:
    text = r"\[QUANTIZER_TORCH_EXPORT_XMODEL\]: .*XIR infers"
    with pytest.raises(VAIQError, match=text):
        xmodel.write(network(broken()), tmp_path, "Net", {}, deploy_check=False)
    assert not list(tmp_path.iterdir())


def test_an_operator_set_that_nobody_reads(tmp_path: pathlib.Path) -> None:
    graph = QuantizedGraph("net")
    graph.add("x", "data", (1, 4))
    graph.outputs = [graph.add_fix("x_fix", "x", Quantization.power_of_two(3)).name]
    with pytest.raises(VAIQError, match=r"\[QUANTIZER_TORCH_EXPORT_ONNX\]: .* is 3, but must be"):
        onnx_file.write(network(graph), tmp_path, "Net", {}, onnx_file.Choice(opset=3))
    assert not list(tmp_path.iterdir())


class Named(torch.nn.Module):
    """Takes a tensor by keyword."""

    def forward(self, x, *, other):
        return torch.relu(x + other)


def test_torchscript_of_a_module_with_keyword_arguments(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x = torch.randn(1, 4)
    call = (x, {"other": x})
    for mode in ("calib", "test"):
        found = torch_quantizer(mode, Named(), call, device="cpu")
        found.quant_model(x, other=x)
        if mode == "calib":
            found.export_quant_config()
    with pytest.raises(VAIQError, match=r"\[QUANTIZER_TORCH_NO_SCRIPT_MODEL\]: Named takes more"):
        found.export_torch_script()
    assert not list(tmp_path.rglob("*.pt"))


class Mixed(torch.nn.Module):
    """Returns what TorchScript cannot hold."""

    def forward(self, x):
        return {"a": torch.relu(x), "b": [x + 1, None]}, 3


def test_torchscript_of_results_that_it_does_not_have(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x = torch.randn(1, 4)
    for mode in ("calib", "test"):
        found = torch_quantizer(mode, Mixed(), (x,), device="cpu")
        made = found.quant_model(x)
        if mode == "calib":
            found.export_quant_config()
    assert made[1] == 3 and made[0]["b"][1] is None
    text = (r"\[QUANTIZER_TORCH_NO_SCRIPT_MODEL\]: Mixed returns tuple\(dict\('a': Tensor, "
            r"'b': list\(Tensor, NoneType\)\), int\), but TorchScript can return only")  # fmt: skip
    with pytest.raises(VAIQError, match=text):
        found.export_torch_script()
    assert not list(tmp_path.rglob("*.pt"))


def test_a_quantization_that_no_dpu_runs(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = types.SimpleNamespace(quantized=broken(), deployable=False, batched=True)
    xmodel.write(made, tmp_path, "Net", {}, deploy_check=False)
    text = "[VAIQ_WARN][QUANTIZER_TORCH_XMODEL_DEVICE]: no .xmodel is written: no DPU runs"
    assert text in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
