# SPDX-License-Identifier: Apache-2.0
"""Quantization aware training: gradients, folding, what is deployed, and what is refused."""

import copy
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

import onnx  # noqa: E402
from frameworks.torch_nets import seeded  # noqa: E402
from qat_nets import ResNet  # noqa: E402
from small_nets import compiled, loaded, own_arithmetic, ratio  # noqa: E402
from torch import nn  # noqa: E402

from opendpu.quantize import TensorSpec  # noqa: E402
from opendpu.quantize.scales.grid import best_fix_point  # noqa: E402
from pytorch_nndct import QatProcessor  # noqa: E402
from pytorch_nndct.apis import torch_quantizer  # noqa: E402
from pytorch_nndct.messages import VAIQError  # noqa: E402
from pytorch_nndct.nn import DeQuantStub, QuantStub, functional  # noqa: E402
from pytorch_nndct.qat.layers import QuantizedLayer  # noqa: E402
from pytorch_nndct.qat.threshold import TrainedThreshold  # noqa: E402


def error(code, text):
    return pytest.raises(VAIQError, match=rf"^\[VAIQ_ERROR\]\[QUANTIZER_TORCH_{code}\]: .*{text}")


def test_thresholds_round_as_the_dpu_and_have_the_papers_gradients():
    quantizer = TrainedThreshold(8)
    quantizer.set_fix_point(6)  # scale 1/64, range -2 .. 1.984375
    assert quantizer.fix_point == 6
    x = torch.tensor([0.0, 1 / 128, -1 / 128, 0.3, 5.0, -5.0], requires_grad=True)
    found = quantizer(x)
    steps = torch.tensor([0, 1, 0, 19, 127, -128])  # halves up
    assert torch.equal(found * 64, steps.float())
    found.sum().backward()
    assert torch.equal(x.grad, torch.tensor([1.0, 1, 1, 1, 0, 0]))
    inside = (steps[:4] - x.detach()[:4] * 64).sum()
    wanted = torch.log(torch.tensor(2.0)) / 64 * (inside + 127 - 128)
    torch.testing.assert_close(quantizer.log2_threshold.grad, wanted.reshape(1))


def test_thresholds_begin_where_the_error_is_least():
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(20000, generator=generator)
    quantizer = TrainedThreshold(8)
    quantizer(values)
    errors = {}
    for point in range(10):
        grid = torch.clamp(torch.floor(values * 2.0**point + 0.5), -128, 127) / 2.0**point
        errors[point] = float((grid - values).square().sum())
    assert quantizer.fix_point == min(errors, key=errors.get)
    before = quantizer.log2_threshold.clone()
    quantizer(values * 100)
    assert torch.equal(quantizer.log2_threshold, before)


LAYERS = [
    (nn.Conv2d(4, 6, 3, 2, 1, groups=2), nn.BatchNorm2d(6), (4, 9, 9)),
    (nn.Conv1d(4, 6, 3, padding="same", bias=False), nn.BatchNorm1d(6, affine=False), (4, 9)),
    (nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2), nn.BatchNorm2d(6), (4, 5, 5)),
    (nn.Linear(4, 6), nn.BatchNorm1d(6), (4,)),
    (nn.Linear(4, 6), None, (4,)),
]


