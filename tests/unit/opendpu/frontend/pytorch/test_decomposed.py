# SPDX-License-Identifier: Apache-2.0
"""Programs that PT2E quantization wrote: the operators of ``quantized_decomposed``."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from opendpu import api  # noqa: E402
from opendpu.cli.app import app  # noqa: E402
from opendpu.frontend.pytorch import load_program  # noqa: E402
from opendpu.frontend.pytorch.decomposed import NAMESPACE, register  # noqa: E402
from opendpu.ops.session import Session  # noqa: E402
from opendpu.requantization import load_for_quantizing  # noqa: E402

register()
Q = getattr(torch.ops, NAMESPACE)
UINT8, INT8 = (0, 255, torch.uint8), (-128, 127, torch.int8)
SHAPE = (1, 3, 12, 12)


def rounded(x, scale, zero, limits=UINT8):
    """Round a tensor as PT2E writes it: to integers within limits, and back."""
    stored = Q.quantize_per_tensor(x, scale, zero, *limits)
    return Q.dequantize_per_tensor(stored, scale, zero, *limits)


class Converted(torch.nn.Module):
    """Two convolutions with weights of 8 bits, a scale a channel, or powers of two, and a sum."""

    def __init__(self, seed: int, *, channel: bool = True, limits=UINT8) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.limits, self.zero, self.low = limits, *((131, 0) if channel else (128, 128))
        self.scales = (0.017, 0.031, 0.043) if channel else (2**-6, 2**-5, 2**-4)
        for name, shape in (("a", (8, 3, 3, 3)), ("b", (8, 8, 3, 3))):
            weight = torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator)
            scale = 0.002 + 0.003 * torch.rand(8, generator=generator, dtype=torch.float64)
            self.register_buffer(name, weight)
            self.register_buffer(f"{name}_scale", scale)
        self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))

    def weight(self, name):
        stored = getattr(self, name)
        if self.low == 128:
            return Q.dequantize_per_tensor(stored, 2**-8, 0, *INT8)
        scale = getattr(self, f"{name}_scale")
        return Q.dequantize_per_channel(stored, scale, self.zeros, 0, *INT8)

    def forward(self, x):
        first, second, third = self.scales
        x = rounded(x, first, self.zero, self.limits)
        y = rounded(torch.conv2d(x, self.weight("a"), padding=1).relu(), second, self.low)
        z = rounded(torch.conv2d(y, self.weight("b"), padding=1), third, self.zero)
        return rounded(y + z, third, self.zero)


@pytest.fixture
def seed(rng):
    return int(rng.integers(1 << 31))


@pytest.fixture
def samples(rng):
    return rng.uniform(-2, 2, (8, *SHAPE[1:])).astype(np.float32)


def saved(module, path):
    torch.export.save(torch.export.export(module.eval(), (torch.zeros(SHAPE),)), path)
    return path


def run(graph, values):
    """Return what a graph computes of images NCHW, in that order."""
    order = graph.attrs.get("onnx_order", {}).get("x", (0, 1, 2, 3))
    stacked = np.concatenate([
        next(iter(Session(graph).run({"x": one[None].transpose(order)}).values()))
        for one in values
    ])  # fmt: skip
    return stacked.transpose(np.argsort(order))


@pytest.mark.parametrize("limits", [UINT8, (0, 127, torch.uint8), (-127, 127, torch.int8)])
def test_it_computes_what_pytorch_does(limits, seed, samples):
    module = Converted(seed, limits=limits)
    if limits[0] < 0:
        module.zero = 3
        module.forward = lambda x: rounded(x, 0.017, 3, limits)
    program = torch.export.export(module, (torch.zeros(SHAPE),))
    with torch.no_grad():
        wanted = module(torch.from_numpy(samples)).numpy()
    found = run(load_program(program, any_scale=True), samples)
    step = module.scales[2] if limits[0] == 0 else module.scales[0]
    # Sums of floats in another order: a step of the first layer, rounded elsewhere, may be two.
    assert np.abs(found - wanted).max() < 2.01 * step
    assert np.mean(np.abs(found - wanted) < step / 2) > 0.99


def compile_(path, *args):
    return CliRunner().invoke(
        app, ["compile", str(path), "-o", str(path.with_suffix(".xmodel")), "--no-count", "--json",
              *args],
    )  # fmt: skip


def test_scales_of_any_kind_run_on_a_target_that_has_them(seed, samples, tmp_path):
    module = Converted(seed)
    result = compile_(saved(module, tmp_path / "net.pt2"), "--target", "B512+scaled")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["on_cpu"] == {}
    with api.create_runner(tmp_path / "net.xmodel", device="iss") as runner:
        (tensor,) = runner.get_output_tensors()
        ports = [np.ascontiguousarray(one[None].transpose(0, 2, 3, 1)) for one in samples]
        given = [np.clip(np.rint(one / 0.017) + 3, -128, 127).astype(np.int8) for one in ports]
        found = np.concatenate([runner.run({"x": one})[tensor.name] for one in given])
    with torch.no_grad():
        wanted = module(torch.from_numpy(samples)).numpy() / 0.043 + 3
    difference = np.abs(found.transpose(0, 3, 1, 2) - np.rint(wanted))
    assert difference.max() <= 1
    assert np.mean(difference > 0) < 0.01


def test_powers_of_two_run_on_any_dpu(seed, tmp_path):
    path = saved(Converted(seed, channel=False), tmp_path / "net.pt2")
    result = compile_(path, "--target", "B512")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["on_cpu"] == {}


def test_other_scales_are_changed_when_asked_only(seed, samples, tmp_path):
    path = saved(Converted(seed), tmp_path / "net.pt2")
    refused = compile_(path, "--target", "B512")
    assert refused.exit_code
    assert "first, QuantizeLinear" in refused.output.replace("\n", " ")
    assert "change the scales (--requantize)" in refused.output.replace("\n", " ")
    from_ranges = compile_(path, "--target", "B512", "--requantize")
    assert from_ranges.exit_code == 0, from_ranges.output
    (note,) = json.loads(from_ranges.stdout)["remarks"]
    assert float(note.split(" dB")[0].split()[-1]) > 15
    np.savez(tmp_path / "calib.npz", x=samples)
    anew = compile_(
        path, "--target", "B512", "--requantize", "--calib", str(tmp_path / "calib.npz")
    )
    assert anew.exit_code == 0, anew.output
    assert json.loads(anew.stdout)["on_cpu"] == {}


def test_layers_without_a_range_are_counted(seed, tmp_path):
    """Quantizers for CPUs round only what layers take."""

    class Inputs(Converted):
        def forward(self, x):
            x = rounded(x, self.scales[0], self.zero)
            y = torch.nn.functional.hardswish(torch.conv2d(x, self.weight("a"), padding=1))
            return torch.conv2d(rounded(y, self.scales[1], self.zero), self.weight("b"))

    path = saved(Inputs(seed), tmp_path / "net.pt2")
    found = load_for_quantizing(path, requantize=True, has_samples=False)
    assert any("2 layers, the first 'conv2d', have no range" in note for note in found.report.notes)
    whole = saved(Converted(seed), tmp_path / "whole.pt2")
    found = load_for_quantizing(whole, requantize=True, has_samples=False)
    assert not any("have no range" in note for note in found.report.notes)


def test_wego_takes_scales_that_the_target_has(seed, samples):
    wego_torch = pytest.importorskip("wego_torch")
    module = Converted(seed)
    program = torch.export.export(module, (torch.zeros(SHAPE),))
    with pytest.raises(wego_torch.WegoError, match=r"first of \d+ operators is QuantizeLinear"):
        wego_torch.compile(program, wego_torch.CompileOptions(target="B512"))
    options = wego_torch.CompileOptions(target="B512+scaled", device="ref")
    found = wego_torch.compile(program, options)(torch.from_numpy(samples))
    with torch.no_grad():
        wanted = module(torch.from_numpy(samples))
    assert (found - wanted).abs().max() < 1.01 * 0.043
    assert ((found - wanted).abs() < 0.02).float().mean() > 0.99
