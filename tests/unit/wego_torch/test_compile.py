# SPDX-License-Identifier: Apache-2.0
"""``wego_torch.quantize`` and ``compile``: what runs on the DPU gives what the runner gives."""

import json
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import ResNet, seeded  # noqa: E402
from small_nets import Joining, TwoHeads, compiled, loaded  # noqa: E402

import wego_torch  # noqa: E402
from opendpu import api  # noqa: E402
from opendpu.frontend.pytorch import load_torch  # noqa: E402
from opendpu.ir import Quantization  # noqa: E402
from opendpu.quantize import quantize  # noqa: E402
from opendpu_arch.errors import UnsupportedError  # noqa: E402
from pytorch_nndct.apis import torch_quantizer  # noqa: E402
from pytorch_nndct.messages import VAIQError  # noqa: E402
from wego_torch import (  # noqa: E402
    AccuracyMode,
    CompileOptions,
    DebugOptions,
    DynamoCompileOptions,
    InputMeta,
    PartitionOptions,
    build,
)
from wego_torch.network import Network  # noqa: E402
from wego_torch.script import artefacts_of  # noqa: E402

RESERVE = AccuracyMode.ReserveReduantFixNeurons


def feed(model, batch, index, device):
    """Call a model with a batch, as a user's calibrator does."""
    model(*(one.to(device) for one in batch))


def quantized(module, *shapes, **options):
    """Return a module quantized with random batches."""
    batches = [[torch.randn(shape) for shape in shapes] for _ in range(2)]
    return wego_torch.quantize(module, shapes, batches, feed, **options)


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    """Return a quantized network; nobody changes it."""
    folder = tmp_path_factory.mktemp("resnet")
    return quantized(seeded(ResNet(), 7), [4, 3, 16, 16], output_dir=folder)


def test_results_are_those_of_the_runner(resnet):
    meta = [InputMeta(torch.float, [1, 3, 16, 16])]
    made = wego_torch.compile(resnet, CompileOptions(inputs_meta=meta, accuracy_mode=RESERVE))
    assert isinstance(made, torch.jit.ScriptModule)
    images = torch.randn(3, 3, 16, 16)
    assert torch.equal(made(images), resnet(images))
    (artefact,) = artefacts_of(made)
    Path("by_hand.xmodel").write_bytes(artefact.model)
    feeds = {artefact.inputs[0]: images.permute(0, 2, 3, 1).contiguous().numpy()}
    with api.create_runner("by_hand.xmodel", device="iss") as runner:
        found, _ = api.run_batch(runner, feeds, floats=True)
    assert torch.equal(made(images), torch.from_numpy(found[artefact.outputs[0]]))


@pytest.mark.parametrize("device", ["ref", "iss"])
def test_devices(resnet, device, monkeypatch):
    images = torch.randn(2, 3, 16, 16)
    made = wego_torch.compile(resnet, CompileOptions(device=device))
    (artefact,) = artefacts_of(made)
    assert artefact.device == device
    assert {part["device"] for part in artefact.report["subgraphs"]} >= {"DPU"}
    assert torch.equal(made(images), resnet(images))


def test_a_saved_module_is_loaded_and_runs(resnet):
    made = wego_torch.compile(resnet)
    made.save("resnet.wg")
    images = torch.randn(2, 3, 16, 16)
    again = loaded("resnet.wg")
    assert torch.equal(again.eval()(images), made(images))
    with pytest.raises(wego_torch.WegoError, match=r"WEGO_TORCH_INVALID_MODEL\] .* is compiled"):
        wego_torch.compile(again)


def test_any_number_of_samples_from_several_threads(resnet):
    made = wego_torch.compile(resnet)
    images = torch.randn(7, 3, 16, 16)
    wanted = resnet(images)
    found = {}

    def work(number):
        found[number] = made(images[number : number + 2])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(found[n], wanted[n : n + 2]) for n in range(6))
    assert made(images[:0]).shape == (0, 10)


def test_several_inputs_and_nested_results(seed):
    net = seeded(TwoHeads(), seed)
    inputs = (torch.randn(4, 3, 8, 8), torch.randn(4, 3, 8, 8))
    quantizer = torch_quantizer("calib", net, inputs, device="cpu")
    quantizer.quant_model(*inputs)
    quantizer.export_quant_config()
    model = torch_quantizer("test", net, inputs, device="cpu").quant_model
    made = wego_torch.compile(model, CompileOptions(accuracy_mode=RESERVE))
    found, wanted = made(*inputs), model(*inputs)
    assert found.keys() == wanted.keys()
    assert found["scale"] == 2
    assert torch.equal(found["map"], wanted["map"])
    torch.testing.assert_close(found["classes"][0], wanted["classes"][0])


