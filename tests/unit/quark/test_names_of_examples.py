# SPDX-License-Identifier: Apache-2.0
"""Names, arguments and setters of ``quark.onnx`` that public scripts use."""

import tempfile

import numpy as np
import onnx
import onnxruntime
import pytest
from export_nets import images, network

import quark.onnx
from opendpu_arch.errors import UnsupportedError
from quark.onnx import (
    AdaRoundConfig,
    AutoMixprecisionConfig,
    BFP16Spec,
    CalibMethod,
    Config,
    Int8Spec,
    Int16Spec,
    ModelQuantizer,
    MX4Spec,
    MX6Spec,
    MX9Spec,
    QConfig,
    QLayerConfig,
    QuantGranularity,
    QuantizationConfig,
    ScaleType,
    UInt8Spec,
    XInt8Spec,
    get_library_path,
)
from quark.onnx.calibrate import CalibrationDataReader
from quark.onnx.calibration import PowerOfTwoMethod, RandomDataReader
from quark.onnx.quantization.config import custom_config, get_default_config
from quark.onnx.quantization.config.data_type import Int8, Int16


@pytest.fixture
def float_model(tmp_path):
    onnx.save(network("average"), tmp_path / "float.onnx")
    return str(tmp_path / "float.onnx")


def answer(model):
    given = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(given, providers=["CPUExecutionProvider"])
    return session.run(None, {"image": images(1, 9)})[0]


def decibel(wanted, found):
    return 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum())


def test_the_library_for_any_device():
    pytest.importorskip("onnxruntime_extensions", reason="its library is what is registered")
    assert get_library_path("CPU") == get_library_path("ROCM") == get_library_path()


def test_a_reader_as_early_releases_have_it(float_model):
    class Reader(CalibrationDataReader):
        def __init__(self):
            super().__init__()
            self.left = 4

        def get_next(self):
            self.left -= 1
            return {"image": images(4, self.left)} if self.left >= 0 else None

    config = Config(QuantizationConfig(calibrate_method=PowerOfTwoMethod.MinMSE))
    made = ModelQuantizer(config).quantize_model(float_model, calibration_data_reader=Reader())
    assert decibel(answer(float_model), answer(made)) > 18


def test_random_data_of_a_model(float_model):
    model = onnx.load(float_model)
    (given,) = [item for item in model.graph.input if item.name == "image"]
    shape = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
    reader = RandomDataReader(model, {}, {"image": [0, 1]})
    batch = reader.get_next()["image"]
    assert sorted(batch.shape) == sorted(max(size, 1) for size in shape)
    assert 0 <= batch.min() <= batch.max() <= 1
    assert reader.get_next() is None
    made = ModelQuantizer(QConfig.get_default_config("A8W8")).quantize_model(
        float_model, calibration_data_reader=RandomDataReader(float_model)
    )
    assert made.graph.node


def test_specifications_that_are_changed(float_model):
    activation, weight = UInt8Spec(), Int8Spec()
    activation.set_symmetric(False)
    activation.set_calibration_method(CalibMethod.MinMax)
    weight.set_quant_granularity(QuantGranularity.Channel)
    weight.set_calibration_method(CalibMethod.MinMSE)
    made, other = activation.tensor(), weight.tensor()
    assert (made.symmetric, made.signed, made.method) == (False, False, "max")
    assert (other.granularity, other.method, other.scale) == ("per_channel", "mse", "float")
    assert Int8Spec().tensor().granularity == "per_tensor"
    weight.set_scale_type(ScaleType.PowerOf2)
    assert weight.tensor().scale == "power_of_two"
    weight.set_scale_type(ScaleType.Float32)
    config = QConfig(QLayerConfig(activation=activation, weight=weight), AlignConcat=True)
    with pytest.warns(UserWarning, match="'AlignConcat' has no effect here"):
        found = ModelQuantizer(config).quantize_model(
            float_model, calibration_data_reader=RandomDataReader(float_model)
        )
    assert decibel(answer(float_model), answer(found)) > 15


