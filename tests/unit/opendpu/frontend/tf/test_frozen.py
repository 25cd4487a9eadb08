# SPDX-License-Identifier: Apache-2.0
"""Frozen graphs without TensorFlow: AMD's quantized ones, branches, faults."""

import numpy as np
import pytest
from graph_defs import Network

from opendpu.api import compile_onnx
from opendpu.frontend import load_model
from opendpu.frontend.tensorflow import load_frozen
from opendpu.frontend.tensorflow.graphdef import array_of
from opendpu.frontend.tensorflow.proto import Tensor
from opendpu.ops.session import Session
from opendpu.quantize import is_quantized
from opendpu_arch.errors import DPUError, ModelFormatError, UnsupportedError


def on_grid(random, point, *shape):
    return (random.integers(-128, 128, shape) * 2.0**-point).astype(np.float32)


def quantized(random, path, bits=8):
    """Write what AMD's quantizer for TensorFlow 1 makes of a convolution."""
    net = Network()
    net.data("image", (-1, 6, 6, 3))
    net.node("image/aquant", "FixNeuron", "image", quantize_pos=6, bit_width=bits)
    net.const("w", on_grid(random, 7, 3, 3, 3, 4))
    net.node("w/wquant", "FixNeuron", "w", quantize_pos=7, bit_width=8)
    net.const("b", on_grid(random, 5, 4))
    net.node("b/wquant", "FixNeuron", "b", quantize_pos=5, bit_width=8)
    net.node("conv", "Conv2D", "image/aquant", "w/wquant", padding="SAME", strides=[1, 1, 1, 1])
    net.node("bias", "BiasAdd", "conv", "b/wquant")
    net.node("relu", "Relu", "bias")
    net.node("relu/aquant", "FixNeuron", "relu", quantize_pos=4, bit_width=8)
    return net.write(path)


def test_graphs_of_amds_quantizer_compile_as_they_are(rng, tmp_path):
    path = quantized(rng, tmp_path / "quantize_eval_model.pb")
    graph = load_model(path)
    assert is_quantized(graph)
    points = {node.name: node.fix_point for node in graph if node.kind == "fix"}
    assert points["image/aquant"] == 6
    assert points["relu/aquant"] == 4
    assert sorted(points.values()) == [4, 5, 6, 7]
    report = compile_onnx(path, target="B512", output=tmp_path / "c.xmodel")
    kinds = [part.device for part in report.subgraphs]
    assert kinds.count("DPU") == 1
    assert "CPU" not in kinds


def test_other_bits_are_refused(rng, tmp_path):
    path = quantized(rng, tmp_path / "wide.pb", bits=16)
    with pytest.raises(UnsupportedError, match=r"FixNeuron \(bit_width is 16, but the DPU has 8"):
        load_frozen(path)


def test_only_the_branch_that_is_taken_counts(tmp_path, rng):
    net = Network()
    net.data("x", (1, 4))
    net.const("training", np.array(False))
    net.node("switch", "Switch", "x", "training")
    net.node("dropped", "RandomDropout", "switch:1")
    net.node("kept", "Relu", "switch")
    net.node("merge", "Merge", "kept", "dropped")
    net.node("y", "Neg", "merge", "^training")
    graph = load_frozen(net.write(tmp_path / "branches.pb"))
    x = rng.standard_normal((1, 4)).astype(np.float32)
    np.testing.assert_array_equal(Session(graph).run({"x": x})["y"], -np.maximum(x, 0))


def test_outputs_can_be_chosen(tmp_path):
    net = Network()
    net.data("x", (1, 4))
    net.node("middle", "Relu", "x")
    net.node("strange", "MyOwn", "middle")
    path = net.write(tmp_path / "more.pb")
    with pytest.raises(UnsupportedError, match=r"MyOwn \(no counterpart\): strange"):
        load_frozen(path)
    assert load_frozen(path, outputs=["middle"]).outputs == ["middle"]
    with pytest.raises(ModelFormatError, match=r"nothing makes 'else'"):
        load_frozen(path, outputs=["else"])


