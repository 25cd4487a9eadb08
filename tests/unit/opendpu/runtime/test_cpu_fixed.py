# SPDX-License-Identifier: Apache-2.0
"""Fixed-point ops on the CPU: conversions, integer arithmetic, what is refused."""

import numpy as np
import pytest

import xir
from opendpu.runtime import cpu
from opendpu_arch.errors import GraphError, UnsupportedError

QUANT = {"fix_point": 2, "bit_width": 8, "round_mode": "DPU_ROUND", "if_signed": True}


def run(kind: str, attrs: dict, inputs: list[tuple[np.ndarray, int]], fix_point: int = 0):
    """Return what our CPU computes for one op on int8 arrays with fix points."""
    graph = xir.Graph("g")
    ops = []
    for i, (array, position) in enumerate(inputs):
        op = graph.create_op(
            f"i{i}", "data-fix", {"shape": list(array.shape), "data_type": "XINT8"}
        )
        op.get_output_tensor().set_attr("fix_point", position)
        ops.append(op)
    args = {}
    for arg in graph.get_definition(kind).args:
        take = len(ops) if arg.occurrence.repeated else 1
        args[arg.name], ops = ops[:take], ops[take:]
    op = graph.create_op("op", kind, attrs, args)
    op.get_output_tensor().set_attr("fix_point", fix_point)
    return cpu.evaluate(op, [array for array, _ in inputs])


def float_op(kind: str, attrs: dict, array: np.ndarray) -> np.ndarray:
    graph = xir.Graph("g")
    data = graph.create_op("i", "data", {"shape": list(array.shape), "data_type": "FLOAT32"})
    return cpu.evaluate(graph.create_op("op", kind, attrs, {"input": [data]}), [array])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("DPU_ROUND", [1, 0, 2, -1, -2, 127, -128]),
        ("STD_ROUND", [1, -1, 2, -2, -3, 127, -128]),
        ("PY3_ROUND", [0, 0, 2, -2, -2, 127, -128]),
    ],
)
def test_rounding_modes(mode, expected):
    values = np.float32([0.125, -0.125, 0.375, -0.375, -0.625, 99, -99])
    assert float_op("float2fix", {**QUANT, "round_mode": mode}, values).tolist() == expected
    floats = float_op("fix", {**QUANT, "round_mode": mode}, values)
    assert floats.tolist() == [value / 4 for value in expected]


def test_unsigned():
    values = np.float32([-3, 63.75, 64])
    fixed = float_op("float2fix", {**QUANT, "if_signed": False}, values)
    assert fixed.dtype == np.uint8
    assert fixed.tolist() == [0, 255, 255]


@pytest.mark.parametrize("value", [-128, -3, 0, 7, 127])
def test_padding_has_the_value_of_its_byte(value):
    attrs = {
        "paddings": [0, 0, 1, 0, 0, 2, 0, 0], "mode": "CONSTANT",
        "constant_values": value.to_bytes(1, "little", signed=True),
    }  # fmt: skip
    padded = run("pad-fix", attrs, [(np.full((1, 1, 1, 2), 5, np.int8), 2)])
    assert padded.dtype == np.int8
    assert padded[0, 1, 0].tolist() == [5, 5]
    padded[0, 1, 0] = value
    assert (padded == value).all()


def test_fix2float():
    assert run("fix2float", QUANT, [(np.int8([[-128, 3]]), 2)]).tolist() == [[-32.0, 0.75]]


def test_convolution_is_the_integer_one(rng):
    x = rng.integers(-128, 128, (1, 6, 7, 5)).astype(np.int8)
    w = rng.integers(-128, 128, (4, 3, 3, 5)).astype(np.int8)
    b = rng.integers(-128, 128, 4).astype(np.int8)
    attrs = {"kernel": [3, 3], "stride": [2, 1], "pad": [1, 1, 1, 1], "nonlinear": "RELU"}
    found = run("conv2d-fix", attrs, [(x, 4), (w, 6), (b, 7)], 1)
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)]).astype(np.int64)
    for oy in range(6):
        for ox in range(4):
            window = padded[0, oy : oy + 3, 2 * ox : 2 * ox + 3]
            total = (w.astype(np.int64) * window).sum(axis=(1, 2, 3)) + (b.astype(np.int64) << 3)
            expected = np.clip((total + (1 << 8)) >> 9, 0, 127)
            np.testing.assert_array_equal(found[0, oy, ox], expected)


