# SPDX-License-Identifier: Apache-2.0
"""Names, arguments and files that AMD's examples and public scripts use beside the guide's."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import seeded  # noqa: E402
from torch import nn  # noqa: E402

import pytorch_nndct  # noqa: E402
from nndct_shared.base import GLOBAL_MAP, NNDCT_KEYS, key_names  # noqa: E402
from nndct_shared.utils import NndctOption, option_util  # noqa: E402
from opendpu.quantize import QuantizeConfig  # noqa: E402
from opendpu_arch.errors import UnsupportedError  # noqa: E402
from pytorch_nndct.quantization import bfp, torchquantizer  # noqa: E402
from pytorch_nndct.utils import register_custom_op  # noqa: E402


def test_names_at_the_top():
    assert pytorch_nndct.Inspector is pytorch_nndct.apis.Inspector
    assert pytorch_nndct.torch_quantizer is pytorch_nndct.apis.torch_quantizer
    assert pytorch_nndct.dump_xmodel is pytorch_nndct.apis.dump_xmodel
    assert pytorch_nndct.QatProcessor is pytorch_nndct.apis.QatProcessor
    assert bfp is pytorch_nndct.bfp


def test_switches():
    option_util.set_option_value("nndct_leaky_relu_approximate", False)
    assert option_util.get_option_value("nndct_leaky_relu_approximate") is False
    assert option_util.get_option_value("nndct_never_set") is None
    with pytest.raises(UnsupportedError, match="option 'leaky' is unknown: names of options begin"):
        option_util.set_option_value("leaky", False)
    assert NndctOption.nndct_never_set.value == 0
    option_util.set_option_value("nndct_stat", 2)
    assert NndctOption.nndct_stat.value == 2
    with pytest.raises(AttributeError, match="NndctOption has no 'stat': names begin with nndct_"):
        NndctOption.stat  # noqa: B018


def test_names_that_scripts_of_the_model_zoo_import():
    assert torchquantizer.TORCHQuantizer is pytorch_nndct.torch_quantizer
    GLOBAL_MAP.set_map(NNDCT_KEYS.QUANT_MODE, "calib")
    assert GLOBAL_MAP.get_ele(key_names.NNDCT_KEYS.QUANT_MODE) == "calib"
    GLOBAL_MAP.del_ele(NNDCT_KEYS.QUANT_MODE)
    assert GLOBAL_MAP.get_ele(NNDCT_KEYS.QUANT_MODE) is None


def test_keys_of_example_configurations():
    plain = QuantizeConfig.from_json('{"target_device": "DPU"}')
    keys = {"target_device": "DPU", "change_concat_input_fix": True, "change_pool_input_fix": True,
            "onnx_opset_version": 14}  # fmt: skip
    assert QuantizeConfig.from_json(json.dumps(keys)) == plain


def test_custom_operations_that_are_mapped(seed):
    @register_custom_op("PublicScripts", attrs_list=["factor"], mapping_to_xir=True)
    def scaled(ctx, x: torch.Tensor, factor: float) -> torch.Tensor:
        return factor * x

    x = torch.randn(2, 3)
    assert torch.equal(scaled(x, 0.5), 0.5 * x)


@pytest.mark.parametrize(
    ("name", "text", "same_as"),
    [
        ("bfp.json", '{"data_format": "bfp", "bfp_bitwidth": 16, "bfp_tile_size": 8, '
         '"round_mode": "round_even", "approx_mode": "no_approx", "training": false}', None),
        ("bfp.yaml", "data_format: 'bfp'  # blocks\nbfp_bitwidth: 16\ntraining: false\n", None),
        ("mx9.yaml", "---\ndata_format: mx9\n", "mx9"),
    ],
)  # fmt: skip
def test_block_floating_point_by_file(name, text, same_as, seed):
    Path(name).write_text(text, encoding="utf-8")
    module = seeded(nn.Sequential(nn.Conv2d(8, 16, 1), nn.ReLU()), seed).eval()
    x = torch.randn(1, 8, 5, 5)
    found = bfp.quantize_model(module, x, name)(x)
    with torch.no_grad():
        wanted = module(x)
    noise = float((found - wanted).square().mean() / wanted.square().mean())
    assert 0 < noise < 1e-3
    if same_as:
        assert torch.equal(found, bfp.quantize_model(module, x, same_as)(x))
    else:
        assert torch.equal(found, bfp.quantize_model(module, x, config_file=name)(x))
        assert not torch.equal(found, bfp.quantize_model(module, x, "mx6")(x))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"data_format": "msfp"}', "data_format 'msfp' with 16 bits is unknown; there are"),
        ('{"bfp_bitwidth": 13}', "data_format 'bfp' with 13 bits is unknown"),
        ('{"bfp_tile_size": 16}', "bfp_tile_size is 16, but must be 8"),
        ('{"tile": 8}', "bad.json has no key 'tile'; keys are: data_format"),
        ("[]", "bad.json is no object with keys"),
        ("{", "bad.json cannot be read: "),
    ],
)
def test_what_files_cannot_say(text, message):
    Path("bad.json").write_text(text, encoding="utf-8")
    with pytest.raises(UnsupportedError, match=message):
        bfp.quantize_model(nn.ReLU(), torch.zeros(1, 8), "bad.json")


class Upscaling(nn.Module):
    """A network whose callers say a scale that it has a default for."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x: torch.Tensor, index: int = 0) -> torch.Tensor:
        return self.body(x)


