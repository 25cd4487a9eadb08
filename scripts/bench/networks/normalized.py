# SPDX-License-Identifier: Apache-2.0
"""Weights whose channels differ as those of trained networks do.

Trained convolutions get batch normalization folded into them, so that an output channel's weights
are as large as its input is small: in a layer of MobileNetV2 they differ by a factor of a hundred
(Nagel et al., arXiv 1906.04721, figure 2). Here every convolution of a network is normalized on
some images, one after the other, to a mean and deviation for each channel that are drawn as
trained ones look, and that is folded into its weights and bias.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper, numpy_helper

Array = npt.NDArray[np.float32]

SPREAD = 0.7
"""Deviation of the natural logarithm of a channel's deviation."""
EPSILON = 1e-3
"""What batch normalization adds to the variance."""


def normalized(model: onnx.ModelProto, images: Array, seed: int) -> onnx.ModelProto:
    """Return a copy whose convolutions are normalized on ``images``, NCHW as the model takes them.

    Every operator is run once, on what those before it give. Convolutions have a constant bias.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    random = np.random.default_rng(seed)
    constants = {one.name: one for one in made.graph.initializer}
    values = {name: numpy_helper.to_array(one) for name, one in constants.items()}
    values[made.graph.input[0].name] = images
    left = {name: 0 for node in made.graph.node for name in node.input}
    for node in made.graph.node:
        for name in node.input:
            left[name] += 1
    for node in made.graph.node:
        results = _run(node, values, made.opset_import)
        if node.op_type == "Conv":
            _, weights, bias = node.input
            factor, offset = _fold(results[0], random)
            values[weights] = values[weights] * factor[:, None, None, None]
            values[bias] = values[bias] * factor + offset
            results = [results[0] * factor[:, None, None] + offset[:, None, None]]
            for name in (weights, bias):
                constants[name].CopyFrom(numpy_helper.from_array(values[name], name))
        values |= zip(node.output, results, strict=True)
        for name in node.input:
            left[name] -= 1
            if not left[name]:
                del values[name]
    return made


def _fold(result: Array, random: np.random.Generator) -> tuple[Array, Array]:
    """Return factor and offset of each channel that give it the mean and deviation it draws."""
    mean, variance = result.mean((0, 2, 3)), result.var((0, 2, 3))
    wanted = np.exp(SPREAD * random.standard_normal(mean.size))
    center = wanted * random.standard_normal(mean.size)
    factor = wanted / np.sqrt(variance + EPSILON)
    return factor.astype(np.float32), (center - mean * factor).astype(np.float32)


def _run(
    node: onnx.NodeProto, values: dict[str, Array], opsets: Iterable[onnx.OperatorSetIdProto]
) -> list[Array]:
    """Return the results of an operator."""
    given = [name for name in dict.fromkeys(node.input) if name]
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(values[name].dtype), values[name].shape
        )
        for name in given
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "one", infos, outputs)
    model = helper.make_model(graph, opset_imports=list(opsets), ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, {name: values[name] for name in given}))
