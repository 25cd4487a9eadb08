# SPDX-License-Identifier: Apache-2.0
"""What is folded into layers, and what is not."""

import pathlib
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper

from opendpu.ops.foreign import KIND
from opendpu.ops.session import Session
from opendpu.quantize import quantize

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from float_nets import Net, samples

EPSILON = 1e-5


def root(net: Net, name: str, source: str) -> None:
    """Add a square root, which stays an operator of ONNX."""
    shape = net[source].shape
    node = helper.make_node("Sqrt", ["x"], ["y"])
    given, made = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "y"))
    graph = helper.make_graph([node], name, [given], [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    data = model.SerializeToString(deterministic=True)
    net.put(name, KIND, [source], {"model": data, "call": name, "output": 0}, shape)


def normalization(added: float) -> Net:
    """LayerNorm of single operators behind a layer."""
    net = Net()
    net.conv("a", "x", 16)
    height, width = net["a"].shape[1:3]
    row, mean = (1, height, width, 1), {"axis": [3], "keep_dims": True}
    net.put("mean", "reduction_mean", ["a"], mean, row)
    net.put("less", "sub", ["a", "mean"], {}, net["a"].shape)
    net.put("square", "mul", ["less", "less"], {}, net["a"].shape)
    net.put("variance", "reduction_mean", ["square"], mean, row)
    constant = net.add_const("added", np.full(1, added, np.float32)).name
    one = net.add_const("one", np.ones(1, np.float32)).name
    net.add("sum", "scale", row, {"input": ["variance"], "scale": [one], "bias": [constant]})
    root(net, "deviation", "sum")
    net.put("y", "div", ["less", "deviation"], {}, net["a"].shape)
    return net


@pytest.mark.parametrize(("added", "kind"), [(EPSILON, "scale"), (0.5, "depthwise-conv2d")])
def test_what_keeps_a_variance_from_zero_stays_in_float(added, kind):
    net = normalization(added).done("y")
    data = samples()
    data["x"][:2] = 0  # variances of some pixels are those of biases alone
    graph = quantize(net, data)
    assert graph["sum"].kind == kind
    session = Session(graph)
    for sample in data["x"]:
        (found,) = session.run({"x": sample[None]}).values()
        assert np.isfinite(found).all()


def rows(net: Net, name: str, source: str, channels: int, *, read_twice: bool = False) -> str:
    """Add a normalization over all pixels as rows, between reshapes, as LeViT has it."""
    shape = net[source].shape
    flat = (shape[1] * shape[2], channels)
    net.put(f"{name}_rows", "reshape", [source], {"shape": list(flat)}, flat)
    random, inputs = net.random, {"input": [f"{name}_rows"]}
    for arg, value in (
        ("gamma", random.uniform(0.5, 8, channels)), ("beta", random.standard_normal(channels)),
        ("moving_mean", random.standard_normal(channels)),
        ("moving_var", random.uniform(0.1, 2, channels)),
    ):  # fmt: skip
        inputs[arg] = [net.add_const(f"{name}_{arg}", value.astype(np.float32)).name]
    attrs = {"epsilon": EPSILON, "axis": -1}
    net.put(name, "batchnorm", inputs, attrs, flat)
    net.put(f"{name}_back", "reshape", [name], {"shape": list(shape)}, shape)
    if read_twice:
        net.put(f"{name}_sum", "add", [f"{name}_back", source])
        return f"{name}_sum"
    return f"{name}_back"


@pytest.mark.parametrize(("read_twice", "kinds"), [
    (False, {"conv2d", "fix", "data", "const", "reshape"}),
    (True, {"conv2d", "fix", "data", "const", "reshape", "depthwise-conv2d", "add"}),
])  # fmt: skip
def test_a_normalization_of_rows_is_folded_through_reshapes(read_twice, kinds):
    net = Net()
    net.conv("a", "x", 16, size=1)
    net.conv("y", rows(net, "norm", "a", 16, read_twice=read_twice), 8, size=1)
    graph = net.done("y")
    data = samples()
    wanted = [Session(graph).run({"x": sample[None]})["y"] for sample in data["x"]]
    quantized = quantize(graph, data)
    found = [
        next(iter(Session(quantized).run({"x": sample[None]}).values())) for sample in data["x"]
    ]
    error = np.subtract(wanted, found)
    assert 10 * np.log10(np.square(wanted).sum() / np.square(error).sum()) > 25
    assert {node.kind for node in quantized} <= kinds


def test_rows_that_are_the_result_keep_its_name():
    net = Net()
    net.conv("a", "x", 16, size=1)
    rows(net, "norm", "a", 16)
    del net.nodes["norm_back"]
    quantized = quantize(net.done("norm"), samples())
    (name,) = quantized.outputs
    assert name.startswith("norm")
    assert quantized[name].shape == (64, 16)
    assert "batchnorm" not in {node.kind for node in quantized}
