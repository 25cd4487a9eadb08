# SPDX-License-Identifier: Apache-2.0
"""Float networks as ONNX, channels first: every rounding that the DPU has is in one of them."""

import numpy as np
import onnx
from onnx import parser

from opendpu import api
from opendpu.ir import Graph

SHAPE = (1, 4, 9, 10)

BODIES = {
    "average": """
        c = Conv <pads = [1, 1, 1, 1]> (image, w0, b0)
        r = Relu (c)
        p = AveragePool <kernel_shape = [3, 3]> (r)
        y = Conv (p, w1, b1)
    """,
    "residual": """
        c = Conv <pads = [1, 1, 1, 1]> (image, w0, b0)
        l = LeakyRelu <alpha = 0.1> (c)
        d = Conv <pads = [1, 1, 1, 1]> (l, w2, b1)
        a = Add (l, d)
        y = Relu (a)
    """,
    "gate": """
        c = Conv <pads = [1, 1, 1, 1]> (image, w0, b0)
        h = HardSigmoid <alpha = 0.16666667, beta = 0.5> (c)
        m = Mul (c, h)
        y = Conv (m, w1, b1)
    """,
    "branches": """
        c = Conv <pads = [1, 1, 1, 1]> (image, w0, b0)
        six = Clip (c, zero, top)
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (six)
        d = Conv <pads = [1, 1, 1, 1], group = 8> (p, w3, b1)
        e = Concat <axis = 1> (p, d)
        y = GlobalAveragePool (e)
    """,
    "dense": """
        c = Conv <strides = [2, 2]> (image, w0, b0)
        l = LeakyRelu <alpha = 0.3> (c)
        t = ConvTranspose <strides = [2, 2], group = 2> (l, w4, b0)
        p = AveragePool <kernel_shape = [7, 7]> (t)
        f = Flatten (p)
        y = Gemm <transB = 1> (f, w5, b5)
    """,
}

RESULTS = {
    "average": (1, 8, 7, 8), "residual": (1, 8, 9, 10), "gate": (1, 8, 9, 10),
    "branches": (1, 16, 1, 1), "dense": (1, 5),
}  # fmt: skip
"""Shapes of the output."""

WEIGHTS = {
    "w0": (8, 4, 3, 3), "b0": (8,), "w1": (8, 8, 1, 1), "b1": (8,), "w2": (8, 8, 3, 3),
    "w3": (8, 1, 3, 3), "w4": (8, 4, 3, 3), "w5": (5, 72), "b5": (5,),
}  # fmt: skip


def network(name: str, seed: int = 0) -> onnx.ModelProto:
    """Return a network whose input ``image`` has four channels and whose output is ``y``."""
    random = np.random.default_rng(seed)
    shapes = [", ".join(map(str, shape)) for shape in (SHAPE, RESULTS[name])]
    text = f"""<ir_version: 10, opset_import: ["": 17]>
        {name} (float[{shapes[0]}] image) => (float[{shapes[1]}] y) {{ {BODIES[name]} }}"""
    model = parser.parse_model(text)
    arrays = {"zero": np.float32(0), "top": np.float32(6)}
    for weight, shape in WEIGHTS.items():
        scale = 1.5 / np.sqrt(np.prod(shape[1:]))
        arrays[weight] = (random.standard_normal(shape) * scale).astype(np.float32)
    read = {item for node in model.graph.node for item in node.input}
    for weight, array in arrays.items():
        if weight in read:
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), weight))
    return model


def images(count: int, seed: int = 1) -> np.ndarray:
    """Return images, channels first."""
    random = np.random.default_rng(seed)
    return random.standard_normal((count, *SHAPE[1:])).astype(np.float32)


def on_simulator(quantized: Graph, given: np.ndarray) -> np.ndarray:
    """Return the output ``y`` of the compiled program, in ONNX's order of axes."""
    compiled = api.compile_graph(quantized, target="B512")
    (dpu,) = api.dpu_subgraphs(compiled.graph)
    assert dpu is not None
    order = quantized.attrs["onnx_order"]
    with api.create_runner(compiled.graph, device="iss") as runner:
        stored = given[:, None].transpose(0, *(a + 1 for a in order["image"]))
        results, _ = api.run_batch(runner, {"image": stored}, floats=True)
    (found,) = results.values()
    found = found.reshape(len(given), *found.shape[2:])
    back = order.get("y")
    return found if back is None else np.moveaxis(found, range(1, 4), back[1:])


def program(quantized: Graph) -> list[tuple[bytes, dict[str, bytes]]]:
    """Return machine code and constants of the compiled graph."""
    compiled = api.compile_graph(quantized, target="B512")
    return [
        (part.get_attr("mc_code"), part.get_attr("reg_id_to_parameter_value"))
        for part in api.dpu_subgraphs(compiled.graph)
    ]
