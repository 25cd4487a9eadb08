# SPDX-License-Identifier: Apache-2.0
"""Models of onnxruntime's quantizer, whose scales are no powers of two, without these scales."""

import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from qdq import QdqModel

from opendpu.api import compile_onnx, quantize_onnx
from opendpu.frontend import load_model, load_onnx
from opendpu.frontend.requantizing import Requantize
from opendpu.inspect_model import inspect
from opendpu.ir import NOTES, FloatGraph
from opendpu.ops.foreign import KIND
from opendpu.ops.session import Session
from opendpu.requantization import load_for_quantizing
from opendpu_arch.errors import ModelFormatError, UnsupportedError

SHAPE = (1, 3, 16, 16)


class Samples(CalibrationDataReader):
    """Eight images."""

    def __init__(self) -> None:
        self.left = iter([{"image": image(seed)} for seed in range(8)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


def image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, SHAPE).astype(np.float32)


def float_model(path: pathlib.Path) -> pathlib.Path:
    """Write a network with ReLU, ReLU6, a pool, a sum and a classifier."""
    rng, node = np.random.default_rng(4), helper.make_node
    shapes = {"w1": (8, 3, 3, 3), "w2": (8, 8, 3, 3), "w3": (8, 5), "b1": (8,)}
    weights = {name: rng.normal(0, 0.5, shape) for name, shape in shapes.items()}
    nodes = [
        node("Conv", ["image", "w1", "b1"], ["a"], "a", pads=[1, 1, 1, 1]),
        node("Clip", ["a", "zero", "six"], ["b"], "b"),
        node("MaxPool", ["b"], ["c"], "c", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["c", "w2"], ["d"], "d", pads=[1, 1, 1, 1]),
        node("Add", ["c", "d"], ["e"], "e"),
        node("Relu", ["e"], ["f"], "f"),
        node("GlobalAveragePool", ["f"], ["g"], "g"),
        node("Flatten", ["g"], ["h"], "h"),
        node("MatMul", ["h", "w3"], ["scores"], "scores"),
    ]
    constants = {**weights, "zero": np.zeros(()), "six": np.full((), 6.0)}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("image", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (1, 5))],
        [numpy_helper.from_array(v.astype(np.float32), n) for n, v in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


FORMS = {
    "signed": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QInt8},
    "unsigned": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QUInt8},
    "channels": {"quant_format": QuantFormat.QDQ, "per_channel": True},
    "operators": {"quant_format": QuantFormat.QOperator, "activation_type": QuantType.QUInt8},
    "16 bits": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QUInt16,
                "extra_options": {"UseQDQContribOps": True}},
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    folder = tmp_path_factory.mktemp("quantized")
    found = {"float": float_model(folder / "float.onnx")}
    for form, options in FORMS.items():
        found[form] = folder / f"{form}.onnx"
        quantize_static(found["float"], found[form], Samples(), **options)
    return found


def ratio(wanted: np.ndarray, found: np.ndarray) -> float:
    return 10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum())


def scores(graph: FloatGraph, seed: int) -> np.ndarray:
    given = image(seed).transpose(graph.attrs["onnx_order"]["image"])
    return Session(graph).run({"image": given})["scores"]


@pytest.mark.parametrize("form", FORMS)
def test_the_float_network_of_the_weights(files: dict[str, pathlib.Path], form: str) -> None:
    """What is left has no quantizer, and gives what the float network gives, weights rounded."""
    graph = load_model(files[form], requantize=Requantize.DATA)
    assert {node.kind for node in graph}.isdisjoint({KIND, "fix"})
    session = onnxruntime.InferenceSession(str(files["float"]))
    for seed in range(3):
        wanted = session.run(None, {"image": image(seed)})[0]
        assert ratio(wanted, scores(graph, seed)) > 30


@pytest.mark.parametrize("form", FORMS)
def test_powers_of_two_that_hold_the_ranges(files: dict[str, pathlib.Path], form: str) -> None:
    found = load_for_quantizing(files[form], requantize=True, has_samples=False)
    report = found.report
    assert report is not None
    (cost,) = report.outputs_sqnr.values()
    assert cost is not None and cost > 12
    assert any("from the ranges in the file" in line for line in report.lines())
    session = onnxruntime.InferenceSession(str(files["float"]))
    given = image(1).transpose(found.graph.attrs["onnx_order"]["image"])
    wanted = session.run(None, {"image": image(1)})[0]
    assert ratio(wanted, Session(found.graph).run({"image": given})[found.graph.outputs[0]]) > 12


@pytest.mark.parametrize("form", ["unsigned", "operators"])
@pytest.mark.parametrize("samples", [True, False])
def test_all_of_it_is_the_dpus(
    files: dict[str, pathlib.Path], tmp_path: pathlib.Path, form: str, samples: bool
) -> None:
    calib = {"image": np.concatenate([image(seed) for seed in range(8)])} if samples else None
    report = compile_onnx(
        files[form], calibration=calib, target="B512", output=tmp_path / "out.xmodel",
        requantize=True,
    )  # fmt: skip
    assert [part.device for part in report.subgraphs if part.device != "USER"] == ["DPU"]


