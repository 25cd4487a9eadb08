# SPDX-License-Identifier: Apache-2.0
"""Real networks nobody here drew: the convolutional models in the test data of ``onnx``."""

import collections
import pathlib

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from oracle import evaluate_quantized

from opendpu import api
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner

pytestmark = [pytest.mark.system, pytest.mark.slow]

FOLDER = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def with_random_weights(model: onnx.ModelProto, seed: int = 3) -> onnx.ModelProto:
    """Return the model with what ``ConstantOfShape`` makes drawn at random instead.

    Weights have variance 2 / fan-in, factors and variances are near 1, all others near 0.
    """
    noise = np.random.default_rng(seed)
    sizes = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    users = collections.defaultdict(list)
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            users[name].append((node, index))
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            result.graph.node.append(node)
            continue
        (name,) = node.output
        user, index = users[name][0]
        if user.op_type == "Unsqueeze":
            user, index = users[user.output[0]][0]
        shape = tuple(int(n) for n in sizes[node.input[0]])
        values = noise.standard_normal(shape)
        match user.op_type, index:
            case (("Conv" | "Gemm"), 1):
                fan_in = np.prod(shape[1:]) if user.op_type == "Conv" else min(shape[0], 4096)
                values *= np.sqrt(2 / fan_in)
            case ("BatchNormalization", 1 | 4) | ("Mul", _):
                values = 1 + 0.1 * np.tanh(values)
            case _:
                values *= 0.1
        constant = numpy_helper.from_array(values.astype(np.float32), name)
        result.graph.node.append(helper.make_node("Constant", [], [name], value=constant))
    return result


def with_logits(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the input of its softmax as another output: it has more values."""
    for node in model.graph.node:
        if node.op_type == "Softmax":
            model.graph.output.append(onnx.ValueInfoProto(name=node.input[0]))
    return model


@pytest.mark.parametrize("weights", ["random", "shipped"])
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.onnx")))
def test_model_is_bit_exact(name: str, weights: str) -> None:
    model = onnx.load(FOLDER / f"{name}.onnx")
    graph = load_onnx(with_logits(with_random_weights(model) if weights == "random" else model))
    (head,) = (node for node in graph if node.kind == "data")
    noise = np.random.default_rng(4)
    samples = noise.standard_normal((2, *head.shape[1:])).astype(np.float32)
    # Positions are judged elsewhere; this is about what the programs compute.
    quantized = quantize(graph, {head.name: samples}, refinement=False)
    wanted = None
    for target in ("B4096", "B512"):
        compiled = api.compile_graph(quantized, target=target)
        assert any(part.device == "DPU" for part in compiled.report.subgraphs)
        with GraphRunner(compiled.graph, device="iss") as runner:
            (tensor,) = runner.get_input_tensors()
            image = np.random.default_rng(5).integers(-128, 128, tensor.dims, np.int8)
            given = {tensor.name: image}
            found = runner.run(given)
        wanted = wanted or evaluate_quantized(quantized, given)
        for key, values in wanted.items():
            np.testing.assert_allclose(
                found[key], values, rtol=1e-5, atol=1e-6, err_msg=f"{key} on {target}"
            )
        if weights == "random":
            assert max(np.unique(values).size for values in wanted.values()) > 20