@pytest.mark.parametrize(("layer", "norm", "shape"), LAYERS)
def test_folding(layer, norm, shape, seed):
    parts = seeded(nn.Sequential(*(part for part in (layer, norm) if part is not None)), seed)
    parts = copy.deepcopy(parts).eval()
    x = torch.randn(5, *shape)
    found = QuantizedLayer(parts[0], parts[1] if norm is not None else None, 16).eval()
    with torch.no_grad():
        torch.testing.assert_close(found(x), parts(x), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(("layer", "norm", "shape"), [row for row in LAYERS if row[1] is not None])
def test_training_has_the_results_and_gradients_of_a_batch_normalization(layer, norm, shape, seed):
    parts = copy.deepcopy(seeded(nn.Sequential(layer, norm), seed)).train()
    wanted = copy.deepcopy(parts)
    x = 3 * torch.randn(8, *shape) + 1
    found = QuantizedLayer(parts[0], parts[1], 16).train()
    aim = torch.randn_like(wanted(x))
    wanted[1].load_state_dict(parts[1].state_dict())
    for module in (found, wanted):
        (module(x) * aim).sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(parts[1].running_var, wanted[1].running_var)
        torch.testing.assert_close(found(x), wanted(x), rtol=1e-2, atol=1e-2)
    largest = wanted[0].weight.grad.abs().max()
    torch.testing.assert_close(
        parts[0].weight.grad, wanted[0].weight.grad, rtol=0, atol=float(largest) / 50
    )


def test_biases_are_rounded_as_they_are_deployed(seed):
    layer = seeded(nn.Linear(4, 6), seed)
    found = QuantizedLayer(layer, None, 8, TensorSpec(bits=8))
    zero = found(torch.zeros(1, 4))[0]
    point = best_fix_point(layer.bias.detach().numpy())
    steps = torch.floor(layer.bias.detach() * 2.0**point + 0.5).clamp(-128, 127)
    assert torch.equal(zero.detach() * 2.0**point, steps)
    assert len(steps.unique()) > 1
    zero.sum().backward()
    assert torch.equal(layer.bias.grad, torch.ones(6))


def test_statistics_follow_the_data_until_they_are_frozen(seed):
    model = QatProcessor(seeded(ResNet(), seed), torch.randn(4, 3, 16, 16)).trainable_model()
    norm = model.model.conv1.norm
    seen = [norm.running_mean.clone()]
    for frozen in (False, True):
        if frozen:
            model.freeze_bn()
        model.train()(torch.randn(8, 3, 16, 16) + 3)
        seen.append(norm.running_mean.clone())
    model.eval()(torch.randn(8, 3, 16, 16))
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[1], seen[2])
    assert torch.equal(norm.running_mean, seen[2])


def test_before_training_it_computes_about_what_the_float_module_does(seed):
    module = seeded(ResNet(), seed).eval()
    model = QatProcessor(module, (torch.randn(4, 3, 16, 16),)).trainable_model().eval()
    x = torch.randn(16, 3, 16, 16)
    with torch.no_grad():
        assert ratio(model(x), module(x)) > 15
        assert torch.equal(model.float_module(module)(x), module(x))
    thresholds = list(model.quantizer_parameters())
    others = list(model.non_quantizer_parameters())
    assert all(threshold.shape == (1,) for threshold in thresholds)
    assert len(thresholds) + len(others) == len(list(model.parameters()))
    assert len(others) == len(list(module.parameters()))


