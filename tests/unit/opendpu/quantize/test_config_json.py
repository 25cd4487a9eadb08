# SPDX-License-Identifier: Apache-2.0
"""Configurations in the guide's JSON: its examples, its defaults, its conflicts."""

import json

import pytest

from opendpu.quantize import QuantizeConfig, TensorSpec
from opendpu_arch.errors import ModelFormatError, UnsupportedError

INT = {
    "datatype": "int", "bit_width": 8, "method": "maxmin", "round_mode": "half_even",
    "symmetry": True, "per_channel": False, "signed": True, "narrow_range": False,
    "scale_type": "float", "calib_statistic_method": "max",
}  # fmt: skip
ALL = ["input", "weights", "bias", "activation"]
LAYER = {
    "layer_type": "torch.nn.Conv2d", "layer_name": None, "quantizable_data_type": ALL[1:],
    "overall_quantize_config": INT,
    "tensor_quantize_config": {
        "weights": {"per_channel": True}, "activation": {"method": "entropy"}
    },
}  # fmt: skip


def parsed(**given) -> QuantizeConfig:
    return QuantizeConfig.from_json(json.dumps(given))


def test_defaults_are_the_guides_and_run_on_the_dpu():
    found = parsed()
    spec = TensorSpec(method="diffs", statistic="modal", rounding="std_round")
    assert (found.input, found.weights, found.bias) == (spec, spec, spec)
    assert found.activation == TensorSpec(method="diffs", statistic="modal", rounding="half_up")
    assert (found.cross_layer, found.bias_correction, found.relu6_to_relu) == (True, True, False)
    assert found.deployable() == []


def test_example_of_integers():
    found = parsed(
        convert_relu6_to_relu=False, include_cle=False, keep_first_last_layer_accuracy=False,
        keep_add_layer_accuracy=False, include_bias_corr=False, target_device="CPU",
        quantizable_data_type=ALL, overall_quantize_config=INT,
    )  # fmt: skip
    spec = TensorSpec(method="max", statistic="max", rounding="half_even", scale="float")
    assert {getattr(found, role) for role in ALL} == {spec}
    assert (found.cross_layer, found.bias_correction) == (False, False)
    assert "weights has a scale of type float, but the DPU shifts" in found.deployable()


def test_example_of_floating_point_and_of_mixed_precision(tmp_path):
    path = tmp_path / "mix_precision_config.json"
    path.write_text(json.dumps({
        "target_device": "CPU", "convert_silu_to_hswish": False,
        "overall_quantize_config": {"datatype": "bfloat16"},
        "tensor_quantize_config": {"bias": {"datatype": "float16"}},
    }))  # fmt: skip
    found = QuantizeConfig.from_json(path)
    assert {role: getattr(found, role).number_format for role in ALL} == {
        "input": "bfloat16", "weights": "bfloat16", "bias": "float16", "activation": "bfloat16"
    }  # fmt: skip
    assert QuantizeConfig.from_json(str(path)) == found


def test_layers_by_type_and_by_name():
    name = "ResNet::ResNet/Conv2d[conv1]/input.2"
    by_name = {**LAYER, "layer_type": None, "layer_name": name,
               "tensor_quantize_config": {"activation": {"round_mode": "half_up"}}}  # fmt: skip
    found = parsed(target_device="CPU", overall_quantize_config=INT,
                   layer_quantize_config=[LAYER, by_name])  # fmt: skip
    conv = ["torch.nn.Conv2d", "conv2d"]
    assert found.spec_of("weights", conv, ["a"]).granularity == "per_channel"
    assert found.spec_of("bias", conv, ["a"]).granularity == "per_tensor"
    assert found.spec_of("activation", conv, ["a"]).method == "entropy"
    assert found.spec_of("activation", ["torch.nn.Linear"], ["a"]).method == "max"
    assert found.spec_of("activation", ["any"], [name]).rounding == "half_up"
    assert found.spec_of("activation", ["any"], [name.replace("[conv1]", "c")]).rounding != (
        "half_up"
    )
    assert all(rule.input is None for rule in found.overrides)


def test_tensors_that_are_not_to_be_quantized():
    found = parsed(quantizable_data_type=["weights"])
    assert [getattr(found, role).is_quantized for role in ALL] == [False, True, False, False]


def test_the_guides_other_spellings():
    found = parsed(overall_quantizer_config={"data_type": "float16"})
    assert found.weights.number_format == "float16"


def overall(**given):
    return {"target_device": "CPU", "overall_quantize_config": {**INT, **given}}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"include_cl": True},
            "the configuration has no key 'include_cl'; keys are: convert_",
        ),
        ({"include_cle": 1}, "include_cle is 1, but must be true or false"),
        ({"target_device": "NPU"}, "target_device is 'NPU', but must be one of DPU, CPU, GPU"),
        ({"keep_add_layer_accuracy": True}, "keep_add_layer_accuracy is true, but the guide does"),
        ({"quantizable_data_type": ["output"]}, "quantizable_data_type must be a list of input, "),
        (overall(method="kl"), "input: method is 'kl', but must be one of maxmin, percentile"),
        (overall(bit_width="8"), "input: bit_width is '8', but must be a whole number"),
        (overall(bit_width=1), "input: bits is 1, but must be in 2..16"),
        (overall(color=1), "overall_quantize_config has no key 'color'; keys are: datatype"),
        (overall(calib_statistic_method="modal"), "method 'maxmin' cannot have the modal scale of"),
        (overall(symmetry=False, method="mse"), "method 'mse' needs symmetry true"),
        (overall(symmetry=False, method="entropy"), "method 'entropy' needs symmetry true"),
        ({"layer_quantize_config": {"a": 1}}, "layer_quantize_config must be a list of objects"),
        ({"layer_quantize_config": [{**LAYER, "layer_name": "a"}]}, "must have a layer_type or a"),
        ({"tensor_quantize_config": {"weight": {}}}, "tensor_quantize_config has no key 'weight'"),
    ],
)
def test_what_is_wrong_has_the_guides_code(given, text):
    with pytest.raises(UnsupportedError) as caught:
        parsed(**given)
    assert caught.value.code == "QUANTIZER_TORCH_QUANT_CONFIG"
    assert text in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ModelFormatError, match=r"none\.json cannot be read"):
        QuantizeConfig.from_json(tmp_path / "none.json")
    broken = tmp_path / "broken.json"
    broken.write_text("{,}")
    with pytest.raises(ModelFormatError, match=r"broken\.json is no JSON"):
        QuantizeConfig.from_json(broken)
    with pytest.raises(ModelFormatError, match="the configuration is no JSON"):
        QuantizeConfig.from_json("{,}")


def test_modal_of_ranges_is_for_the_dpu():
    """The guide demands it there and refuses it elsewhere."""
    settings = {**INT, "calib_statistic_method": "modal", "scale_type": "poweroftwo"}
    assert parsed(overall_quantize_config=settings).weights.statistic == "modal"