def test_arguments_beyond_the_traced_ones(seed):
    module, x = seeded(Upscaling(), seed).eval(), torch.randn(2, 3, 6, 6)
    for mode in ("calib", "test"):
        quantizer = pytorch_nndct.torch_quantizer(mode, module, (x), device="cpu")
        found = quantizer.quant_model(x, 2)
        assert torch.equal(found, quantizer.quant_model(x, index=1))
        assert torch.equal(found, quantizer.quant_model(x))
        if mode == "calib":
            quantizer.export_quant_config()
    with pytest.raises(pytorch_nndct.messages.VAIQError, match="was traced with 1 tensor"):
        quantizer.quant_model(x, x)


def test_modes_of_early_releases(seed):
    module, x = seeded(nn.Sequential(nn.Conv2d(3, 4, 3)), seed).eval(), torch.randn(2, 3, 6, 6)
    quantizer = pytorch_nndct.torch_quantizer(1, module, x, device="cpu")
    quantizer.quant_model(x)
    quantizer.export_quant_config()
    found = pytorch_nndct.torch_quantizer(2, module, x, device="cpu").quant_model(x)
    wanted = pytorch_nndct.torch_quantizer("test", module, x, device="cpu").quant_model(x)
    assert torch.equal(found, wanted)
    for mode in (0, "float"):
        with pytest.raises(
            UnsupportedError, match=f"quant_mode is {mode!r}, but must be one of ca"
        ):
            pytorch_nndct.torch_quantizer(mode, module, x, device="cpu")


class Enhancing(nn.Module):
    """As networks for images of any size are: convolutions, a way around, pixel shuffle."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 8, 3, padding=1)
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
        self.tail = nn.Sequential(nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.head(x)
        return self.tail(self.body(x) + x)


def test_calibrated_with_patches_deployed_for_frames(seed):
    module, patches = seeded(Enhancing(), seed).eval(), torch.randn(8, 3, 8, 8)
    quantizer = pytorch_nndct.torch_quantizer("calib", module, patches, device="cpu")
    quantizer.quant_model(patches)
    quantizer.export_quant_config()
    frame = torch.randn(1, 3, 12, 20)
    frame[:, :, :8, :8] = patches[:1]
    small, large = (
        pytorch_nndct.torch_quantizer("test", module, one, device="cpu").quant_model(one)
        for one in (patches[:1], frame)
    )
    assert large.shape == (1, 3, 24, 40)
    inner = (slice(None), slice(None), slice(0, 9), slice(0, 9))  # nothing of the rest is seen
    assert torch.equal(large[inner], small[inner])
