# SPDX-License-Identifier: Apache-2.0
"""``quark.onnx``: both forms of its configurations, as scripts write them."""

import copy
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from export_nets import images, network

import vai_q_onnx
from opendpu.frontend import load_onnx
from opendpu.quantize import complete
from opendpu.quantize.config import FinetuneConfig
from opendpu.quantize.tensor_spec import TensorSpec
from opendpu_arch.errors import OutputError, UnsupportedError
from quark.onnx import (
    AdaQuantConfig,
    AdaRoundConfig,
    AutoMixprecisionConfig,
    BFloat16Spec,
    CalibMethod,
    CalibrationDataReader,
    CalibrationMethod,
    CLEConfig,
    Config,
    ExtendedQuantFormat,
    ExtendedQuantType,
    Int8Spec,
    Int16Spec,
    ModelQuantizer,
    PowerOfTwoMethod,
    QConfig,
    QLayerConfig,
    QuantFormat,
    QuantGranularity,
    QuantizationConfig,
    QuantType,
    ScaleType,
    UInt8Spec,
    VitisQuantType,
    XInt8Spec,
    quant_utils,
)
from quark.onnx.quantization.config import DEFAULT_CONFIG_MAPPING, custom_config, get_default_config
from quark.onnx.quantization.config.algorithm import finetuning_of
from vai_q_onnx.selection import matching, name_of


class Reader(CalibrationDataReader):
    def __init__(self) -> None:
        self.enum_data = None

    def get_next(self):
        if self.enum_data is None:
            self.enum_data = iter([{"image": images(4, seed)} for seed in range(4)])
        return next(self.enum_data, None)


@pytest.fixture
def float_model(tmp_path):
    onnx.save(network("average"), tmp_path / "float.onnx")
    return str(tmp_path / "float.onnx")


def result(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    given = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(given, options).run(None, {"image": images(1, 9)})[0]


def decibel(wanted, found):
    return 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum())


def test_the_configuration_for_npus_is_that_of_the_quantizer_before(float_model, tmp_path):
    """``XINT8``: powers of two, activations stored as uint8 with 128 for zero."""
    found, wanted = str(tmp_path / "q.onnx"), str(tmp_path / "v.onnx")
    config = Config(global_quant_config=get_default_config("XINT8"))
    assert ModelQuantizer(config).quantize_model(float_model, found, Reader()) is None
    vai_q_onnx.quantize_static(
        float_model, wanted, Reader(), quant_format=QuantFormat.QDQ,
        calibrate_method=PowerOfTwoMethod.MinMSE, activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8, extra_options={"ActivationSymmetric": True},
    )  # fmt: skip
    assert onnx.load(found) == onnx.load(wanted)
    assert decibel(result(float_model), result(found)) > 20
    zeros = {onnx.numpy_helper.to_array(i).dtype for i in onnx.load(found).graph.initializer}
    assert np.dtype(np.uint8) in zeros
    assert complete(load_onnx(found)).outputs


def test_every_configuration_that_is_there(float_model):
    """All but the finetuned ones, which are these with an algorithm."""
    names = [name for name in DEFAULT_CONFIG_MAPPING if not re.search("_ADA|_ACC", name)]
    assert len(names) == 15
    wanted = result(float_model)
    for name in names:
        made = ModelQuantizer(QConfig.get_default_config(name)).quantize_model(
            float_model, calibration_data_reader=Reader()
        )
        least = 18 if name in ("XINT8", "VINT8") else 25
        assert decibel(wanted, result(made)) > least, name


def test_finetuned_configurations():
    for name, method, rate in (
        ("XINT8_ADAROUND", "adaround", 0.1), ("A8W8_ADAQUANT", "adaquant", 1e-5),
    ):  # fmt: skip
        config = get_default_config(name)
        assert config.include_fast_ft
        options = config.extra_options["FastFinetune"]
        assert (options["OptimAlgorithm"], options["LearningRate"]) == (method, rate)
    assert not get_default_config("XINT8").include_fast_ft
    assert "FastFinetune" not in DEFAULT_CONFIG_MAPPING["XINT8"].extra_options
    copied = copy.deepcopy(get_default_config("XINT8"))
    copied.extra_options["FastFinetune"] = {}
    assert "FastFinetune" not in get_default_config("XINT8").extra_options


