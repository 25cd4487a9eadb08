# SPDX-License-Identifier: Apache-2.0
"""The tools of ``vai_q_onnx.tools``, by their command lines, on what onnxruntime computes."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from export_nets import images, network
from onnx import TensorProto, numpy_helper, parser

import vai_q_onnx
from opendpu_arch.errors import UnsupportedError
from vai_q_onnx.tools.convert_dynamic_to_fixed import convert_dynamic_to_fixed, parsed
from vai_q_onnx.tools.convert_fp16_to_fp32 import convert_fp16_to_fp32
from vai_q_onnx.tools.convert_nchw_to_nhwc import convert_nchw_to_nhwc


def tool(name, *arguments):
    """Run a tool; return what it said of an error."""
    command = [sys.executable, "-m", f"vai_q_onnx.tools.{name}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


def computed(model, **inputs):
    session = onnxruntime.InferenceSession(
        model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    )
    return session.run(None, inputs)[0]


@pytest.fixture
def float_model(tmp_path):
    onnx.save(network("average"), tmp_path / "float.onnx")
    return tmp_path / "float.onnx"


def test_names_of_the_module():
    assert issubclass(vai_q_onnx.MinMaxCalibrater, vai_q_onnx.CalibraterBase)
    assert set(vai_q_onnx.__all__) <= set(dir(vai_q_onnx))
    assert vai_q_onnx.QuantizationMode.QLinearOps.name == "QLinearOps"


def test_random_data_then_operators_on_integers(float_model, tmp_path):
    assert tool("random_quantize", "--input_model", float_model, "--quant_model",
                tmp_path / "q.onnx") == ""  # fmt: skip
    assert tool("convert_qdq_to_qop", "--input_model", tmp_path / "q.onnx", "--output_model",
                tmp_path / "qop.onnx") == ""  # fmt: skip
    kinds = {node.op_type for node in onnx.load(tmp_path / "qop.onnx").graph.node}
    assert "QLinearConv" in kinds
    said = tool("random_quantize", "--input_model", tmp_path / "none.onnx", "--quant_model",
                tmp_path / "q2.onnx")  # fmt: skip
    assert said == f"error: [XCOM_FILE_NOT_EXISTS] {tmp_path / 'none.onnx'}: no such file\n"
    assert not (tmp_path / "q2.onnx").exists()


def test_images_with_channels_last(float_model, tmp_path):
    made = tmp_path / "nhwc.onnx"
    assert tool("convert_nchw_to_nhwc", "--input", float_model, "--output", made) == ""
    x = images(1, 3)
    found = computed(made, image=np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
    np.testing.assert_array_equal(found, computed(float_model, image=x))
    flat = parser.parse_model('<ir_version: 8, opset_import: ["": 17]> flat '
                              "(float[1,4] x) => (float[1,4] y) { y = Relu(x) }")  # fmt: skip
    with pytest.raises(UnsupportedError, match="model 'flat' has no input of four axes"):
        convert_nchw_to_nhwc(flat)


def test_halves_become_whole():
    text = """<ir_version: 8, opset_import: ["": 17]>
        half (float16[N,4] x, bool[1] flag) => (float16[N,4] y)
        <float16[N,4] between> {
            between = Mul(x, w)
            wide = Cast<to = 1>(between)
            narrow = Cast<to = 10>(wide)
            y = If(flag) <
                then_branch = a () => (float16[N,4] p) { p = Add(narrow, w) },
                else_branch = b () => (float16[N,4] q) { q = Identity(narrow) }
            >
        }"""
    model = parser.parse_model(text)
    weights = np.arange(1, 5).astype(np.float16) / 8
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    kept = model.SerializeToString()
    made = convert_fp16_to_fp32(model)
    assert model.SerializeToString() == kept
    onnx.checker.check_model(made, full_check=True)
    assert str(TensorProto.FLOAT16) not in {
        str(i.type.tensor_type.elem_type) for i in (*made.graph.input, *made.graph.value_info)
    }
    x = np.arange(8, dtype=np.float32).reshape(2, 4) / 4
    for flag in (True, False):
        found = computed(made, x=x, flag=np.array([flag]))
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, x * weights + flag * weights.astype(np.float32))


def test_sizes_that_are_fixed(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17]>
        open (float[N,3,H,W] image, float[N,2] more) => (float[N,3,A,B] y, float[N,2] z) {
            y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(image)
            z = Relu(more)
        }"""
    onnx.save(parser.parse_model(text), tmp_path / "open.onnx")
    shapes = "image:[2,3,8,6]; more:[2, 2]"
    assert tool("convert_dynamic_to_fixed", "--fix_shapes", shapes, tmp_path / "open.onnx",
                tmp_path / "fixed.onnx") == ""  # fmt: skip
    made = onnx.load(tmp_path / "fixed.onnx")
    sizes = [[d.dim_value for d in o.type.tensor_type.shape.dim] for o in made.graph.output]
    assert sizes == [[2, 3, 4, 3], [2, 2]]
    model = parser.parse_model(text)
    with pytest.raises(UnsupportedError, match="fix_shapes has 'image=1', but must be like"):
        parsed("image=1")
    with pytest.raises(UnsupportedError, match="'x', but the model's inputs and outputs are image"):
        convert_dynamic_to_fixed(model, "x:[1]")
    with pytest.raises(UnsupportedError, match="'image' has 4 axes, not 3"):
        convert_dynamic_to_fixed(model, "image:[3,8,6]")
