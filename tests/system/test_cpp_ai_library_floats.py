# SPDX-License-Identifier: Apache-2.0
"""Tasks of the AI Library in C++ that take arrays: Unet2D and Cflownet."""

import pathlib
import sys

import numpy as np
import onnx
import pytest

import xir
from opendpu.api import compile_graph
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu.runtime import Runner
from opendpu.runtime.program import dpu_subgraphs

sys.path.append(str(pathlib.Path(__file__).parent))

import ai_library
from ai_library import run, sigmoid

SOURCE = pathlib.Path(__file__).with_name("cpp") / "floats.cpp"
SIDE = 8
KNOWN = np.int8([4, -3, -23, 24, 12, -32])
"""What Cflownet takes for noise where results are compared."""

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> pathlib.Path:
    return ai_library.compiled_program(SOURCE, tmp_path_factory.mktemp("floats") / "floats")


def compiled(folder: pathlib.Path, nodes, inputs, channels: int, weights) -> pathlib.Path:
    """Compile a network with the output ``y``, and put a .prototxt without numbers beside it."""
    helper, rng = onnx.helper, np.random.default_rng(61)
    real = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(*node, **attributes) for node, attributes in nodes], "net",
        [helper.make_tensor_value_info(name, real, dims) for name, dims in inputs.items()],
        [helper.make_tensor_value_info("y", real, (1, channels, SIDE, SIDE))],
        [onnx.numpy_helper.from_array(rng.normal(0, 0.5, dims).astype(np.float32), name)
         for name, dims in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = {
        name: rng.normal(0, 1, (8, *dims[1:])).astype(np.float32) for name, dims in inputs.items()
    }
    path = folder / "net.xmodel"
    compile_graph(quantize(load_onnx(model), samples), target="B512").graph.serialize(path)
    path.with_suffix(".prototxt").write_text('model { name: "net" kernel { name: "net" } }\n')
    return path


def expected(path: pathlib.Path, given) -> np.ndarray:
    """Return the real values of the output for elements of the inputs, by name."""
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(path))
    with Runner(dpu, device="iss") as runner:
        points = {t.name: t.get_attr("fix_point") for t in dpu.get_input_tensors()}
        found = runner.run({name: value(points[name]) for name, value in given.items()})
        (tensor,) = runner.get_output_tensors()
        return np.ldexp(np.float64(found[tensor.name]), -tensor.get_attr("fix_point")).ravel()


def test_the_middle_of_slices(program, tmp_path):
    nodes = [(("Conv", ["x", "w"], ["y"], "y"), {"pads": [1, 1, 1, 1]})]
    path = compiled(tmp_path, nodes, {"x": (1, 4, SIDE, SIDE)}, 2, {"w": (2, 4, 3, 3)})
    values = np.random.default_rng(62).normal(0, 0.5, (14, 14, 4)).astype(np.float32)
    values.tofile(tmp_path / "slice.bin")
    middle = values[3 : 3 + SIDE, 3 : 3 + SIDE]
    wanted = expected(path, {"x": lambda point: np.int8(np.trunc(middle * 2.0**point))[None]})
    size, *lines = run(program, "slice", path, tmp_path / "slice.bin").stdout.splitlines()
    assert size == f"{SIDE} {SIDE} 1"
    np.testing.assert_allclose(np.array(lines, float), wanted, rtol=1e-6)
    assert len(np.unique(wanted)) > 20
    values[:7, :7].tofile(tmp_path / "small.bin")
    small = run(program, "slice", path, tmp_path / "small.bin", check=False)
    assert small.returncode == 3
    told = "196 values are a square of 7 with 4 channels, but the input is 8x8"
    assert small.stderr.strip() == told


def flow(folder: pathlib.Path) -> pathlib.Path:
    """Compile a network of a map and of noise, whose name comes first."""
    nodes = [
        (("Conv", ["map", "w"], ["m"], "m"), {"pads": [1, 1, 1, 1]}),
        (("ConvTranspose", ["a_noise", "v"], ["n"], "n"), {"strides": [SIDE, SIDE]}),
        (("Add", ["m", "n"], ["y"], "y"), {}),
    ]
    inputs = {"a_noise": (1, 6, 1, 1), "map": (1, 1, SIDE, SIDE)}
    return compiled(folder, nodes, inputs, 1, {"w": (1, 1, 3, 3), "v": (6, 1, SIDE, SIDE)})


@pytest.mark.parametrize("rounded", [True, False])
def test_maps_and_noise(program, tmp_path, rounded):
    path = flow(tmp_path)
    values = np.random.default_rng(63).normal(0, 2, (SIDE, SIDE)).astype(np.float32)
    values.tofile(tmp_path / "map.bin")

    def elements(point: int) -> np.ndarray:
        scaled = values * np.float32(2.0**point)
        assert np.abs(scaled).max() > 128
        whole = np.trunc(scaled + np.copysign(0.5, scaled)) if rounded else np.trunc(scaled)
        return whole.clip(-128, 127).astype(np.int8)[None, ..., None]

    noise = KNOWN[None, None, None]
    wanted = sigmoid(expected(path, {"map": elements, "a_noise": lambda _: noise}))
    environment = {"ENABLE_CFLOW_CMPDATA": "1", "ENABLE_CFLOW_ROUND": str(int(rounded))}
    size, *lines = run(program, "map", path, tmp_path / "map.bin", **environment).stdout.split("\n")
    assert size == f"{SIDE} {SIDE} 1"
    np.testing.assert_allclose(np.array(lines[:-1], float), wanted, rtol=1e-5)
    other = run(program, "map", path, tmp_path / "map.bin").stdout.splitlines()
    assert other[0] == f"{SIDE} {SIDE} 0"  # other noise in each run


def test_models_of_one_input(program, tmp_path):
    nodes = [(("Conv", ["x", "w"], ["y"], "y"), {"pads": [1, 1, 1, 1]})]
    path = compiled(tmp_path, nodes, {"x": (1, 4, SIDE, SIDE)}, 2, {"w": (2, 4, 3, 3)})
    done = run(program, "map", path, "none", check=False)
    assert done.returncode == 3
    assert "net.xmodel has 1 inputs, but must have two: a map and noise" in done.stderr
