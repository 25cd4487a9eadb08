# SPDX-License-Identifier: Apache-2.0
"""Names, arguments and settings that AMD's examples and public scripts use beside the guide's."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from opendpu_arch.errors import DPUError  # noqa: E402
from tensorflow_model_optimization.python.core.quantization.keras.vitis import (  # noqa: E402
    vitis_inspect,
    vitis_quantize,
)
from tensorflow_model_optimization.quantization.keras import (  # noqa: E402
    vitis_inspect as public_inspect,
)
from tensorflow_model_optimization.quantization.keras import (  # noqa: E402
    vitis_quantize as public_quantize,
)
from tensorflow_model_optimization.quantization.keras.vitis.layers import (  # noqa: E402
    vitis_activation,
)

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def noise(found, wanted):
    return float(np.square(found - wanted).mean() / np.square(wanted).mean())


def test_other_places():
    assert vitis_quantize.VitisQuantizer is public_quantize.VitisQuantizer
    assert vitis_quantize.quantize_scope is public_quantize.quantize_scope
    assert vitis_inspect.VitisInspector is public_inspect.VitisInspector
    assert vitis_activation.__doc__


def test_types_and_blocks_need_no_data(model, images):
    wanted = model(images).numpy()
    quantizer = vitis_quantize.VitisQuantizer(model)
    half = quantizer.quantize_model(convert_datatype="float16").predict(images, verbose=0)
    block = vitis_quantize.VitisQuantizer(model, quantize_strategy="bfp").quantize_model(
        calib_dataset=None, calib_steps=0, calib_batch_size=0, input_bit=16, weight_bit=16,
        data_format="bfp", convert_sigmoid_to_hard_sigmoid=False,
    ).predict(images, verbose=0)  # fmt: skip
    assert 0 < noise(half, wanted) < 1e-2
    assert 0 < noise(block, wanted) < 1e-2
    with pytest.raises(DPUError, match="data_format is 'bfp' with 13 bits, but there are"):
        vitis_quantize.VitisQuantizer(model, "bfp").quantize_model(input_bit=13, weight_bit=13)
    with pytest.raises(DPUError, match="data_format is 'msfp', but must be one of bfp, bf16"):
        vitis_quantize.VitisQuantizer(model, "bfp").quantize_model(data_format="msfp")


def test_finetuning_without_pytorch(model, images, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    quantizer = vitis_quantize.VitisQuantizer(model)
    with pytest.warns(UserWarning, match="include_fast_ft needs PyTorch, which is not installed"):
        made = quantizer.quantize_model(images, include_fast_ft=True, fast_ft_epochs=10)
    assert noise(made.predict(images, verbose=0), model(images).numpy()) < 1e-2


def test_layers_with_formats_of_their_own(model, images):
    quantizer = vitis_quantize.VitisQuantizer(model, target="DPUCZDX8G_ISA1_B512")
    quantizer.quantize_model(
        images, layer_config={"conv2": "bfloat16"}, convert_to_fs_quantize_strategy=True,
        quantize_with_xcompiler=True, output_format="onnx", onnx_opset_version=13, include_cle=True,
        cle_steps=10, input_method=3, input_method_percentile=99.99,
    )  # fmt: skip
    found = {t.name: t for t in quantizer.report.tensors}
    formats = {str(t.number_format) for name, t in found.items() if name.startswith("conv2")}
    assert "bfloat16" in formats
    onnx.checker.check_model(onnx.load("quantize_results/quantized_model.onnx"))
    with pytest.raises(DPUError, match="layer_config of 'conv2' is 'int3', but must be one of"):
        quantizer.quantize_model(images, layer_config={"conv2": "int3"})
    with pytest.raises(DPUError, match="nowhere"):
        vitis_quantize.VitisQuantizer(model, target="nowhere")


def test_a_strategy_of_a_custom_layer(model, images):
    strategy = {"quantize_registry_config": {"layer_quantize_config": [
        {"layer_type": "__main__.Mine", "quantizable_weights": ["alpha"]}
    ]}}  # fmt: skip
    Path("custom.json").write_text(json.dumps(strategy))
    quantizer = vitis_quantize.VitisQuantizer(model, custom_quantize_strategy="custom.json")
    made = quantizer.quantize_model(calib_dataset=images[:10], calib_steps=None)
    quantizer.dump_model(made, dataset=images[:1], dump_float=True)
    assert Path("dump_results/dump_results_0").is_dir()


def quantizer_of(kind="Pof2SQuantizer", **changes):
    params = {"bit_width": 8, "method": 1, "round_mode": 0, "symmetry": True, "per_channel": False,
              "channel_axis": -1, "unsigned": False, "narrow_range": False}  # fmt: skip
    return {"quantizer_type": kind, "quantizer_params": {**params, **changes}}


def layer_of(name, weight, **changes):
    return {
        "layer_type": f"tensorflow.keras.layers.{name}", "quantizable_weights": [weight],
        "weight_quantizers": [quantizer_of(**changes)],
        "quantizable_biases": ["bias"], "bias_quantizers": [quantizer_of()],
        "quantizable_activations": ["activation"],
        "activation_quantizers": [quantizer_of(round_mode=1)],
    }  # fmt: skip


def strategy_file(**changes):
    """A strategy as AMD's quantizer has and dumps it, settings that it does not name included."""
    return {
        "optimize_pipeline_config": {
            "remove_dropout": True, "separate_conv_act": True, "fold_conv_bn": True,
            "convert_relu6_to_relu": False, "include_cle": True, "cle_steps": 10,
            "cle_balance_method": "max", "cle_weight_threshold": 0.1, "train_with_bn": False,
        },
        "quantize_pipeline_config": {
            "convert_datatype": "", "convert_sigmoid_to_hard_sigmoid": True,
            "convert_hard_sigmoid_to_dpu_version": True, "freeze_bn_delay": -1,
        },
        "refine_pipeline_config": {
            "adjust_dpu_shift_cut": True, "align_concat": True, "include_fast_ft": False,
            "include_bias_corr": False,
        },
        "finalize_pipeline_config": {"output_format": "", "output_dir": "./quantize_results/"},
        "quantize_registry_config": {
            "user_quantize_config": {"input_bit": None, "weight_bit": None, "ignore_layers": []},
            "custom_layer_type": [],
            "input_quantize_config": {
                "input_layers": [], "input_quantizer": quantizer_of(method=0, round_mode=1)
            },
            "layer_quantize_config": [
                layer_of("Conv2D", "kernel", **changes), layer_of("Dense", "kernel"),
                {"layer_type": "tensorflow.keras.layers.Flatten"},
                layer_of("DepthwiseConv2D", "depthwise_kernel", bit_width=3),
            ],
        },
    }  # fmt: skip


