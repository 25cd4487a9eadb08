# SPDX-License-Identifier: Apache-2.0
"""``opendpu compile`` of a PyTorch program."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

import torch_nets as nets  # noqa: E402

from opendpu import api  # noqa: E402
from opendpu.cli import app  # noqa: E402


@pytest.fixture
def program(tmp_path, rng):
    torch.manual_seed(int(rng.integers(1 << 31)))
    module = nets.seeded(nets.ResNet(), int(rng.integers(1 << 31)))
    torch.export.save(
        torch.export.export(module, (torch.randn(1, 3, 16, 16),)), tmp_path / "net.pt2"
    )
    samples = rng.standard_normal((16, 3, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "calib.npz", x=samples)
    return module, samples, tmp_path


def test_compiles_and_runs(program):
    module, samples, folder = program
    result = CliRunner().invoke(
        app,
        ["compile", str(folder / "net.pt2"), "--calib", str(folder / "calib.npz"), "--target",
         "B512", "-o", str(folder / "net.xmodel"), "--no-count", "--json"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["on_cpu"] == {}
    with api.create_runner(folder / "net.xmodel", device="iss") as runner:
        (tensor,) = runner.get_output_tensors()
        images = np.ascontiguousarray(samples[:4].transpose(0, 2, 3, 1))
        found = np.concatenate([runner.run({"x": image[None]})[tensor.name] for image in images])
    found = found * 2.0 ** -tensor.get_attr("fix_point")
    with torch.no_grad():
        wanted = module(torch.from_numpy(samples[:4])).numpy()
    noise = np.square(found - wanted).sum() / np.square(wanted).sum()
    assert -10 * np.log10(noise) > 15


def test_without_pytorch_it_says_what_to_install(program, monkeypatch):
    folder = program[-1]
    for name in [name for name in sys.modules if name.startswith("opendpu.frontend.pytorch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    result = CliRunner().invoke(
        app,
        ["compile", str(folder / "net.pt2"), "--target", "B512", "-o", str(folder / "o.xmodel")],
    )
    assert result.exit_code == 1
    assert "is a program of PyTorch, and needs torch: pip install 'opendpu[torch]'" in result.stderr