def test_a_configuration_by_its_parts(float_model):
    """What scripts change: exclusion, percentile, equalization; a model comes back."""
    config = QuantizationConfig(
        calibrate_method=CalibrationMethod.Percentile, activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8, nodes_to_exclude=["y"], enable_npu_cnn=True, include_cle=False,
        extra_options={"Percentile": 99.99, "PrintSummary": False, "SimplifyModel": False},
    )  # fmt: skip
    assert VitisQuantType is ExtendedQuantType is quant_utils.ExtendedQuantType
    nodes = onnx.load(float_model).graph.node
    config.nodes_to_exclude = [nodes[-1].name or nodes[-1].output[0]]
    made = ModelQuantizer(Config(config)).quantize_model(
        onnx.load(float_model), calibration_data_reader=Reader()
    )
    assert made.graph.node[-1].op_type == nodes[-1].op_type
    assert decibel(result(float_model), result(made)) > 20


LAYERS = QLayerConfig(input_tensors=XInt8Spec(), weight=XInt8Spec())


def quantized(model, config):
    return ModelQuantizer(config).quantize_model(model, calibration_data_reader=Reader())


def test_the_second_form(float_model):
    wanted = result(float_model)
    made = quantized(
        float_model,
        QConfig(global_config=LAYERS, algo_config=[CLEConfig(cle_steps=2)], DebugMode=True),
    )
    kinds = {node.op_type for node in made.graph.node}
    assert "QuantizeLinear" in kinds and complete(load_onnx(made)).outputs
    assert decibel(wanted, result(made)) > 20
    convolutions = [n.name for n in onnx.load(float_model).graph.node if n.op_type == "Conv"]
    wide = QLayerConfig(activation=Int16Spec(), weight=Int16Spec())
    mixed = quantized(
        float_model,
        QConfig(QLayerConfig(activation=UInt8Spec(), weight=Int8Spec()), {wide: convolutions[:1]}),
    )
    assert {"ExtendedQuantizeLinear"} <= {node.op_type for node in mixed.graph.node}
    assert decibel(wanted, result(mixed)) > 20
    halves = QLayerConfig(activation=BFloat16Spec(), weight=BFloat16Spec())
    assert decibel(wanted, result(quantized(float_model, QConfig(halves)))) > 35


def test_other_types_for_some_operators(float_model):
    """What Quark's automatic mixed precision does where no loss is said."""
    wide = QLayerConfig(activation=Int16Spec(), weight=Int16Spec())
    nodes = onnx.load(float_model).graph.node
    convolutions = [name_of(n) for n in nodes if n.op_type in ("Conv", "ConvTranspose")]
    base = QLayerConfig(activation=Int8Spec(), weight=Int8Spec())
    by_name = quantized(float_model, QConfig(base, {wide: convolutions}))
    mixed = AutoMixprecisionConfig(wide, ("Conv", "ConvTranspose"), data_size=10)
    assert quantized(float_model, QConfig(base, algo_config=[mixed])) == by_name
    some = AutoMixprecisionConfig(wide, ("Conv",), exclude_layers=["^.*"])
    plain = quantized(float_model, QConfig(base))
    assert quantized(float_model, QConfig(base, algo_config=[some])) == plain
    assert quantized(float_model, QConfig(base, {wide: ["^none"]}, {wide: []})) == plain
    first = QuantizationConfig(
        quant_format=ExtendedQuantFormat.QDQ, activation_type=ExtendedQuantType.QInt16,
        weight_type=ExtendedQuantType.QInt16, include_auto_mp=True,
        extra_options={"AutoMixprecision": {"TargetQuantType": QuantType.QInt8, "OutputIndex": 0}},
    )  # fmt: skip
    found = decibel(result(float_model), result(quantized(float_model, Config(first))))
    first.include_auto_mp = False
    assert decibel(result(float_model), result(quantized(float_model, Config(first)))) > found > 20
    first.include_auto_mp = True
    first.extra_options["AutoMixprecision"]["L2Target"] = 0.1
    with pytest.raises(UnsupportedError, match=r"L2Target 0\.1: types are not searched for"):
        quantized(float_model, Config(first))