def test_a_quantized_module_inside_another(resnet, seed):
    """What is around a quantized network is PyTorch's."""

    class Program(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = resnet

        def forward(self, x):
            found = self.net(x * 2)
            return torch.argsort(found, -1) if float(x.sum()) > 0 else found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        program = torch.jit.script(Program())
    made = wego_torch.compile(program)
    images = torch.randn(2, 3, 16, 16)
    images -= images.sum() / images.numel() - 1
    assert made(images).dtype == torch.int64
    assert torch.equal(made(images), Program()(images))
    assert torch.equal(made(images - 2), resnet(2 * (images - 2)))


def test_a_network_that_mixes_samples(seed):
    net = quantized(seeded(Joining(), seed), [4, 6])
    made = wego_torch.compile(net, CompileOptions(accuracy_mode=RESERVE))
    x = torch.randn(4, 6)
    torch.testing.assert_close(made(x), net(x))
    with pytest.raises(wego_torch.WegoError, match=r"shape \[2, 6\], .* compiled for \[4, 6\]"):
        made(torch.randn(2, 6))


def test_the_results_of_a_calibration(seed):
    net = seeded(ResNet(), seed)
    quantizer = torch_quantizer("calib", net, [[2, 3, 16, 16]], device="cpu", dynamo=True)
    for _ in range(4):
        quantizer.quant_model(torch.randn(2, 3, 16, 16))
    quantizer.export_quant_config()
    options = CompileOptions(
        dynamo=True, dynamo_options=DynamoCompileOptions(quantize_result_path="quantize_result")
    )
    made = wego_torch.compile(net, options)
    test = torch_quantizer("test", net, torch.randn(1, 3, 16, 16), device="cpu")
    images = torch.randn(3, 3, 16, 16)
    assert torch.equal(made(images), test.quant_model(images))
    test.export_xmodel()
    assert torch.equal(made(images), compiled("quantize_result/ResNet_int.xmodel", images))
    with pytest.raises(VAIQError, match=r"BIAS_CORRECTION\].*is of other weights"):
        wego_torch.compile(seeded(ResNet(), seed + 1), options)
    with pytest.raises(wego_torch.WegoError, match=r"needs dynamo_options="):
        wego_torch.compile(net, CompileOptions(dynamo=True))


class Island(torch.nn.Module):
    """Two parts for the DPU with an operator of the CPU in between."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.second = torch.nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return torch.relu(self.second(torch.tanh(torch.sin(x))))


def test_small_parts_stay_on_the_cpu(seed):
    net = quantized(seeded(Island(), seed), [2, 3, 16, 16])
    counts = []
    for least in (0, 1, 50):
        options = CompileOptions(partition_options=PartitionOptions(least))
        made = wego_torch.compile(net, options)
        (artefact,) = artefacts_of(made)
        parts = [p for p in artefact.report["subgraphs"] if p["device"] == "DPU"]
        assert all(len(part["ops"]) > least for part in parts)
        counts.append(len(parts))
        images = torch.randn(2, 3, 16, 16)
        noise = (made(images) - net(images)).square().sum() / net(images).square().sum()
        assert noise < 1e-2
    assert counts[0] >= 1
    assert counts[-1] == 0
    why = next(iter(artefact.report["on_cpu"].values()))
    assert "parts with 50 or fewer were asked to stay on the CPU" in why


def test_accuracy_mode_decides_about_rounding_on_the_cpu(seed):
    """An activation that no DPU has, between others: its result is rounded, or not."""

    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)

        def forward(self, x):
            x = torch.relu(self.conv(x))
            return torch.sigmoid(torch.nn.functional.softplus(x) * 3)

    images = torch.randn(8, 3, 8, 8)
    graph = quantize(load_torch(seeded(Head(), seed), images), {"x": images.numpy()})
    (last,) = graph.outputs
    assert graph[last].kind == "sigmoid", "the CPU's result is float"
    rounded = graph.copy()
    made = rounded.add_fix(f"{last}_fix", last, Quantization.power_of_two(5))
    rounded.outputs = [made.name]
    results = []
    for mode in (RESERVE, AccuracyMode.Default):
        options = CompileOptions(accuracy_mode=mode)
        artefact = build.compiled(rounded, ["x"], options, batched=True)
        assert any(part["device"] == "DPU" for part in artefact.report["subgraphs"])
        results += Network(artefact).run([images[:3]])
    steps = results[0] * 32
    assert torch.equal(steps, steps.round())
    assert not torch.equal(results[1] * 32, (results[1] * 32).round())
    assert float((results[0] - results[1]).abs().max()) <= 1 / 64
    plain = build.compiled(graph, ["x"], CompileOptions(), batched=True)
    assert torch.equal(Network(plain).run([images[:3]])[0], results[1])


def test_what_is_compiled_is_kept(resnet, monkeypatch):
    wego_torch.compile(resnet)

    def never(*args, **kwargs):
        raise AssertionError("compiled again")

    monkeypatch.setattr(api, "compile_graph", never)
    made = wego_torch.compile(resnet)
    assert torch.equal(made(torch.ones(1, 3, 16, 16)), resnet(torch.ones(1, 3, 16, 16)))
    with pytest.raises(AssertionError, match="compiled again"):
        wego_torch.compile(resnet, CompileOptions(target="DPUCZDX8G_ISA1_B1024"))


def test_accuracy_debug_writes_what_parts_take_and_give(resnet):
    made = wego_torch.compile(
        resnet, CompileOptions(debug_options=DebugOptions(True), device="iss")
    )
    made(torch.randn(2, 3, 16, 16))
    (place,) = Path("wego_debug").iterdir()
    found = json.loads((place / "differences.json").read_text())
    assert found
    assert all(one["differing"] == 0 and one["of"] for one in found.values())
    arrays = [np.load(path) for path in place.glob("*.npz")]
    assert any(set(found) & set(one.files) for one in arrays)


def test_errors(resnet):
    with pytest.raises(wego_torch.WegoError, match=r"INVALID_MODEL\] module ResNet is not quant"):
        wego_torch.compile(ResNet())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.trace(ResNet().eval(), torch.ones(1, 3, 16, 16))
        frozen = torch.jit.freeze(resnet.eval())
    with pytest.raises(wego_torch.WegoError, match="has no quantized network"):
        wego_torch.compile(scripted)
    with pytest.raises(wego_torch.WegoError, match="was frozen"):
        wego_torch.compile(frozen)
    meta = [InputMeta(torch.float, [1, 3, 8, 8])]
    with pytest.raises(
        wego_torch.WegoError, match=r"INVALID_ARGUMENT\] inputs_meta says torch.float32 \[1, 3, 8,"
    ):
        wego_torch.compile(resnet, CompileOptions(inputs_meta=meta))
    with pytest.raises(wego_torch.WegoError, match="thread_parallel is -1, but must be an integer"):
        CompileOptions(thread_parallel=-1)
    made = wego_torch.compile(resnet)
    with pytest.raises(
        wego_torch.WegoError,
        match=r"^\[WEGO_TORCH_INVALID_ARGUMENT\] input 'x' has shape \[1, 3, 8, 8\], but the mod",
    ):
        made(torch.randn(1, 3, 8, 8))
    with pytest.raises(
        wego_torch.WegoError, match=r"WEGO_TORCH_RUNTIME_ERROR\].*float32 values are not all finite"
    ):
        made(torch.full((1, 3, 16, 16), torch.nan))
    result = made(torch.randn(1, 3, 16, 16, requires_grad=True))
    with pytest.raises(UnsupportedError, match="gradients are asked for, but a quantized network"):
        result.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_inputs_of_other_types(resnet, dtype):
    made = wego_torch.compile(resnet)
    images = torch.randn(2, 3, 16, 16).to(dtype)
    found = made(images)
    assert found.dtype is torch.float32
    assert torch.equal(found, made(images.float()))
    assert torch.equal(resnet(images), resnet(images.float()))


def test_a_module_is_called_while_another_thread_exports(seed, monkeypatch):
    """What says that PyTorch exports is one flag for the whole process."""
    net, example = seeded(ResNet(), seed).eval(), (torch.randn(1, 3, 16, 16),)
    quantizer = torch_quantizer("calib", net, example)
    quantizer.quant_model(torch.randn(4, 3, 16, 16))
    quantizer.export_quant_config()
    quantizer = torch_quantizer("test", net, example)
    images = torch.randn(2, 3, 16, 16)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(torch.compiler, "_is_compiling_flag", True)
        found = quantizer.quant_model(images)
    assert torch.equal(quantizer.export_torch_script()(images), found)


def test_modules_of_other_types_are_refused():
    with pytest.raises(
        VAIQError, match=r"ResNet has '\S+' in torch.float16, but the quantizer takes torch.float32"
    ):
        quantized(ResNet().half(), [1, 3, 16, 16])


def test_an_empty_loader(seed):
    with pytest.raises(wego_torch.WegoError, match="no batch to calibrate with"):
        wego_torch.quantize(ResNet(), [[1, 3, 16, 16]], [], feed)
    with pytest.raises(
        wego_torch.WegoError, match="input_shapes has 1, but must have lists of sizes"
    ):
        wego_torch.quantize(ResNet(), [1, 3, 16, 16], [], feed)