def test_every_argument_of_the_first_form(float_model, tmp_path, recwarn):
    config = QuantizationConfig(
        quant_format=quark.onnx.VitisQuantFormat.FixNeuron,
        calibrate_method=quark.onnx.PowerOfTwoMethod.MinMSE, input_nodes=[], output_nodes=[],
        op_types_to_quantize=[], random_data_reader_input_shape=[], per_channel=False,
        reduce_range=False, activation_type=quark.onnx.QuantType.QInt8,
        weight_type=quark.onnx.QuantType.QInt8, nodes_to_quantize=[], nodes_to_exclude=[],
        optimize_model=True, use_external_data_format=False,
        execution_providers=["CPUExecutionProvider"], enable_npu_cnn=True,
        enable_npu_transformer=False, convert_fp16_to_fp32=False, convert_nchw_to_nhwc=False,
        include_cle=False, include_sq=False, extra_options={},
    )  # fmt: skip
    path = str(tmp_path / "q.onnx")
    ModelQuantizer(Config(global_quant_config=config)).quantize_model(float_model, path, None)
    quark.onnx.dump_model(
        path, dump_data_reader=None, random_data_reader_input_shape=[], dump_float=False,
        output_dir=str(tmp_path / "dump"),
    )  # fmt: skip
    assert list((tmp_path / "dump").glob("*.bin"))
    assert not recwarn.list


def test_shapes_of_random_data(tmp_path):
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]>
        net (float[n, 3, h, w] x) => (float[n, 3, h, w] y) { y = Relu(x) }""")
    config = QuantizationConfig(random_data_reader_input_shape=[1, 3, 8, 4])
    made = ModelQuantizer(Config(global_quant_config=config)).quantize_model(model)
    dims = made.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims][1:] == [3, 8, 4]


def test_random_data_that_is_asked_for(float_model, recwarn):
    class Unread:
        def get_next(self):
            raise AssertionError("the reader was asked")

    for config in (
        Config(QuantizationConfig(extra_options={"UseRandomData": True})),
        QConfig(QLayerConfig(Int8Spec(), Int8Spec()), UseRandomData=True),
    ):
        made = ModelQuantizer(config).quantize_model(
            model_input=float_model, calibration_data_reader=Unread(), calibration_data_path=None
        )
        assert made.graph.node
    assert not recwarn.list


def quantized_outputs(made):
    """Return what a quantized model's quantizers read: the tensors that have integers."""
    return {node.input[0] for node in made.graph.node if "QuantizeLinear" in node.op_type}


class Four:
    def __init__(self):
        self.left = 4

    def get_next(self):
        self.left -= 1
        return {"image": images(4, self.left)} if self.left >= 0 else None


def test_a_part_of_the_graph_is_left_out(float_model):
    """In both forms, by its ends; expressions stand for the beginnings of names."""
    model = onnx.load(float_model)
    for number, node in enumerate(model.graph.node):
        node.name = f"/layer{number}/{node.op_type}"
    names = [node.name for node in model.graph.node]
    part = ([names[1]], [names[2]])
    wanted = quantized_outputs(
        ModelQuantizer(
            Config(QuantizationConfig(nodes_to_exclude=names[1:3], include_cle=False))
        ).quantize_model(model, None, Four())
    )
    assert wanted
    first = Config(QuantizationConfig(subgraphs_to_exclude=[part], include_cle=False))
    assert quantized_outputs(ModelQuantizer(first).quantize_model(model, None, Four())) == wanted
    expression = Config(QuantizationConfig(nodes_to_exclude=["^/layer[12]/.*"], include_cle=False))
    made = ModelQuantizer(expression).quantize_model(model, None, Four())
    assert quantized_outputs(made) == wanted
    layers = QLayerConfig(Int8Spec(), weight=Int8Spec())
    by_ends, by_names = (
        quantized_outputs(
            ModelQuantizer(QConfig(layers, exclude=given)).quantize_model(model, None, Four())
        )
        for given in ([part], ["^/layer(1|2)"])
    )
    every = ModelQuantizer(QConfig(layers)).quantize_model(model, None, Four())
    assert by_ends == by_names
    assert len(by_ends) < len(quantized_outputs(every))
    with pytest.raises(UnsupportedError, match="subgraphs_to_exclude names 'nowhere'"):
        ModelQuantizer(QConfig(layers, exclude=[(["nowhere"], [names[2]])])).quantize_model(
            model, None, Four()
        )
    with pytest.raises(UnsupportedError, match=r"'\^\(' is no regular expression"):
        ModelQuantizer(QConfig(layers, exclude=["^("])).quantize_model(model, None, Four())