def test_whole_files_of_strategies(model, images):
    def bits(file):
        Path("strategy.json").write_text(json.dumps(file))
        quantizer = vitis_quantize.VitisQuantizer(model)
        quantizer.set_quantize_strategy("strategy.json")
        made = quantizer.quantize_model(images, calib_batch_size=10)
        assert 0 < noise(made.predict(images, verbose=0), model(images).numpy()) < 0.5
        return {t.name: t.bits for t in quantizer.report.tensors}

    usual = bits(strategy_file())
    assert set(usual.values()) == {8}
    layers = {layer.name for layer in model.layers if type(layer).__name__ == "Conv2D"}
    changed = {name: width for name, width in bits(strategy_file(bit_width=6)).items() if width < 8}
    assert set(changed.values()) == {6}
    assert {name.partition("/")[0] for name in changed} == layers
    assert not [name for name in changed if "bias" in name]
    file = strategy_file()
    file["quantize_registry_config"]["user_quantize_config"]["weight_bit"] = 7
    assert {width for name, width in bits(file).items() if "weights" in name} == {7}
    file["quantize_registry_config"]["layer_quantize_config"].append({})
    with pytest.raises(DPUError, match="an entry of layer_quantize_config has no layer_type"):
        bits(file)


def test_settings_of_training_and_inspection_that_are_always_so(model):
    trained = vitis_quantize.VitisQuantizer(model, "8bit_tqt").get_qat_model(
        remove_dropout=False, replace_relu6=False
    )
    assert trained.trainable_weights
    inspector = vitis_inspect.VitisInspector(target="DPUCZDX8G_ISA1_B3136")
    inspector.inspect_model(model, plot=False, convert_bn_to_dwconv=False)
    assert Path("inspect_results.txt").exists()
    with pytest.raises(DPUError, match="'convert_bn' is no setting of a quantize strategy"):
        inspector.inspect_model(model, plot=False, convert_bn=False)