def test_configurations_as_constants(float_model):
    for name in ("XINT8", "A8W8", "A16W8", "VINT8", "BF16"):
        config = copy.deepcopy(getattr(custom_config, f"{name}_QCONFIG"))
        config.extra_options["ConvertSigmoidToHardSigmoid"] = False
        assert isinstance(config, QConfig)
        assert config.algo_config == []
    (tuning,) = custom_config.A8W8_ADAROUND_QCONFIG.algo_config
    assert isinstance(tuning, AdaRoundConfig)
    first = custom_config.XINT8_ADAQUANT_CONFIG
    assert first.extra_options["FastFinetune"]["OptimAlgorithm"] == "adaquant"
    first.include_cle = False  # of this one only
    assert custom_config.XINT8_CONFIG.include_cle == get_default_config("XINT8").include_cle
    same = quantized(float_model, custom_config.XINT8_QCONFIG)
    layers = QLayerConfig(activation=XInt8Spec(), weight=XInt8Spec())
    assert np.array_equal(result(same), result(quantized(float_model, QConfig(layers))))
    for name in ("MX4_QCONFIG", "BF16_ADAROUND_QCONFIG", "MX6_CONFIG", "other"):
        with pytest.raises(AttributeError, match=name):
            getattr(custom_config, name)


def test_layers_that_are_left_out(float_model):
    """By operator, by pattern; then nothing is quantized around them."""
    for config in (
        QConfig(LAYERS, layer_type_config={None: ["Conv"]}, exclude=["^.*"]),
        QConfig(LAYERS, exclude=["^.*"]),
    ):
        made = quantized(float_model, config)
        assert not {"QuantizeLinear"} & {node.op_type for node in made.graph.node}
        np.testing.assert_allclose(result(made), result(float_model), rtol=1e-4, atol=1e-5)


def test_tensors_in_our_terms():
    assert XInt8Spec().tensor() == TensorSpec(method="mse")
    assert UInt8Spec().tensor() == TensorSpec(
        signed=False, symmetric=False, scale="float", method="percentile"
    )
    symmetric = UInt8Spec(symmetric=True, calibration_method=CalibMethod.MinMax)
    assert symmetric.tensor() == TensorSpec(scale="float", method="max") and symmetric.is_unsigned
    channels = Int8Spec(scale_type=ScaleType.PowerOf2, quant_granularity=QuantGranularity.Channel)
    assert channels.tensor() == TensorSpec(granularity="per_channel", method="percentile")
    assert matching(["/conv1/Conv", "/conv12/Conv", "a*b"], ["^/conv1/.*", "a*b"]) == [
        "/conv1/Conv", "a*b",
    ]  # fmt: skip
    assert finetuning_of([CLEConfig(), AdaRoundConfig(num_iterations=5, data_size=7)]) == (
        FinetuneConfig("adaround", iterations=5, samples=7, batch=1, learning_rate=0.1,
                       early_stop=False)
    )  # fmt: skip
    assert finetuning_of([AdaQuantConfig()]).iterations == 3000


def test_what_is_refused(float_model, tmp_path):
    with pytest.raises(UnsupportedError, match=r"'MX4' is not here; there are XINT8, A8W8, .*FP16"):
        get_default_config("MX4")
    with pytest.raises(UnsupportedError, match="config is a QuantizationConfig, but must be a Con"):
        ModelQuantizer(QuantizationConfig())
    with pytest.raises(UnsupportedError, match="use_dynamic_quant is True, which there is not"):
        quantized(float_model, Config(QuantizationConfig(use_dynamic_quant=True)))
    with pytest.raises(UnsupportedError, match=r"activation_type is <ExtendedQuantType\.QBFP"):
        quantized(float_model, Config(QuantizationConfig(activation_type=ExtendedQuantType.QBFP)))
    with pytest.raises(UnsupportedError, match="calibration_data_path is not read here"):
        ModelQuantizer(QConfig(LAYERS)).quantize_model(float_model, calibration_data_path=".")
    with pytest.raises(OutputError, match="none"):
        ModelQuantizer(QConfig(LAYERS)).quantize_model(float_model, str(tmp_path / "none" / "q"))
    with pytest.raises(UnsupportedError, match=r"quant_granularity is QuantGranularity\.Group"):
        Int8Spec(quant_granularity=QuantGranularity.Group).tensor()
    with pytest.raises(UnsupportedError, match="algo_config has str, but there are here: AdaQ"):
        finetuning_of(["cle"])
    with pytest.warns(UserWarning, match="convert_fp16_to_fp32 has no effect here"):
        quantized(float_model, Config(QuantizationConfig(convert_fp16_to_fp32=True)))


def test_images_with_channels_last(float_model):
    first, second = (
        quantized(float_model, Config(QuantizationConfig(convert_nchw_to_nhwc=turned)))
        for turned in (False, True)
    )
    shapes = [[d.dim_value for d in m.graph.input[0].type.tensor_type.shape.dim]
              for m in (first, second)]  # fmt: skip
    assert [shapes[0][axis] for axis in (0, 2, 3, 1)] == shapes[1]
