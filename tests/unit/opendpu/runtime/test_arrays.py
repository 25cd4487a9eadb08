# SPDX-License-Identifier: Apache-2.0
"""Arrays that do not fit their tensors, and VART's float conversion."""

import numpy as np
import onnx
import pytest

from opendpu.api import compile_graph
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner, Runner
from opendpu.runtime.arrays import fixed_to_float, float_to_fixed
from opendpu_arch.errors import TensorError


def test_c_conversion_truncates_and_wraps():
    values = np.array([0.0, 0.24, 0.25, -0.24, -0.26, -0.5, 31.75, 32.0, -32.0, -32.25, 100.0])
    fixed = float_to_fixed(values.astype(np.float32), 2, np.dtype(np.int8))
    assert fixed.tolist() == [0, 0, 1, 0, -1, -2, 127, -128, -128, 127, -112]
    assert float_to_fixed(np.float32([9.0, -9.0]), -2, np.dtype(np.int8)).tolist() == [2, -2]
    assert float_to_fixed(np.float32([3e38, -3e38]), 6, np.dtype(np.int8)).tolist() == [-1, 0]


def test_back_to_float():
    floats = fixed_to_float(np.int8([-128, 3]), 2)
    assert floats.dtype == np.float32
    assert floats.tolist() == [-32.0, 0.75]
    assert fixed_to_float(np.int8([3]), -2).tolist() == [12.0]


@pytest.fixture
def runner(copy_subgraph, fake_device):
    with Runner(copy_subgraph, device=fake_device) as runner:
        yield runner


def good() -> np.ndarray:
    return np.zeros((1, 2, 3, 4), np.int8)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (good().astype(np.uint8), "'x' has dtype uint8, but must be int8 or float32"),
        (good().astype(np.float64), "'x' has dtype float64, but must be int8 or float32"),
        (good()[0], r"has shape \(2, 3, 4\), but must be \(1, 2, 3, 4\)"),
        (good().reshape(1, 3, 2, 4), r"has shape \(1, 3, 2, 4\)"),
        (np.zeros((1, 2, 4, 3), np.int8).swapaxes(2, 3), "must be C-contiguous; use numpy.asc"),
        (
            [[1]],
            "'x' is a list, but must be an array or have the buffer protocol, __dlpack__",
        ),
    ],
)
@pytest.mark.parametrize("by_name", [False, True])
def test_wrong_inputs(runner, array, message, by_name):
    with pytest.raises(TensorError, match=f"input .*{message}"):
        runner.execute_async({"x_upload": array} if by_name else [array], [good()])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "0 inputs given, but must be 1: x"),
        ([good(), good()], "2 inputs given, but must be 1: x"),
        ({}, "input 'x' is missing; needed: x"),
        ({"x": good(), "foo": good()}, "unknown input 'foo'; needed: x"),
        ({"x": good(), "x_upload": good()}, "unknown input 'x_upload'; needed: x"),
        (good(), "inputs are a ndarray, but must be a list of arrays or a dict by name"),
        (3, "inputs are a int, but must be a list"),
    ],
)
def test_missing_and_surplus_inputs(runner, inputs, message):
    with pytest.raises(TensorError, match=message):
        runner.execute_async(inputs, [good()])


def test_wrong_outputs(runner):
    with pytest.raises(TensorError, match="output 'y' has dtype int16, but must be int8 or float"):
        runner.execute_async([good()], [good().astype(np.int16)])
    frozen = good()
    frozen.flags.writeable = False
    with pytest.raises(TensorError, match="output 'y' is read-only, but must be writeable"):
        runner.execute_async([good()], [frozen])
    runner.wait(runner.execute_async([frozen], [good()]))


def test_float_without_fix_point(runner):
    runner.get_input_tensors()[0].remove_attr("fix_point")
    with pytest.raises(TensorError, match="'x' has no fix_point, so float32 cannot be conv"):
        runner.execute_async([good().astype(np.float32)], [good()])


def test_float_that_is_not_finite(runner):
    values = good().astype(np.float32)
    values[0, 0, 0, 0] = np.nan
    with pytest.raises(TensorError, match="input 'x': float32 values are not all finite"):
        runner.execute_async([values], [good()])


def test_truth_values_are_the_bytes_that_xir_has_for_them():
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (bool[1, 4] mask, float[1, 4] x) => (float[1, 4] y) <float zero = {0.0}> {
          y = Where(mask, x, zero)
        }""")
    values = np.float32([[1, 2, 3, 4]])
    given = np.array([[True, False, True, False]])
    quantized = quantize(load_onnx(model), {"mask": given, "x": values})
    with GraphRunner(compile_graph(quantized, target="B512").graph) as runner:
        names = [tensor.name for tensor in runner.get_input_tensors()]
        (found,) = runner.run({n: given if "mask" in n else values for n in names}).values()
    assert found.tolist() == [[1, 0, 3, 0]]