def test_data_types_and_classes_stand_for_specifications(float_model):
    layers = QLayerConfig(activation=Int8Spec, weight=Int8Spec)
    names = [node.name or node.output[0] for node in onnx.load(float_model).graph.node]
    wide, same = (
        ModelQuantizer(
            QConfig(
                layers, specific_layer_config={kind: [names[0]]}, layer_type_config={None: ["Gemm"]}
            )
        ).quantize_model(float_model, None, Four())
        for kind in (Int16, QLayerConfig(Int16Spec(), weight=Int16Spec()))
    )
    np.testing.assert_array_equal(answer_of_ours(wide), answer_of_ours(same))
    assert any(one.data_type == onnx.TensorProto.INT16 for one in wide.graph.initializer)


@pytest.mark.parametrize("name", ["INT8_TRANSFORMER_DEFAULT", "INT16_CNN_DEFAULT"])
def test_configurations_for_beginners(float_model, name):
    made = ModelQuantizer(Config(get_default_config(name))).quantize_model(
        float_model, None, Four()
    )
    assert decibel(answer(float_model), answer_of_ours(made)) > (40 if "16" in name else 18)


def test_accurate_configurations_are_finetuned():
    found = get_default_config("INT8_TRANSFORMER_ACCURATE")
    assert found.include_fast_ft
    assert found.extra_options["FastFinetune"]["OptimAlgorithm"] == "adaround"
    assert found.extra_options["Percentile"] == 99.9999
    assert custom_config.INT16_CNN_ACCURATE_CONFIG.weight_type.name == "QInt16"


def test_secret_models_leave_no_files(float_model, tmp_path, monkeypatch):
    """Neither samples nor models wait in temporary files; finetuning would."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    made_folders = []
    monkeypatch.setattr(tempfile, "mkdtemp", lambda *a, **k: made_folders.append(k) or str(folder))
    layers = QLayerConfig(activation=XInt8Spec(), weight=XInt8Spec())
    plain = QConfig(layers, EnableNPUCnn=True)
    secret = QConfig(layers, CryptoMode=True, EncryptionAlgorithm=None, EnableNPUCnn=True)
    model = onnx.load(float_model)
    first = Config(QuantizationConfig(calibrate_method=PowerOfTwoMethod.MinMSE, crypto_mode=True))
    for config in (secret, first):
        made = ModelQuantizer(config).quantize_model(model, calibration_data_reader=Four())
        assert not made_folders
        assert decibel(answer(float_model), answer_of_ours(made)) > 18
    ModelQuantizer(plain).quantize_model(model, calibration_data_reader=Four())
    assert made_folders
    tuned = QConfig(layers, algo_config=[AdaRoundConfig()], CryptoMode=True)
    with pytest.raises(UnsupportedError, match="crypto_mode keeps model and samples in memory"):
        ModelQuantizer(tuned).quantize_model(model, calibration_data_reader=Four())


def test_names_of_what_there_is_not_here(float_model):
    """They can be imported and made, as scripts do before they choose."""
    blocks = QLayerConfig(MX4Spec(), weight=MX4Spec())
    with pytest.raises(UnsupportedError, match=r"'mx4'.*bfp16, mx6, mx9"):
        ModelQuantizer(QConfig(blocks)).quantize_model(float_model, None, Four())
    mixed = QConfig(
        QLayerConfig(Int16Spec(), weight=Int16Spec()),
        algo_config=[AutoMixprecisionConfig(l2_target=0.1, act_target_quant_type=Int8)],
    )
    with pytest.raises(UnsupportedError, match=r"l2_target is 0\.1: types are not searched for"):
        ModelQuantizer(mixed).quantize_model(float_model, None, Four())


@pytest.mark.parametrize(("kind", "least"), [(BFP16Spec, 35), (MX9Spec, 35), (MX6Spec, 18)])
def test_blocks_that_share_an_exponent(float_model, kind, least):
    layers = QLayerConfig(activation=kind(), weight=kind())
    made = ModelQuantizer(QConfig(layers)).quantize_model(float_model, None, Four())
    assert decibel(answer(float_model), answer(made)) > least
    name = kind.__name__.removesuffix("Spec")
    same = getattr(custom_config, f"{name}_QCONFIG")
    assert ModelQuantizer(same).quantize_model(float_model, None, Four()) == made


def answer_of_ours(model):
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(get_library_path())
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"image": images(1, 9)})[0]
