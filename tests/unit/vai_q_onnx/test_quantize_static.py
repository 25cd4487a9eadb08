# SPDX-License-Identifier: Apache-2.0
"""``vai_q_onnx``: the guide's example as it is printed, and what every argument does."""

import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from export_nets import images, network, on_simulator
from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType

import vai_q_onnx
from opendpu.frontend import load_onnx
from opendpu.ops.session import Session
from opendpu.quantize import complete, quantize
from opendpu.quantize.config import FinetuneConfig, QuantizeConfig
from opendpu.quantize.tensor_spec import TensorSpec
from opendpu_arch.errors import OutputError, TensorError, UnsupportedError
from vai_q_onnx import PowerOfTwoMethod, VitisQuantFormat, VitisQuantType, options
from vai_q_onnx.quantize import configuration
from vai_q_onnx.selection import as_overrides, float_nodes
from vai_q_onnx.tools.convert_customqdq_to_qdq import (
    convert_customqdq_to_qdq,
    custom_ops_infer_shapes,
)
from vai_q_onnx.tools.convert_qdq_to_qop import convert_qdq_to_qop


class Reader(vai_q_onnx.CalibrationDataReader):
    """As scripts write it: batches of four images."""

    def __init__(self) -> None:
        self.batches = iter([{"image": images(4, seed)} for seed in range(4)])

    def get_next(self):
        return next(self.batches, None)


DATA = np.concatenate([images(4, seed) for seed in range(4)])