def test_elements_of_constants():
    tensor = Tensor(dtype=1, float_val=[1, 2])
    tensor.tensor_shape.dim.add().size = 4
    assert array_of(tensor).tolist() == [1, 2, 2, 2]
    half = Tensor(dtype=19, half_val=[0x3C00])
    assert array_of(half) == np.float16(1)
    small = Tensor(dtype=6, int_val=[-3])
    assert array_of(small).dtype == np.int8
    assert array_of(small) == -3


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda net: net.node("y", "Relu", "x"), r"nothing makes 'x'"),
        (lambda net: [net.node("c", "Const"), net.node("y", "Relu", "c")], r"it has no value"),
        (lambda net: [net.node("y", "Relu", "z"), net.node("z", "Relu", "y"),
                      net.node("o", "Relu", "y")], r"has a loop through '[yz]'"),
        (lambda net: net.data("x", (1, 2)), r"has no outputs: every result is read"),
        (lambda net: [net.data("x", (1, 2)), net.data("x", (1, 2))], r"has two nodes 'x'"),
        (lambda net: [net.data("x", (1, 2)), net.node("y", "Relu6", "x", "x"),
                      net.node("z", "Reshape", "x", "y")], r"shapes \('y'\) are computed"),
        (lambda net: [net.data("x", (1, 5, 5, 2)), net.const("w", np.ones((3, 3, 2, 4))),
                      net.node("z", "Conv2D", "x", "w", padding="SAME", strides=[1, 1, 1, 2])],
         r"strides is \[1, 1, 1, 2\], but only rows and columns"),
        (lambda net: [net.data("x", (1, 2)), net.node("y", "Placeholder", shape="wide", dtype=1.0),
                      net.node("z", "Add", "x", "y")], "input 'y' are no dtype and no shape"),
    ],
)  # fmt: skip
def test_faults(build, message, tmp_path):
    net = Network()
    build(net)
    with pytest.raises(DPUError, match=message):
        load_frozen(net.write(tmp_path / "bad.pb"))


def test_damaged_files(rng, tmp_path):
    path = quantized(rng, tmp_path / "q.pb")
    whole = path.read_bytes()
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ModelFormatError, match=r"q\.pb is not a frozen graph: it is no GraphDef"):
        load_frozen(path)
    for _ in range(60):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 2):
            data[place] = rng.integers(256)
        path.write_bytes(bytes(data))
        try:
            load_frozen(path)
        except DPUError as error:
            assert str(path) in str(error)


@pytest.mark.parametrize("name", ["relu:quant", "relu:1:2", "relu:" + "9" * 5000])
def test_names_with_colons(name, tmp_path):
    net = Network()
    net.data("x", (1, 4))
    net.node("relu", "Relu", "x")
    net.node("out", "Relu", name)
    with pytest.raises(ModelFormatError, match=r"nothing makes 'relu"):
        load_frozen(net.write(tmp_path / "read.pb"))
    net = Network()
    net.data("x", (1, 4))
    net.node(name, "Relu", "x")
    assert load_frozen(net.write(tmp_path / "made.pb"))


def test_fixed_sizes_are_replaced(tmp_path):
    net = Network()
    net.data("x", (1, 8, 8, 4))
    net.const("axes", np.array([1, 2], np.int32))
    net.const("shape", np.array([1, 8, 8, 4], np.int32))
    net.node("mean", "Mean", "x", "axes", keep_dims=False)
    mean = net.write(tmp_path / "mean.pb")
    assert load_model(mean, {"x": (1, 20, 6, 4)})["mean"].shape == (1, 4)
    net.node("fixed", "Reshape", "x", "shape")
    with pytest.raises(UnsupportedError, match=r"gives \[1, 20, 6, 4\] for input 'x', where"):
        load_model(net.write(tmp_path / "fixed.pb"), {"x": (1, 20, 6, 4)})


def test_placeholders_that_always_have_one_value(rng, tmp_path):
    """What networks of TensorFlow 1 ask for beside the image: the learning phase, a rate."""
    net = Network()
    net.data("image", (-1, 4, 4, 3))
    net.node("keep_prob", "Placeholder", dtype=np.dtype(np.float32), shape=())
    net.const("w", rng.standard_normal((1, 1, 3, 2)).astype(np.float32))
    net.node("c", "Conv2D", "image", "w", strides=[1, 1, 1, 1], padding="SAME")
    net.node("y", "RealDiv", "c", "keep_prob", T=np.dtype(np.float32))
    path = net.write(tmp_path / "dropout.pb")
    graph = load_frozen(path, input_values={"keep_prob": 0.5})
    assert [node.name for node in graph if node.kind == "data"] == ["image"]
    image = rng.standard_normal((1, 4, 4, 3)).astype(np.float32)
    plain = Session(load_frozen(path, input_values={"keep_prob": 1})).run({"image": image})
    np.testing.assert_allclose(Session(graph).run({"image": image})["y"], 2 * plain["y"], rtol=1e-6)
    with pytest.raises(UnsupportedError, match="has input 'keep', but the inputs are: image"):
        load_frozen(path, input_values={"keep": 1})
