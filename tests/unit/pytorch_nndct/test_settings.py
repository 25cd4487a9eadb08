# SPDX-License-Identifier: Apache-2.0
"""Strategies: parts that stay float, custom operations, bit widths, the guide's configurations."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import ResNet, seeded  # noqa: E402
from qat_nets import ResNet as QatNet  # noqa: E402
from small_nets import compiled, ratio  # noqa: E402
from torch import nn  # noqa: E402

from opendpu_arch.errors import UnsupportedError  # noqa: E402
from pytorch_nndct import bfp  # noqa: E402
from pytorch_nndct.apis import torch_quantizer  # noqa: E402
from pytorch_nndct.bfp import DTYPES  # noqa: E402
from pytorch_nndct.nn import DeQuantStub, QuantStub  # noqa: E402
from pytorch_nndct.utils import register_custom_op  # noqa: E402

RESULT = Path("quantize_result")


def calibrated(module, data, **options):
    quantizer = torch_quantizer("calib", module, (data,), device="cpu", **options)
    quantizer.quant_model(data)
    quantizer.export_quant_config()
    return torch_quantizer("test", module, (data,), device="cpu", **options)


def steps():
    return json.loads((RESULT / "quant_info.json").read_text())


class WholeModule(nn.Module):
    """The guide's example: subm0 and subm2 are quantized, subm1 is not."""

    def __init__(self):
        super().__init__()
        self.subm0 = nn.Conv2d(3, 4, 3)
        self.subm1 = nn.Conv2d(4, 4, 3)
        self.subm2 = nn.Conv2d(4, 4, 3)
        self.quant = QuantStub()
        self.dequant = DeQuantStub()

    def forward(self, input):
        input = self.quant(input)
        output0 = self.dequant(self.subm0(input))
        output1 = self.quant(self.subm1(output0))
        return self.dequant(self.subm2(output1))


def test_parts_between_stubs_are_quantized(seed):
    module, data = seeded(WholeModule(), seed).eval(), torch.randn(8, 3, 12, 12)
    quantizer = calibrated(module, data)
    found = steps()
    assert set(found["input"]) == {"input"}
    assert {name.split(".")[0] for name in found["param"]} == {"subm0", "subm2"}
    result = quantizer.quant_model(data)
    with torch.no_grad():
        assert ratio(result, module(data)) > 25
    quantizer.export_xmodel()
    assert torch.equal(compiled(RESULT / "WholeModule_0_int.xmodel", data[:2]), result[:2])


def test_stubs_around_everything_leave_nothing_out(seed, capsys):
    module, data = seeded(QatNet(), seed).eval(), torch.randn(8, 3, 16, 16)
    calibrated(module, data)
    assert "not deployable" not in capsys.readouterr().out
    assert len(steps()["param"]) == 14  # weights and biases of all layers


@register_custom_op(op_type="MyOp", attrs_list=["scale_1", "scale_2"])
def custom_op(ctx, x: torch.Tensor, y: torch.Tensor, scale_1: float, scale_2: float):
    return scale_1 * x + scale_2 * y


def test_custom_operations_stay_float(seed):
    class MyModule(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)
            self.other = nn.Conv2d(3, 4, 1)
            self.last = nn.Conv2d(4, 4, 1)

        def forward(self, x):
            return self.last(custom_op(self.conv(x), self.other(x), scale_1=2.0, scale_2=1.0))

    module, data = seeded(MyModule(), seed).eval(), torch.randn(8, 3, 8, 8)
    quantizer = calibrated(module, data)
    result = quantizer.quant_model(data)
    with torch.no_grad():
        assert ratio(result, module(data)) > 25
    quantizer.export_xmodel()
    assert torch.equal(compiled(RESULT / "MyModule_int.xmodel", data[:2]), result[:2])


def test_bit_width_of_all_tensors(seed, capsys):
    module, data = seeded(ResNet(), seed).eval(), torch.randn(16, 3, 16, 16)
    errors = {}
    with torch.no_grad():
        wanted = module(data)
    for width in (4, 8, 16):
        quantizer = calibrated(module, data, bitwidth=width)
        assert {found[0][0] for found in steps()["output"].values()} == {width}
        errors[width] = float((quantizer.quant_model(data) - wanted).square().mean())
    assert errors[16] < errors[8] < errors[4]
    capsys.readouterr()
    quantizer.export_xmodel()
    assert "[QUANTIZER_TORCH_XMODEL_DEVICE]: no .xmodel is written" in capsys.readouterr().out
    assert not list(RESULT.glob("*.xmodel"))


