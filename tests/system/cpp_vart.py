# SPDX-License-Identifier: Apache-2.0
"""What tests of VART in C++ share: programs, and a model with two outputs."""

import os
import pathlib
import subprocess

import numpy as np
import onnx

import opendpu.cpp
from opendpu.api import compile_graph
from opendpu.cpp import packages
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize

SOURCES = pathlib.Path(__file__).with_name("cpp")


def run(*command: object, check: bool = True, **environment: str) -> subprocess.CompletedProcess:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done


def built(prefix: pathlib.Path, folder: pathlib.Path, name: str, *options: str) -> pathlib.Path:
    """Return a program, or with -shared a library, of one of the sources."""
    path = folder / (f"lib{name}.so" if "-shared" in options else name)
    run(
        opendpu.cpp.compiler(), "-O0", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}",
        *packages.cflags(prefix), *options, "-o", path, SOURCES / f"{name.split('-')[0]}.cpp",
        f"-L{prefix / 'lib'}", f"-Wl,-rpath,{prefix / 'lib'}", "-Wl,--no-undefined",
        *(f"-l{name}" for name in packages.AMDS_LIBRARIES), "-lpthread",
    )  # fmt: skip
    return path


def two_outputs(path: pathlib.Path) -> pathlib.Path:
    """Compile a model with a DPU subgraph of two outputs, and a softmax behind one."""
    helper, rng = onnx.helper, np.random.default_rng(1)
    constants = {
        "w": rng.normal(0, 0.3, (6, 3, 3, 3)).astype(np.float32),
        "v": rng.normal(0, 0.3, (5, 3, 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="c"),
        helper.make_node("Relu", ["c"], ["a"], name="a"),
        helper.make_node("Conv", ["x", "v"], ["b"], name="b"),
        helper.make_node("Softmax", ["b"], ["y"], axis=1, name="y"),
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 6, 5))],
        [
            helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, (1, 6, 6, 5)),
            helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 5, 6, 5)),
        ],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = helper.make_opsetid("", 17)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    samples = rng.normal(0, 1, (8, 3, 6, 5)).astype(np.float32)
    quantized = quantize(load_onnx(made), {"x": samples})
    compile_graph(quantized, target="B512").graph.serialize(path)
    return path
