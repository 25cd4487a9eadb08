# SPDX-License-Identifier: Apache-2.0
"""What tests of tasks for sensors share: networks with an input of any shape, and their results."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

import xir
from opendpu.api import compile_graph
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu.runtime import Runner
from opendpu.runtime.program import dpu_subgraphs

SOURCE = pathlib.Path(__file__).with_name("cpp") / "sensors.cpp"

Node = tuple[str, list[str], str, dict[str, object]]


def compiled(
    path: pathlib.Path,
    shape: Sequence[int],
    nodes: Sequence[Node],
    constants: Mapping[str, np.ndarray],
    outputs: Mapping[str, Sequence[int]],
    samples: np.ndarray,
) -> pathlib.Path:
    """Compile a network of ``x``; its nodes are op, inputs, output and attributes."""
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(op, taken, [made], name=made, **rest) for op, taken, made, rest in nodes],
        "sensors",
        [helper.make_tensor_value_info("x", real, (1, *shape))],
        [helper.make_tensor_value_info(name, real, (1, *size)) for name, size in outputs.items()],
        [onnx.numpy_helper.from_array(np.float32(v), name) for name, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    quantized = quantize(load_onnx(model), {"x": np.float32(samples)})
    compile_graph(quantized, target="B512").graph.serialize(path)
    return path


def prepared(path: pathlib.Path, text: str = "") -> pathlib.Path:
    path.with_suffix(".prototxt").write_text(f'model {{ name: "{path.stem}" {text} }}\n')
    return path


def point_of(path: pathlib.Path) -> int:
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(path))
    with Runner(dpu, device="ref") as runner:
        return runner.get_input_tensors()[0].get_attr("fix_point")


def results(path: pathlib.Path, elements: np.ndarray) -> dict[str, np.ndarray]:
    """Return every output as real values for elements of the input."""
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(path))
    with Runner(dpu, device="iss") as runner:
        (tensor,) = runner.get_input_tensors()
        given = runner.run([elements.reshape(tensor.dims).astype(np.int8)])
        points = {t.name: t.get_attr("fix_point") for t in runner.get_output_tensors()}
    return {name: np.ldexp(np.float64(v), -points[name])[0] for name, v in given.items()}
