# SPDX-License-Identifier: Apache-2.0
"""``opendpu compile`` of a PyTorch program."""

import json
import sys
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import ResNet, seeded  # noqa: E402

from opendpu import api  # noqa: E402
from opendpu.cli.app import app  # noqa: E402


@pytest.fixture
def program(tmp_path, rng):
    torch.manual_seed(int(rng.integers(1 << 31)))
    module = seeded(ResNet(), int(rng.integers(1 << 31)))
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
    assert "is a program of PyTorch, and needs torch, which is not installed" in result.stderr


def compile_script(folder, *options) -> object:
    arguments = ["compile", "net.pt", "--calib", "calib.npz", "--target", "B512", "-o", "n.xmodel"]
    named = [str(folder / word) if "." in word else word for word in arguments]
    return CliRunner().invoke(app, [*named, "--no-count", *options])


def test_torch_script_is_the_program(program):
    module, _, folder = program
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # PyTorch's, of all of torch.jit
        torch.jit.save(torch.jit.trace(module, torch.randn(1, 3, 16, 16)), folder / "net.pt")
    result = compile_script(folder)
    assert "TorchScript, which does not say shapes: give that of x, for example: " in result.stderr
    result = compile_script(folder, "--input-shape", "y=1,3,16,16")
    assert "net.pt has no input 'y'; its inputs are: x" in result.stderr
    result = compile_script(folder, "--input-shape", "x=1,3,16,16")
    assert result.exit_code == 0, result.output
    arguments = ["compile", str(folder / "net.pt2"), "--calib", str(folder / "calib.npz")]
    other = ["--target", "B512", "-o", str(folder / "other.xmodel"), "--no-count"]
    assert CliRunner().invoke(app, [*arguments, *other]).exit_code == 0
    first, second = (
        [part.get_attr("mc_code") for part in api.dpu_subgraphs(api.load(folder / name))]
        for name in ("n.xmodel", "other.xmodel")
    )
    assert first == second


def test_what_is_no_torch_script(program):
    module, _, folder = program
    for write, message in (
        (lambda path: torch.save(module.state_dict(), path), "files of torch.save need their"),
        (lambda path: path.write_bytes(b"hello"), "net.pt is no TorchScript (torch.jit.save): no"),
        (lambda path: path.unlink(), "net.pt: no such file"),
    ):
        write(folder / "net.pt")
        result = compile_script(folder, "--input-shape", "x=1,3,16,16")
        assert result.exit_code == 1
        assert message in result.stderr
    assert not (folder / "n.xmodel").exists()
