# SPDX-License-Identifier: Apache-2.0
"""Names, arguments and setters of ``quark.onnx`` that public scripts use."""

import numpy as np
import onnx
import onnxruntime
import pytest
from export_nets import images, network

import quark.onnx
from quark.onnx import (
    CalibMethod,
    Config,
    Int8Spec,
    ModelQuantizer,
    QConfig,
    QLayerConfig,
    QuantGranularity,
    QuantizationConfig,
    ScaleType,
    UInt8Spec,
    get_library_path,
)
from quark.onnx.calibrate import CalibrationDataReader
from quark.onnx.calibration import PowerOfTwoMethod, RandomDataReader


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
