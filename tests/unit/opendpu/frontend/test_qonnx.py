# SPDX-License-Identifier: Apache-2.0
"""Quantizers of QONNX, against what its definition says of each, written out here."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.api import compile_onnx
from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.ops.session import Session
from opendpu_arch.errors import UnsupportedError

SHAPE = (1, 3, 8, 6)
ROUNDINGS = {
    "ROUND": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "DOWN": lambda x: np.sign(x) * np.floor(np.abs(x)),
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - 0.5),
}


def quantized(
    x: np.ndarray, scale: np.ndarray, zero: float, bits: int, *, signed: int, narrow: int, mode: str
) -> np.ndarray:
    """Return ``Quant`` as QONNX defines it."""
    if signed:
        low, high = -(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1
    else:
        low, high = 0, 2**bits - 1 - narrow
    integers = ROUNDINGS[mode](np.clip(x / scale + zero, low, high))
    return (integers - zero) * scale


def model(
    op_type: str, constants: dict[str, np.ndarray], domain: str, opset: int = 13, **attrs: object
) -> onnx.ModelProto:
    node = helper.make_node(op_type, ["x", *constants], ["y"], "quant", domain=domain, **attrs)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
        [numpy_helper.from_array(np.asarray(v, np.float32), n) for n, v in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run(graph: FloatGraph, x: np.ndarray) -> np.ndarray:
    order = graph.attrs.get("onnx_order", {})
    given = x.transpose(order.get("x", range(4)))
    found = Session(graph).run({"x": given})["y"]
    return found.transpose(np.argsort(order.get("y", range(4))))


CASES = [
    {"bits": 8, "signed": 1}, {"bits": 8, "signed": 1, "narrow": 1}, {"bits": 8, "signed": 0},
    {"bits": 4, "signed": 0}, {"bits": 3, "signed": 1, "narrow": 1}, {"bits": 2, "signed": 1},
    {"bits": 5, "signed": 0, "zero": 3}, {"bits": 12, "signed": 1}, {"bits": 4, "channels": True},
    {"bits": 10, "signed": 1, "channels": True},
    *({"bits": 6, "mode": mode} for mode in ROUNDINGS),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("opset", [11, 13])
def test_it_is_what_qonnx_says(case: dict, opset: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(0, 1.5, SHAPE).astype(np.float32)
    scale = np.float32(2.0 / 2 ** case["bits"])
    if case.get("channels"):
        scale = (scale * rng.uniform(0.5, 2, (1, 3, 1, 1))).astype(np.float32)
    zero, mode = case.get("zero", 0), case.get("mode", "ROUND")
    signed, narrow = case.get("signed", 1), case.get("narrow", 0)
    proto = model(
        "Quant", {"scale": scale, "zero": zero, "bits": case["bits"]}, "qonnx.custom_op.general",
        opset, signed=signed, narrow=narrow, rounding_mode=mode,
    )  # fmt: skip
    wanted = quantized(x, scale, zero, case["bits"], signed=signed, narrow=narrow, mode=mode)
    np.testing.assert_allclose(run(load_onnx(proto), x), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("domain", ["onnx.brevitas", "finn.custom_op.general"])
def test_bipolar(domain: str) -> None:
    proto = model("BipolarQuant", {"scale": np.float32(0.25)}, domain)
    x = np.random.default_rng(1).normal(0, 1, SHAPE).astype(np.float32)
    x[0, 0, 0, :2] = 0.0, -0.0
    np.testing.assert_array_equal(run(load_onnx(proto), x), np.where(x >= 0, 0.25, -0.25))


def test_what_is_not_known_is_named() -> None:
    constants = {name: np.float32(value) for name, value in zip("szio", (1, 0, 8, 4), strict=True)}
    with pytest.raises(UnsupportedError, match=r"'quant' .*Trunc"):
        load_onnx(model("Trunc", constants, "qonnx.custom_op.general"))


@pytest.mark.parametrize("attrs", [{"rounding_mode": 5}, {"signed": "yes", "narrow": 1.5}, {}])
@pytest.mark.parametrize("bits", [np.nan, -3.0, 1e30, np.zeros(0)])
def test_attributes_and_widths_that_make_no_sense(attrs: dict, bits: object) -> None:
    constants = {"scale": np.float32(0.5), "zero": np.float32(0), "bits": bits}
    with pytest.raises(UnsupportedError, match="'quant'"):
        load_onnx(model("Quant", constants, "onnx.brevitas", **attrs))


def network(path: pathlib.Path, *, power: bool, bits: int) -> pathlib.Path:
    """Write what Brevitas exports: quantized input, weights, and result of a ReLU."""
    rng = np.random.default_rng(9)
    step = 2.0 ** (2 - bits)
    scales = np.full((8, 1, 1, 1), step) if power else rng.uniform(0.5, 1, (8, 1, 1, 1)) * step
    constants = {
        "x_scale": 2.0**-6 if power else 0.013, "y_scale": 2.0**-3 if power else 0.11,
        "mid_scale": 2.0 ** (3 - bits) if power else 0.23,
        "w1_scale": scales.ravel()[0] if power else scales,
        "w1": rng.normal(0, 0.7, (8, 3, 3, 3)), "w2": rng.normal(0, 0.7, (4, 8, 1, 1)),
        "none": 0.0, "w_bits": bits, "bits": 8,
    }  # fmt: skip

    def quant(source: str, scale: str, width: str, made: str, **attrs: int) -> onnx.NodeProto:
        return helper.make_node(
            "Quant", [source, scale, "none", width], [made], made, rounding_mode="ROUND",
            domain="onnx.brevitas", **{"signed": 1, "narrow": 0, **attrs},
        )  # fmt: skip

    nodes = [
        quant("x", "x_scale", "bits", "xq"),
        quant("w1", "w1_scale", "w_bits", "w1q", narrow=1),
        helper.make_node("Conv", ["xq", "w1q"], ["a"], "a", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "b"),
        quant("b", "mid_scale", "w_bits", "bq", signed=0),
        quant("w2", "w1_scale" if power else "y_scale", "w_bits", "w2q"),
        helper.make_node("Conv", ["bq", "w2q"], ["c"], "c"),
        quant("c", "y_scale", "bits", "y"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 8, 6))],
        [numpy_helper.from_array(np.asarray(v, np.float32), n) for n, v in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 11), helper.make_opsetid("onnx.brevitas", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_other_scales_are_taken_out_where_asked(tmp_path: pathlib.Path) -> None:
    path = network(tmp_path / "brevitas.onnx", power=False, bits=4)
    output = tmp_path / "out.xmodel"
    with pytest.raises(UnsupportedError, match="--requantize"):
        compile_onnx(path, target="B512", output=output)
    calib = {"x": np.random.default_rng(2).normal(0, 0.5, (16, *SHAPE[1:])).astype(np.float32)}
    for samples in (calib, None):
        report = compile_onnx(
            path, calibration=samples, target="B512", output=output, requantize=True
        )
        assert [p.device for p in report.subgraphs if p.device != "USER"] == ["DPU"]


def test_powers_of_two_run_as_they_are(tmp_path: pathlib.Path) -> None:
    """All but bytes without a sign: these are the CPU's until they are taken out."""
    path, output = network(tmp_path / "brevitas.onnx", power=True, bits=8), tmp_path / "o.xmodel"
    report = compile_onnx(path, target="B512", output=output)
    assert "bq_step0" in report.on_cpu
    assert any("--requantize takes them out" in line for line in report.remarks)
    report = compile_onnx(path, target="B512", output=output, requantize=True)
    assert [p.device for p in report.subgraphs if p.device != "USER"] == ["DPU"]


def test_fewer_bits_than_eight_fit_into_bytes_with_a_sign(tmp_path: pathlib.Path) -> None:
    path, output = network(tmp_path / "brevitas.onnx", power=True, bits=4), tmp_path / "o.xmodel"
    report = compile_onnx(path, target="B512", output=output)
    assert set(report.on_cpu) == {"bq_step1_maximum", "bq_step1_minimum"}
    report = compile_onnx(path, target="B512", output=output, requantize=True)
    assert not report.on_cpu