@pytest.mark.parametrize(
    ("kind", "result"), [("ADD", [3, -128, 127]), ("SUB", [1, -6, 0]), ("MUL", [3, 127, 127])]
)
def test_eltwise(kind, result):
    a, b = np.int8([[9, -128, 127]]), np.int8([[2, -128, 127]])
    found = run("eltwise-fix", {"type": kind}, [(a, 3), (b, 1)], 0)
    expected = {
        "ADD": np.floor(a / 8 + b / 2 + 0.5),
        "SUB": np.floor(a / 8 - b / 2 + 0.5),
        "MUL": np.floor(a / 8 * (b / 2) + 0.5),
    }[kind]
    assert found.tolist() == np.clip(expected, -128, 127).tolist()


def test_concat_brings_inputs_to_one_fix_point():
    a, b = np.int8([[7, -7]]), np.int8([[1]])
    assert run("concat-fix", {"axis": 1}, [(a, 3), (b, 0)], 2).tolist() == [[4, -3, 4]]


@pytest.mark.parametrize(("kind", "expected"), [("MAX", 8), ("AVG", 3)])
def test_pool(kind, expected):
    x = np.int8([1, 8, 3, -2]).reshape(1, 2, 2, 1)
    attrs = {"kernel": [2, 2], "stride": [2, 2], "type": kind}
    assert run("pool-fix", attrs, [(x, 0)]).ravel().tolist() == [expected]


@pytest.mark.parametrize(
    ("nonlinear", "expected"),
    [("NONE", [-16, 64]), ("RELU", [0, 64]), ("RELU6", [0, 48]), ("HSIGMOID", [1, 8])],
)
def test_activations(nonlinear, expected):
    x = np.int8([-16, 64]).reshape(1, 1, 2, 1)
    w = np.int8([[[[1]]]])
    attrs = {"kernel": [1, 1], "stride": [1, 1], "nonlinear": nonlinear}
    found = run("conv2d-fix", attrs, [(x, 3), (w, 0)], 3)
    assert found.ravel().tolist() == expected


def test_hswish():
    x = np.int8([-16, 16]).reshape(1, 1, 2, 1)
    attrs = {"kernel": [1, 1], "stride": [1, 1], "nonlinear": "HSWISH"}
    found = run("conv2d-fix", attrs, [(x, 3), (np.int8([[[[1]]]]), 0)], 3)
    assert found.ravel().tolist() == [-3, 13]


def test_what_the_cpu_refuses():
    x = np.int8([1]).reshape(1, 1, 1, 1)
    attrs = {"kernel": [1, 1], "stride": [1, 1], "nonlinear": "PRELU"}
    with pytest.raises(
        UnsupportedError, match="op 'op': nonlinear is 'PRELU', which needs the DPU"
    ):
        run("conv2d-fix", attrs, [(x, 0), (x, 0)])
    with pytest.raises(UnsupportedError, match="type is 'MIN', but must be MAX or AVG"):
        run("pool-fix", {"kernel": [1, 1], "stride": [1, 1], "type": "MIN"}, [(x, 0)])
    with pytest.raises(UnsupportedError, match="type is 'DIV', but must be one of ADD, SUB, MUL"):
        run("eltwise-fix", {"type": "DIV"}, [(x, 0), (x, 0)])
    graph = xir.Graph("g")
    op = graph.create_op("i", "data-fix", {"shape": [1], "data_type": "XINT8"})
    add = graph.create_op("a", "eltwise-fix", {}, {"input": [op, op]})
    with pytest.raises(GraphError, match="tensor 'i' has no attribute 'fix_point'"):
        cpu.evaluate(add, [np.int8([1])] * 2)