def test_without_being_asked_the_scales_stay(
    files: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    output = tmp_path / "out.xmodel"
    with pytest.raises(UnsupportedError, match=r"change the scales \(--requantize\)"):
        compile_onnx(files["signed"], target="B512", output=output)
    calib = {"image": np.concatenate([image(seed) for seed in range(8)])}
    report = compile_onnx(files["signed"], calibration=calib, target="B512", output=output)
    assert any("--requantize takes them out" in line for line in report.remarks)


@pytest.mark.parametrize("form", ["float", "dpu"])
def test_scales_that_need_no_change_are_told(
    files: dict[str, pathlib.Path], tmp_path: pathlib.Path, form: str
) -> None:
    calib = {"image": np.concatenate([image(seed) for seed in range(8)])}
    source, output = files["float"], tmp_path / "out.xmodel"
    why = "it is a float model"
    if form == "dpu":
        source, why = tmp_path / "dpu.onnx", "it is quantized with scales of the DPU"
        quantize_onnx(files["float"], calibration=calib, output=source)
    given = None if form == "dpu" else calib
    message = rf"has no scales to change \(--requantize\): {why}"
    with pytest.warns(UserWarning, match=message):
        compile_onnx(source, calibration=given, target="B512", output=output, requantize=True)
    with pytest.warns(UserWarning, match=message):
        quantize_onnx(source, calibration=given, output=output, requantize=True)


def test_inspection_tells_what_requantizing_would_give(files: dict[str, pathlib.Path]) -> None:
    found = inspect(files["unsigned"], target="B512")
    assert {node.device for node in found.nodes} == {"USER", "DPU"}


def test_clips_that_quantizers_left_out_come_back() -> None:
    """Ranges from 0 say ReLU, those to 6 ReLU6; where that is so already they say nothing."""
    text = """
    <ir_version: 9, opset_import: ["" : 17]>
    g (float[1, 4, 4, 4] x) => (float[1, 4, 4, 4] y)
      <float s6 = {0.023529412}, float s = {0.1}, uint8 z = {0}, float[4, 4, 1, 1] w = {
        1, 0, 0, 0,  0, 1, 0, 0,  0, 0, 1, 0,  0, 0, 0, 1}> {
      a = Conv(x, w)
      aq = QuantizeLinear(a, s6, z)
      b = DequantizeLinear(aq, s6, z)
      p = MaxPool <kernel_shape = [1, 1]> (b)
      pq = QuantizeLinear(p, s6, z)
      r = DequantizeLinear(pq, s6, z)
      c = Conv(r, w)
      cq = QuantizeLinear(c, s, z)
      d = DequantizeLinear(cq, s, z)
      e = MaxPool <kernel_shape = [1, 1]> (d)
      eq = QuantizeLinear(e, s, z)
      f = DequantizeLinear(eq, s, z)
      y = Conv(f, w)
    }
    """
    graph = load_onnx(onnx.parser.parse_model(text), requantize=Requantize.DATA)
    kinds = [node.kind for node in graph]
    assert kinds.count("relu6") == 1
    assert kinds.count("relu") == 1
    x = np.random.default_rng(6).uniform(-9, 9, (1, 4, 4, 4)).astype(np.float32)
    found = Session(graph).run({"x": x.transpose(graph.attrs["onnx_order"]["x"])})["y"]
    order = graph.attrs["onnx_order"]["y"]
    np.testing.assert_allclose(found, np.clip(x, 0, 6).transpose(order), rtol=1e-6)


def test_scales_of_powers_of_two_stay(tmp_path: pathlib.Path) -> None:
    text = """
    <ir_version: 9, opset_import: ["" : 17]>
    g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
      <float s = {0.03125}, int8 z = {0}> {
      q = QuantizeLinear(x, s, z)
      d = DequantizeLinear(q, s, z)
      y = Relu(d)
    }
    """
    proto = onnx.parser.parse_model(text)
    for mode in Requantize:
        assert [node.kind for node in load_onnx(proto, requantize=mode)].count("fix") == 1


@pytest.mark.parametrize("mode", Requantize)
@pytest.mark.parametrize("broken", ["DequantizeLinear", "QuantizeLinear", "Clip"])
def test_nodes_without_inputs_are_faults(
    files: dict[str, pathlib.Path], broken: str, mode: Requantize
) -> None:
    proto = onnx.load(files["signed"])
    (end,) = (n for n in proto.graph.node if n.op_type == "DequantizeLinear" and "f_Dequ" in n.name)
    if broken == "Clip":
        clip = helper.make_node("Clip", [], [end.input[0] + "_clipped"], "clip")
        proto.graph.node.insert(list(proto.graph.node).index(end), clip)
        end.input[0] = clip.output[0]
    else:
        next(n for n in proto.graph.node if n.op_type == broken).ClearField("input")
    with pytest.raises((ModelFormatError, UnsupportedError)):
        load_onnx(proto, requantize=mode)


def test_layers_without_a_range_are_told_of_where_scales_stay(tmp_path: pathlib.Path) -> None:
    """As quantizers for CPUs write it, which round only what layers take."""
    net = QdqModel()
    made = net.node("Sigmoid", net.conv(net.fix("x", 4), (4, 4, 3, 3)))
    onnx.save(net.model(net.fix(net.conv(net.fix(made, 7), (4, 4, 1, 1)), 3)), tmp_path / "q.onnx")
    found = load_for_quantizing(tmp_path / "q.onnx", has_samples=False, any_scale=True)
    assert found.report is None
    (note,) = found.graph.attrs[NOTES]
    assert note.startswith("1 layers, the first 'conv")
    assert note.endswith("stay on the CPU (--requantize with --calib gives them one)")