INT_CONFIG = {
    "convert_relu6_to_relu": False, "include_cle": False, "include_bias_corr": False,
    "target_device": "CPU", "quantizable_data_type": ["input", "weights", "bias", "activation"],
    "overall_quantize_config": {
        "bit_width": 8, "method": "maxmin", "round_mode": "half_even", "symmetry": True,
        "per_channel": False, "signed": True, "narrow_range": False, "scale_type": "float",
        "calib_statistic_method": "max",
    },
}  # fmt: skip
"""As the guide's int_config.json."""


def test_scales_that_are_no_powers_of_two(seed):
    Path("int_config.json").write_text(json.dumps(INT_CONFIG))
    module, data = seeded(ResNet(), seed).eval(), torch.randn(16, 3, 16, 16)
    quantizer = calibrated(module, data, quant_config_file="int_config.json")
    scale = steps()["output"]["ResNet::ResNet/Linear[fc]/linear"][0][1]
    found = quantizer.quant_model(data)
    with torch.no_grad():
        wanted = module(data)
        assert (found - wanted).square().mean() < 0.01 * wanted.square().mean()
    assert torch.allclose(found / scale[0], (found / scale[0]).round(), atol=1e-3)


def test_one_layer_by_its_name(seed):
    module, data = seeded(ResNet(), seed).eval(), torch.randn(16, 3, 16, 16)
    rule = {
        "layer_type": None, "layer_name": "ResNet::ResNet/Conv2d[conv1]/input.2",
        "quantizable_data_type": ["weights", "bias", "activation"],
        "overall_quantize_config": {"bit_width": 4},
    }  # fmt: skip
    Path("config.json").write_text(json.dumps({"layer_quantize_config": [rule]}))
    calibrated(module, data, quant_config_file="config.json")
    found = steps()["param"]
    assert found["conv1.weight"][0][0] == 4
    assert found["layer1.0.conv1.weight"][0][0] == 8


class Activations(nn.Module):
    """What the DPU has in another form only, before what it computes."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU6())
        self.second = nn.Sequential(nn.Conv2d(4, 4, 1), nn.SiLU())
        self.third = nn.Sequential(nn.Conv2d(4, 4, 1), nn.Sigmoid())
        self.last = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        return self.last(self.third(self.second(self.first(x))))


def warned(text, code):
    return [line for line in text.splitlines() if f"[VAIQ_WARN][{code}]: " in line]


def test_activations_that_are_replaced(seed, capsys):
    config = {"convert_relu6_to_relu": True, "convert_silu_to_hswish": True}
    Path("config.json").write_text(json.dumps(config))
    module, data = seeded(Activations(), seed).eval(), torch.randn(8, 3, 8, 8)
    calibrated(module, data, quant_config_file="config.json")
    text = capsys.readouterr().out
    assert warned(text, "QUANTIZER_TORCH_REPLACE_RELU6") == [
        "[VAIQ_WARN][QUANTIZER_TORCH_REPLACE_RELU6]: ReLU6 became ReLU: first.1"
    ]
    assert warned(text, "QUANTIZER_TORCH_REPLACE_SILU") == [
        "[VAIQ_WARN][QUANTIZER_TORCH_REPLACE_SILU]: SiLU became Hardswish: second.1"
    ]
    assert warned(text, "QUANTIZER_TORCH_REPLACE_SIGMOID") == [
        "[VAIQ_WARN][QUANTIZER_TORCH_REPLACE_SIGMOID]: Sigmoid became Hardsigmoid: third.1"
    ]


def test_block_floating_point(seed):
    module, data = seeded(ResNet(), seed).eval(), torch.randn(8, 3, 16, 16)
    with torch.no_grad():
        wanted = module(data)
        ratios = {d: ratio(bfp.quantize_model(module, data, dtype=d)(data), wanted) for d in DTYPES}
    assert 5 < ratios["mx6"] < ratios["mx9"] - 6
    with pytest.raises(UnsupportedError, match="dtype is 'mx4', but must be one of mx6, mx9"):
        bfp.quantize_model(module, data, dtype="mx4")
    with pytest.raises(UnsupportedError, match=r"bfp\.json cannot be read: "):
        bfp.quantize_model(module, data, config_file="bfp.json")


def test_scales_of_calibration_as_the_configuration_of_the_test(seed):
    """A public script names ``quant_info.json`` so that they are used, which they are anyway."""
    module, data = (
        seeded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), seed).eval(),
        (torch.randn(4, 3, 8, 8)),
    )
    wanted = calibrated(module, data).quant_model(data)
    found = torch_quantizer(
        "test", module, (data,), device="cpu", bitwidth=8,
        quant_config_file=str(RESULT.absolute() / "quant_info.json"),
    )  # fmt: skip
    assert torch.equal(found.quant_model(data), wanted)
    with pytest.raises(Exception, match="the configuration has no key 'param'"):
        torch_quantizer("calib", module, (data,), quant_config_file=str(RESULT / "quant_info.json"))
