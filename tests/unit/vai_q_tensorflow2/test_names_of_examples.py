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