@pytest.fixture
def float_model(tmp_path: pathlib.Path) -> pathlib.Path:
    onnx.save(network("average"), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_the_guides_example(float_model, tmp_path):
    model_input, model_output = str(float_model), str(tmp_path / "q.onnx")
    calibration_data_reader = Reader()
    # As printed in the guide, names and commas too.
    vai_q_onnx.quantize_static(
        model_input,
        model_output,
        calibration_data_reader,
        quant_format=vai_q_onnx.VitisQuantFormat.FixNeuron,
        calibrate_method=vai_q_onnx.PowerOfTwoMethod.MinMSE,
        input_nodes=[],
        output_nodes=[],
        extra_options=None,
    )
    pytest.importorskip("onnxruntime_extensions")
    from vai_q_onnx.operators.vai_ops.qdq_ops import _lib_path, vai_dquantize

    so = onnxruntime.SessionOptions()
    so.register_custom_ops_library(_lib_path())
    sess = onnxruntime.InferenceSession(model_output, so)
    input_name = sess.get_inputs()[0].name
    given = images(3, 9)
    results = [sess.run(None, {input_name: image[None]})[0] for image in given]
    quantized = quantize(load_onnx(float_model), {"image": DATA})
    np.testing.assert_array_equal(np.concatenate(results), on_simulator(quantized, given))
    assert vai_dquantize(np.int8(-3), np.float32(0.25), np.int8(1)) == -1


@pytest.mark.parametrize(
    ("quant_format", "kinds"),
    [
        (QuantFormat.QDQ, {"QuantizeLinear", "DequantizeLinear"}),
        (VitisQuantFormat.QDQ, {"VAIQuantizeLinear", "VAIDeQuantizeLinear"}),
        (VitisQuantFormat.FixNeuron, {"FixNeuron"}),
    ],
)
def test_formats(float_model, tmp_path, quant_format, kinds):
    output = tmp_path / "q.onnx"
    vai_q_onnx.quantize_static(float_model, output, Reader(), quant_format=quant_format)
    model = onnx.load(output)
    found = {node.op_type for node in model.graph.node}
    assert {kind for kind in found if "Linear" in kind or "Neuron" in kind} == kinds
    stored = [t for t in model.graph.initializer if t.dims == [8, 4, 3, 3]]
    assert [t.data_type for t in stored] == [onnx.TensorProto.FLOAT]  # AddQDQPairToWeight
    back = complete(load_onnx(output))
    wanted = quantize(load_onnx(float_model), {"image": DATA})
    points = [[n.fix_point for n in graph if n.kind == "fix"] for graph in (back, wanted)]
    assert points[0] == points[1]


def test_methods_weights_without_pairs_and_data_at_random(float_model, tmp_path, monkeypatch):
    monkeypatch.setattr("opendpu.export.files.EXTERNAL_BYTES", 8 * 4 * 9)
    output = tmp_path / "q.onnx"
    report = vai_q_onnx.quantize_static(
        float_model, output, None, VitisQuantFormat.QDQ, PowerOfTwoMethod.NonOverflow,
        extra_options={"AddQDQPairToWeight": False, "IncludeCLE": False, "BiasCorrection": False},
        use_external_data_format=True,
    )  # fmt: skip
    assert report.samples == 16
    stored = [t for t in onnx.load(output).graph.initializer if t.dims == [8, 4, 3, 3]]
    assert [t.data_type for t in stored] == [onnx.TensorProto.INT8]
    assert (tmp_path / "q.onnx.data").stat().st_size >= 8 * 4 * 9
    assert onnxruntime.InferenceSession(output).run(None, {"image": images(1)})


@pytest.mark.parametrize(
    "arguments",
    [
        {"calibrate_method": CalibrationMethod.MinMax},
        {"calibrate_method": CalibrationMethod.Percentile, "per_channel": True},
        {"calibrate_method": CalibrationMethod.Entropy, "extra_options": {"IncludeCLE": False}},
        {"activation_type": VitisQuantType.QInt16, "weight_type": QuantType.QInt16},
        {"calibrate_method": CalibrationMethod.MinMax, "activation_type": QuantType.QUInt8},
        {"reduce_range": True},
        {"activation_type": VitisQuantType.QBFloat16, "weight_type": VitisQuantType.QBFloat16},
    ],
)
def test_what_no_dpu_runs_is_near_the_float_network_too(float_model, tmp_path, arguments):
    output = tmp_path / "q.onnx"
    report = vai_q_onnx.quantize_static(
        float_model, output, Reader(), quant_format=VitisQuantFormat.QDQ, **arguments
    )
    assert bool(report.obstacles) == (set(arguments) != {"reduce_range"})
    given = {"image": images(1, 8)}
    (found,) = onnxruntime.InferenceSession(output).run(None, given)
    (wanted,) = onnxruntime.InferenceSession(float_model).run(None, given)
    noise = np.square(found - wanted).sum() / np.square(wanted).sum()
    assert 0 < noise < 10 ** (-15 / 10)


def test_excluded_nodes_compute_in_float(float_model, tmp_path):
    output = tmp_path / "q.onnx"
    vai_q_onnx.quantize_static(float_model, output, Reader(), nodes_to_exclude=["y"])
    graph = load_onnx(output)
    fixed = {node.sources()[0] for node in graph if node.kind == "fix"}
    assert {"image", "r", "p"} <= fixed
    (last,) = (node for node in graph if node.kind == "conv2d" and node.name.startswith("y"))
    assert all(graph[name].kind != "fix" for name in last.inputs["weights"])
    assert last.name in graph.outputs


def test_symmetric_activations_of_an_unsigned_type_are_signed_ones_with_an_offset(
    float_model, tmp_path
):
    """As AMD's NPU examples ask for it: QUInt8, QInt8, powers of two, zero in the middle."""
    reports, models, results = [], [], []
    for kind in (QuantType.QUInt8, QuantType.QInt8):
        path = tmp_path / f"{kind}.onnx"
        reports.append(
            vai_q_onnx.quantize_static(
                float_model, path, Reader(), quant_format=QuantFormat.QDQ,
                calibrate_method=PowerOfTwoMethod.MinMSE, activation_type=kind,
                weight_type=QuantType.QInt8, enable_dpu=True,
                extra_options={"ActivationSymmetric": True},
            )
        )  # fmt: skip
        models.append(onnx.load(path))
        onnx.checker.check_model(models[-1], full_check=True)
        results.append(onnxruntime.InferenceSession(path).run(None, {"image": images(1, 9)})[0])
    assert not reports[0].obstacles
    np.testing.assert_array_equal(*results)
    zeros = {item.name: onnx.numpy_helper.to_array(item) for item in models[0].graph.initializer}
    constants = set(zeros)
    seen = set()
    for node in models[0].graph.node:
        if node.op_type == "QuantizeLinear":
            zero = zeros[node.input[2]]
            expected = (np.int8, 0) if node.input[0] in constants else (np.uint8, 128)
            assert (zero.dtype, int(zero)) == expected
            seen.add(expected)
    assert len(seen) == 2
    points = [[n.fix_point for n in complete(load_onnx(m)) if n.kind == "fix"] for m in models]
    assert points[0] == points[1]
    floats = configuration(
        CalibrationMethod.MinMax, QuantType.QUInt8, QuantType.QInt8, per_channel=False,
        reduce_range=False,
        options=options.checked({"ActivationSymmetric": True}, power_of_two=False),
    )  # fmt: skip
    assert floats.activation == TensorSpec(scale="float", method="max")


def test_biases_of_floating_point_weights_are_not_rounded_to_integers():
    """Integers of the sum have the scale of the products, which such weights have not."""
    found = configuration(
        CalibrationMethod.MinMax, VitisQuantType.QBFloat16, VitisQuantType.QBFloat16,
        per_channel=False, reduce_range=False, options=options.checked(None, power_of_two=False),
    )  # fmt: skip
    assert found.bias == TensorSpec(number_format="bfloat16")


def test_what_the_arguments_say_of_every_tensor():
    chosen = options.checked(None, power_of_two=True)
    found = configuration(
        PowerOfTwoMethod.MinMSE, QuantType.QInt8, QuantType.QInt8, per_channel=False,
        reduce_range=False, options=chosen,
    )  # fmt: skip
    assert found == QuantizeConfig()
    chosen = options.checked(
        {"ConvertSigmoidToHardSigmoid": True, "IncludeCLE": False}, power_of_two=False
    )
    found = configuration(
        CalibrationMethod.Entropy, QuantType.QUInt8, VitisQuantType.QInt16, per_channel=True,
        reduce_range=False, options=chosen,
    )  # fmt: skip
    assert found.activation == TensorSpec(
        signed=False, symmetric=False, scale="float", method="entropy"
    )
    assert found.weights == TensorSpec(
        bits=16, scale="float", method="max", granularity="per_channel"
    )
    assert found.bias == TensorSpec(
        bits=32, scale="float", granularity="per_channel", method="nonoverflow"
    )
    assert (found.activation_substitution, found.cross_layer) == ("hard", False)
    found = configuration(
        PowerOfTwoMethod.NonOverflow, VitisQuantType.QBFloat16, QuantType.QInt8, per_channel=False,
        reduce_range=True, options=options.checked(None, power_of_two=True),
    )  # fmt: skip
    assert (found.activation.number_format, found.weights.bits) == ("bfloat16", 7)
    assert found.weights.method == "nonoverflow"


def test_arguments_that_came_after_the_guide(float_model, tmp_path):
    found = options.with_later({"Percentile": 99}, {"include_cle": False, "enable_ipu_cnn": True})
    assert found == {"Percentile": 99, "IncludeCLE": False}
    assert options.with_later(None, {"include_fast_ft": True}) == {
        "FastFinetune": {"OptimAlgorithm": "adaround"}
    }
    with pytest.warns(UserWarning, match="argument 'convert_fp16_to_fp32' has no effect"):
        vai_q_onnx.quantize_static(
            float_model, tmp_path / "q.onnx", Reader(), enable_dpu=True, convert_fp16_to_fp32=True
        )


@pytest.mark.parametrize("quant_format", [QuantFormat.QDQ, VitisQuantFormat.FixNeuron])
def test_images_with_channels_last_from_data_with_channels_first(
    float_model, tmp_path, quant_format
):
    """The same numbers, and the same program for the DPU but for the input's layout."""
    paths = [tmp_path / "nchw.onnx", tmp_path / "nhwc.onnx"]
    for path, turned in zip(paths, (False, True), strict=True):
        vai_q_onnx.quantize_static(
            float_model, path, Reader(), quant_format=quant_format, convert_nchw_to_nhwc=turned
        )
    shapes = [[d.dim_value for d in onnx.load(p).graph.input[0].type.tensor_type.shape.dim]
              for p in paths]  # fmt: skip
    assert [shapes[0][axis] for axis in (0, 2, 3, 1)] == shapes[1]
    x = images(1, 9)
    first, second = (complete(load_onnx(path)) for path in paths)
    wanted = Session(first).run({"image": x.transpose(0, 2, 3, 1)})
    found = Session(second).run({"image": x.transpose(0, 2, 3, 1)})
    for one, other in zip(wanted.values(), found.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_has_its_channels_last_already_stays(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17]>
        last (float[1,8,8,3] x) => (float[1,8,8,3] y) { y = Relu(x) }"""
    model = onnx.parser.parse_model(text)
    with pytest.warns(UserWarning, match="leaves last as it is: its images are NHWC already"):
        vai_q_onnx.quantize_static(model, tmp_path / "q.onnx", None, convert_nchw_to_nhwc=True)
    model = onnx.parser.parse_model(text.replace("8,8,3", "3"))
    with pytest.warns(UserWarning, match="leaves last as it is: no input has four axes"):
        vai_q_onnx.quantize_static(model, tmp_path / "q.onnx", None, convert_nchw_to_nhwc=True)


def test_from_amds_operators_to_those_of_onnx(float_model, tmp_path):
    first, second = tmp_path / "q.onnx", tmp_path / "qdq.onnx"
    vai_q_onnx.quantize_static(float_model, first, Reader())
    script = [sys.executable, "-m", "vai_q_onnx.tools.convert_customqdq_to_qdq"]
    arguments = ["--input_model", first, "--output_model", second]
    subprocess.run([*script, *arguments], check=True)
    model = onnx.load(second)
    assert {node.domain for node in model.graph.node} == {""}
    back = [complete(load_onnx(path)) for path in (first, second)]
    points = [[n.fix_point for n in graph if n.kind == "fix"] for graph in back]
    assert points[0] == points[1]
    arguments = ["--input_model", float_model, "--output_model", second]
    failed = subprocess.run([*script, *arguments], capture_output=True, text=True)
    assert (failed.returncode, failed.stderr) == (1, "error: model 'average' is not quantized\n")


def test_results_of_16_bits_converted_in_memory(float_model, tmp_path):
    path = tmp_path / "a16w8.onnx"
    vai_q_onnx.quantize_static(
        float_model, path, Reader(), quant_format=VitisQuantFormat.QDQ,
        activation_type=VitisQuantType.QInt16, weight_type=QuantType.QInt8,
        calibrate_method=PowerOfTwoMethod.NonOverflow, use_external_data_format=True,
        op_types_to_quantize=["Conv", "Gemm", "MatMul"], enable_ipu_cnn=True,
    )  # fmt: skip
    custom = onnx.load(path)
    kept = custom.SerializeToString()
    model = custom_ops_infer_shapes(convert_customqdq_to_qdq(custom))
    assert custom.SerializeToString() == kept
    wide = {node.op_type for node in model.graph.node if node.domain == "com.microsoft"}
    assert wide == {"QuantizeLinear", "DequantizeLinear"}  # before operator set 21
    assert {node.domain for node in model.graph.node} == {"", "com.microsoft"}
    known = {item.name for item in (*model.graph.value_info, *model.graph.output)}
    assert {name for node in model.graph.node for name in node.output} <= known
    found, wanted = (
        onnxruntime.InferenceSession(one).run(None, {"image": DATA[:1]})[0]
        for one in (model.SerializeToString(), float_model)
    )
    assert 0 < np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


def test_a_file_is_read_once(float_model, tmp_path, monkeypatch):
    read = []
    load = onnx.load_model

    def counted(path, *args, **kwargs):
        read.append(path)
        return load(path, *args, **kwargs)

    monkeypatch.setattr(onnx, "load_model", counted)
    for reader in (Reader(), None):
        vai_q_onnx.quantize_static(float_model, tmp_path / "q.onnx", reader)
    assert read == [str(float_model)] * 2


@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_operators_on_integers(float_model, tmp_path, kind):
    qdq, qop = tmp_path / "qdq.onnx", tmp_path / "qop.onnx"
    for path, form in ((qdq, QuantFormat.QDQ), (qop, QuantFormat.QOperator)):
        vai_q_onnx.quantize_static(
            float_model, path, Reader(), quant_format=form, activation_type=kind
        )
    model = onnx.load(qop)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("QLinearConv") > kinds.count("Conv") + kinds.count("FusedConv")
    found, wanted = (onnxruntime.InferenceSession(path).run(None, {"image": DATA[:1]})[0]
                     for path in (qop, qdq))  # fmt: skip
    step = np.abs(np.diff(np.unique(wanted))).min()
    assert np.abs(found - wanted).max() <= step * 1.01
    assert np.mean(found == wanted) > 0.5
    before = onnx.load(qdq)
    kept = before.SerializeToString()
    assert "QLinearConv" in {node.op_type for node in convert_qdq_to_qop(before).graph.node}
    assert before.SerializeToString() == kept


def test_finetuning_as_quark_says_it():
    given = {
        "OptimAlgorithm": "AdaQuant", "NumIterations": 50, "LearningRate": 0.1, "BatchSize": 4,
        "DataSize": 20, "EarlyStop": False, "OptimDevice": "cpu",
    }  # fmt: skip
    assert options.finetuning({"FastFinetune": given}) == FinetuneConfig(
        method="adaquant", iterations=50, learning_rate=0.1, batch=4, samples=20, early_stop=False
    )
    assert options.finetuning({}) is None
    with pytest.raises(UnsupportedError, match="FastFinetune is 'yes', but must be a dict"):
        options.finetuning({"FastFinetune": "yes"})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"ActivationSymmetric": False}, "'ActivationSymmetric' is False, but must be True"),
        ({"MatMulConstBOnly": True}, "'MatMulConstBOnly' has no effect"),
        ({"UseQDQVitisCustomOps": True}, "'UseQDQVitisCustomOps' has no effect"),
    ],
)
def test_options_without_effect_are_warned_of(given, text):
    with pytest.warns(UserWarning, match=text):
        found = options.checked(given, power_of_two=True)
    assert found["ActivationSymmetric"]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({}, []),
        ({"op_types_to_quantize": [], "nodes_to_quantize": [], "nodes_to_exclude": []}, []),
        ({"input_nodes": ["r"]}, ["c"]),
        ({"output_nodes": ["p"]}, ["y"]),
        ({"input_nodes": ["r"], "output_nodes": ["r"]}, ["c", "p", "y"]),
        ({"op_types_to_quantize": ["Conv", "Relu"]}, ["p"]),
        ({"nodes_to_quantize": ["c"]}, ["r", "p", "y"]),
        ({"nodes_to_exclude": ["y"]}, ["y"]),
    ],
)
def test_which_nodes_stay_in_float(arguments, wanted):
    model = network("average")
    assert float_nodes(model, **arguments) == wanted
    (rule,) = as_overrides(wanted) or (None,)
    assert (rule is None) == (not wanted)
    if rule is not None:
        assert rule.matches((), wanted[:1])
        assert rule.weights == TensorSpec(number_format="float32")


def test_what_is_refused(float_model, tmp_path):
    output = tmp_path / "q.onnx"
    with pytest.raises(UnsupportedError, match=r"calibrate_method is .*Distribution"):
        vai_q_onnx.quantize_static(
            float_model, output, None, calibrate_method=CalibrationMethod.Distribution
        )
    with pytest.raises(UnsupportedError, match=r"weight_type is .*QInt32.* must be one of"):
        vai_q_onnx.quantize_static(float_model, output, None, weight_type=VitisQuantType.QInt32)
    with pytest.raises(UnsupportedError, match="nodes_to_exclude names 'z', but the model has no"):
        vai_q_onnx.quantize_static(float_model, output, None, nodes_to_exclude=["z"])
    with pytest.raises(UnsupportedError, match="reduce_range makes 7 bits of 8"):
        vai_q_onnx.quantize_static(
            float_model, output, None, weight_type=QuantType.QInt16, reduce_range=True
        )
    with pytest.raises(OutputError, match="it is the input"):
        vai_q_onnx.quantize_static(float_model, float_model, None, use_external_data_format=True)
    assert not output.exists()


def test_the_quantized_model_in_place_of_the_float_one(float_model, tmp_path):
    output = tmp_path / "q.onnx"
    output.write_bytes(pathlib.Path(float_model).read_bytes())
    vai_q_onnx.quantize_static(output, output, None, quant_format=QuantFormat.QDQ)
    assert any("Quantize" in node.op_type for node in onnx.load(output).graph.node)


class Sizes:
    """Images of several widths, as spoken sentences have several lengths."""

    def __init__(self, *widths: int) -> None:
        random = np.random.default_rng(0)
        self.batches = [random.random((1, 3, 8, width), np.float32) for width in widths]

    def get_next(self):
        return {"x": self.batches.pop(0)} if self.batches else None


@pytest.fixture
def open_model(tmp_path: pathlib.Path) -> pathlib.Path:
    made = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 17]>
        net (float[n, 3, 8, width] x) => (float[n, 4, 6, other] y) { y = Conv(x, w) }""")
    weights = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(made, tmp_path / "open.onnx")
    return tmp_path / "open.onnx"


def test_free_dimensions_are_those_of_the_first_batch(open_model, tmp_path):
    with (
        pytest.warns(UserWarning, match=r"those of the first .* batch: x: \[1, 3, 8, 12\]"),
        pytest.warns(UserWarning, match="2 calibration batches are left out: their sizes are not"),
    ):
        report = vai_q_onnx.quantize_static(
            str(open_model), str(tmp_path / "q.onnx"), Sizes(12, 12, 10, 12, 14)
        )
    assert report.samples == 3
    (given,) = onnxruntime.InferenceSession(tmp_path / "q.onnx").get_inputs()
    assert given.shape[1:] == [3, 8, 12]


def test_readers_that_are_none(float_model, tmp_path):
    class OfArrays(Reader):
        def get_next(self):
            return DATA

    for reader, message in (
        ([{"image": DATA}], "is of type list, but must have a method get_next"),
        (OfArrays(), "gives a ndarray, but must give dictionaries of arrays by input"),
    ):
        with pytest.raises(TensorError, match=f"the reader of calibration data {message}"):
            vai_q_onnx.quantize_static(float_model, tmp_path / "q.onnx", reader)


def test_free_dimensions_of_a_reader_without_data(open_model, tmp_path):
    with pytest.raises(UnsupportedError, match="free dimensions"):
        vai_q_onnx.quantize_static(str(open_model), str(tmp_path / "q.onnx"), Sizes())