def trained(module, steps, seed):
    """Train towards another network; return processor, model, and losses."""
    teacher = seeded(ResNet(), seed + 1).eval()
    processor = QatProcessor(module, torch.randn(4, 3, 16, 16))
    model = processor.trainable_model()
    groups = [
        {"params": model.quantizer_parameters(), "lr": 1e-2},
        {"params": model.non_quantizer_parameters(), "lr": 1e-3},
    ]
    optimizer = torch.optim.Adam(groups)
    losses = []
    model.train()
    for _ in range(steps):
        x = torch.randn(32, 3, 16, 16)
        with torch.no_grad():
            wanted = teacher(x)
        loss = (model(x) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return processor, model.eval(), losses


def test_training_and_what_is_deployed():
    seed = 1  # how far 25 steps come depends on the weights that they begin with
    torch.manual_seed(seed)
    module = seeded(ResNet(), seed)
    processor, model, losses = trained(module, 25, seed)
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    torch.save(model.state_dict(), "best.pth")
    again = processor.trainable_model()
    again.load_state_dict(torch.load("best.pth"))
    x = torch.randn(8, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(again.eval()(x), model(x))
    again.trained = True
    deployed = processor.to_deployable(again, "qat_result")
    found = deployed(x)
    with torch.no_grad():
        assert torch.equal(found, model(x))
    processor.export_xmodel("qat_result", deploy_check=True)
    assert torch.equal(compiled("qat_result/ResNet_0_int.xmodel", x), found)
    processor.export_torch_script("qat_result")
    assert torch.equal(loaded("qat_result/ResNet_int.pt")(x), found)
    other = QatProcessor(seeded(ResNet(), seed), torch.randn(1, 3, 16, 16))
    second = other.deployable_model("qat_result", used_for_xmodel=True)
    assert torch.equal(second(x), found)
    other.export_xmodel("second")
    assert Path("second/ResNet_0_int.xmodel").exists()


def begun(module, data, *, equalized):
    """Return a model that begins with the scales of a calibration."""
    Path("config.json").write_text(json.dumps({"include_cle": equalized}))
    options = {"device": "cpu", "quant_config_file": "config.json"}
    calibration = torch_quantizer("calib", module, (data,), **options)
    calibration.quant_model(data)
    calibration.export_quant_config()
    return QatProcessor(module, data).trainable_model("quantize_result").eval()


def test_scales_of_a_calibration_to_begin_with(seed):
    module, data = seeded(ResNet(), seed).eval(), torch.randn(16, 3, 16, 16)
    model = begun(module, data, equalized=False)
    assert all(bool(part.ready) for part in model.modules() if isinstance(part, TrainedThreshold))
    with torch.no_grad():
        assert ratio(model(data), module(data)) > 15


def small(seed):
    layers = (nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    return seeded(nn.Sequential(QuantStub(), *copy.deepcopy(layers), DeQuantStub()), seed)


def test_a_trained_state_and_the_float_module_of_it(seed, capsys):
    module, x = small(seed), torch.randn(2, 3, 6, 6)
    trained = QatProcessor(module, x).trainable_model()
    trained(x).sum().backward()
    other = QatProcessor(small(seed + 1), x)
    model = other.quant_model()
    assert other.quant_model() is model
    model.load_state_dict(trained.state_dict())
    found = other.convert_to_deployable(model, "out")
    said = capsys.readouterr().out
    assert "[QUANTIZER_TORCH_SCALE_VALUE]: " not in said
    assert "[QUANTIZER_TORCH_DEPRECATED_ARGUMENT]: " in said
    plain = small(seed + 2).eval()
    plain.load_state_dict(found.state_dict(), strict=True)
    assert not found.training
    with torch.no_grad():
        assert torch.equal(plain(x), found(x))
    quantized = torch_quantizer("test", plain, x, output_dir="out", device="cpu").quant_model
    deployed = other.to_deployable(model, "out")
    assert torch.equal(quantized(x), deployed(x))
    other.export_onnx_model("out", False, True, opset_version=17)
    other.export_xmodel("out", deploy_check=False, dynamic_batch=True)
    inputs = onnx.load("out/Sequential_int.onnx").graph.input
    assert inputs[0].type.tensor_type.shape.dim[0].dim_param


class Numbered(nn.Module):
    """Layers that tell where their inputs come from, as a YOLO's do."""

    def __init__(self):
        super().__init__()
        layers = (
            QuantStub(), nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Hardswish(), nn.MaxPool2d(2),
            nn.Upsample(scale_factor=2), functional.Add(), DeQuantStub(),
        )  # fmt: skip
        self.layers = nn.Sequential(*layers)
        for layer in self.layers:
            layer.source = (-1,)
        self.layers[6].source = (-1, 3)

    def forward(self, x):
        found = []
        for layer in self.layers:
            x = layer(*(x if k == -1 else found[k] for k in layer.source))
            found.append(x)
        return x


def test_what_code_has_put_on_layers(seed):
    module, x = seeded(Numbered(), seed), torch.randn(2, 3, 4, 4)
    processor = QatProcessor(module, x)
    model = processor.trainable_model()
    model(x).sum().backward()
    assert torch.equal(processor.to_deployable(model.eval(), "out")(x), model(x))


def test_scales_of_a_calibration_with_other_weights(seed, capsys):
    data = torch.randn(4, 3, 6, 6)
    begun(small(seed).eval(), data, equalized=False)
    model = QatProcessor(small(seed + 1), data).trainable_model("quantize_result")
    assert "quantize_result are of other weights" in capsys.readouterr().out
    parts = [part for part in model.modules() if isinstance(part, TrainedThreshold)]
    assert not any(bool(part.ready) for part in parts)
    model(data)
    assert all(bool(part.ready) for part in parts)


def test_scales_of_equalized_channels_are_of_other_numbers(capsys):
    # Taken for this module's, they cost up to 20 dB, and more with unlucky weights.
    module = seeded(ResNet(), 5).eval()
    data = torch.randn(16, 3, 16, 16, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():  # layers that equalization changes by much
        for layer in (module.layer1[0].conv1, module.layer1[1].conv1):
            layer.weight *= 2.0 ** torch.linspace(-6, 0, len(layer.weight)).view(-1, 1, 1, 1)
    model = begun(module, data, equalized=True)
    said = capsys.readouterr().out
    assert "calibration has equalized channels of " in said
    assert "the first batch decides the scales there" in said
    ready = [bool(part.ready) for part in model.modules() if isinstance(part, TrainedThreshold)]
    assert any(ready)
    assert not all(ready)
    plain = QatProcessor(module, data).trainable_model().eval()
    with torch.no_grad():
        wanted = module(data)
        first = ratio(plain(data), wanted)
        assert ratio(model(data), wanted) > min(15, first - 6)


def test_the_interface_of_torch_quantizer(seed, capsys):
    module, x = seeded(ResNet(), seed), torch.randn(2, 3, 16, 16)
    quantizer = torch_quantizer("calib", module, x, device="cpu", qat_proc=True)
    model = quantizer.quant_model
    assert model(x).shape == (2, 4)
    quantizer._processor.to_deployable(model.eval(), "out")
    assert "[QUANTIZER_TORCH_SCALE_VALUE]: " not in capsys.readouterr().out
    quantizer.deploy_model(x)
    quantizer.export_xmodel("out")
    assert Path("out/ResNet_0_int.xmodel").exists()


class Body(nn.Module):
    """A convolution, and something to be refused behind it."""

    def __init__(self, behind, stub=True):
        super().__init__()
        self.quant = QuantStub() if stub else nn.Identity()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.relu = nn.ReLU()
        self.add = functional.Add()
        self.dequant = DeQuantStub()
        self.behind = behind

    def forward(self, x):
        x = self.quant(x)
        return self.dequant(self.behind(self, x, self.relu(self.conv(x))))


X = torch.zeros(1, 3, 6, 6)


def test_a_stub_behind_a_change_of_shape(seed):
    class Pointwise(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = QuantStub(), DeQuantStub()
            self.conv, self.relu = nn.Conv2d(30, 24, 1), nn.ReLU()

        def forward(self, x):
            x = self.relu(self.conv(self.quant(x[:, :, None, None])))
            return self.dequant(x).squeeze(-1).squeeze(-1)

    module, x = seeded(Pointwise(), seed), torch.randn(16, 30)
    model = QatProcessor(module, x).trainable_model().eval()
    with torch.no_grad():
        assert model(x).shape == (16, 24)
        assert ratio(model(x), module(x)) > 15
    assert len(list(model.quantizer_parameters())) == 3


def test_the_name_that_the_guide_prints():
    import pytorch_qat

    assert pytorch_qat.QatProcessor is QatProcessor


def test_what_cannot_be_trained(capsys):
    fine = Body(lambda self, x, y: self.add(x, y))
    QatProcessor(fine, X).trainable_model()
    with error("INPUT_NOT_QUANTIZED", "the module calls no QuantStub"):
        QatProcessor(Body(lambda self, x, y: y, stub=False), X).trainable_model()
    with error(
        "NOT_A_MODULE", r"torch.add \(test_qat.py:\d+\) is to be quantized, but is no torch"
    ):
        QatProcessor(Body(lambda self, x, y: x + y), X).trainable_model()
    scores = Body(lambda self, x, y: self.add(x, (y * 0.3 @ y.transpose(2, 3)) @ (y * 0.7)))
    with error(
        "NOT_A_MODULE", r"torch.mul \(test_qat.py:\d+\) is to be quantized, but is no torch"
    ):
        QatProcessor(scores, X).trainable_model()
    twice = Body(lambda self, x, y: self.relu(self.conv(y)))
    with error("REUSED_MODULE", r"module 'relu' is called 2 times \(test_qat.py:\d+, test_qat.py:"):
        QatProcessor(twice, X).trainable_model()
    model = QatProcessor(twice, X).trainable_model(allow_reused_module=True)
    assert "[VAIQ_WARN][QUANTIZER_TORCH_REUSED_MODULE]: module 'conv'" in capsys.readouterr().out
    assert model(X).shape == X.shape
    with error("DATA_PARALLEL_NOT_ALLOWED", "the module is in torch.nn.DataParallel"):
        QatProcessor(nn.DataParallel(fine), X)
    QatProcessor(fine, X, device=torch.device("cpu"))
    assert "[QUANTIZER_TORCH_DEPRECATED_ARGUMENT]: " in capsys.readouterr().out


@pytest.mark.parametrize(
    "module",
    [nn.PReLU(3), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
     nn.Hardtanh(), nn.AdaptiveAvgPool2d(4)],
)  # fmt: skip
def test_modules_of_several_steps_are_named(module):
    name = type(module).__name__
    layers = [QuantStub(), nn.Conv2d(3, 3, 1), nn.ReLU(), module, nn.Conv2d(3, 3, 1), DeQuantStub()]
    with error("NOT_A_MODULE", rf"module '3' \({name}\) is several steps on the DPU"):
        QatProcessor(nn.Sequential(*layers), X).trainable_model()


def test_what_cannot_be_deployed(capsys):
    module = Body(lambda self, x, y: self.add(x, y))
    processor = QatProcessor(module, X)
    with error("QAT_PROCESS_ERROR", "call trainable_model, and train"):
        processor.to_deployable(module)
    with error("QAT_PROCESS_ERROR", "call to_deployable or deployable_model"):
        processor.export_xmodel()
    with error("NO_CALIB_RESULT", "quant_info.json cannot be used: it is missing"):
        processor.deployable_model("nowhere")
    model = processor.trainable_model()
    with error("QAT_DEPLOYABLE_MODEL_ERROR", "the trained model is Body"):
        processor.to_deployable(module)
    model.eval()(X)
    processor.to_deployable(model)
    assert "[QUANTIZER_TORCH_SCALE_VALUE]: " in capsys.readouterr().out
    with error("NO_FORWARD", "must be called at least once"):
        processor.export_xmodel()
    model.fuse_conv_bn()
    with error("QAT_DEPLOYABLE_MODEL_ERROR", "do not call fuse_conv_bn"):
        processor.to_deployable(model)


def test_a_deployable_model_has_normalizations_in_its_weights(seed):
    module = seeded(ResNet(), seed).eval()
    processor = QatProcessor(module, torch.randn(4, 3, 16, 16))
    model = processor.trainable_model()
    model.train()(torch.randn(8, 3, 16, 16) + 1)  # moves the statistics
    deployable = processor.to_deployable(model.eval(), "qat_result")
    state = deployable.state_dict()
    assert not [name for name in state if ".bn" in name or "running" in name]
    layers = [part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    assert len([name for name in state if name.endswith(".weight")]) == len(layers)
    assert len([name for name in state if name.endswith(".bias")]) == len(layers)
    x = torch.randn(4, 3, 16, 16)
    with torch.no_grad():
        wanted = model.float_module(module).eval()(x)
        torch.testing.assert_close(deployable.module(x), wanted, rtol=1e-4, atol=1e-4)
    again = QatProcessor(seeded(ResNet(), seed), x).deployable_model("qat_result")
    for name, value in again.state_dict().items():
        assert torch.equal(value, state[name]), name
    with torch.no_grad():
        assert torch.equal(again.module(x), deployable.module(x))


def test_normalizations_in_evaluation_mode_are_frozen(seed):
    model = QatProcessor(seeded(ResNet(), seed), torch.randn(4, 3, 16, 16)).trainable_model()
    model.train()
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.eval()
    before = [norm.running_mean.clone() for norm in norms]
    x = torch.randn(8, 3, 16, 16) + 3
    found = model(x)
    assert all(torch.equal(n.running_mean, b) for n, b in zip(norms, before, strict=True))
    model.eval()
    with torch.no_grad(), own_arithmetic(model):
        assert torch.equal(found, model(x))


FUNCTIONS = {
    "Cat": lambda f, y: f(x=[y[:, :4], y[:, 4:]], dim=1),
    "Pad": lambda f, y: f(y, (1, 1, 2, 0), mode="replicate"),
    "Max": lambda f, y: f(input=y, dim=2, keepdim=True)[0],
    "Sum": lambda f, y: f(y, (2, 3), keepdim=True),
    "Mean": lambda f, y: f(y, (2, 3), keepdim=True),
    "Upsample": lambda f, y: f(y, scale_factor=2, mode="nearest"),
    "Interpolate": lambda f, y: f(input=y, size=(12, 12), recompute_scale_factor=None),
    "AddScalar": lambda f, y: f(y, 0.5),
    "Add": lambda f, y: f(input=y, other=y),
    "Mul": lambda f, y: f(y, y),
}


class Functions(nn.Module):
    """A convolution, and behind it each operator as a module."""

    def __init__(self):
        super().__init__()
        self.quant, self.conv, self.relu = QuantStub(), nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()
        self.functions = nn.ModuleDict({name: getattr(functional, name)() for name in FUNCTIONS})
        self.dequants = nn.ModuleDict({name: DeQuantStub() for name in FUNCTIONS})

    def forward(self, x):
        y = self.relu(self.conv(self.quant(x)))
        return {
            name: self.dequants[name](call(self.functions[name], y))
            for name, call in FUNCTIONS.items()
        }


def test_operators_as_modules(seed):
    module, x = seeded(Functions(), seed).eval(), torch.rand(4, 3, 6, 6)
    processor = QatProcessor(module, x)
    model = processor.trainable_model()
    sum(result.square().sum() for result in model.train()(x).values()).backward()
    assert all(p.grad is not None for p in model.parameters())
    deployable = processor.to_deployable(model.eval(), "qat_result")
    with torch.no_grad():
        found, trained, wanted = deployable(x), model(x), module(x)
        for name in FUNCTIONS:
            assert ratio(found[name], wanted[name]) > 15, name
            assert torch.equal(found[name], trained[name]), name
