# SPDX-License-Identifier: Apache-2.0
"""Quantized networks compiled for a DPU, as operators of TensorFlow.

The operator computes whole batches: the DPU's parts on the device that ``OPENDPU_DEVICE`` names
(``ref`` by default), what stays on the CPU in onnxruntime.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opendpu import api
from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Array, QuantizedGraph
from opendpu.quantize import complete, is_quantized
from opendpu.runtime import GraphRunner
from opendpu.runtime.devices import DEVICE_VARIABLE
from opendpu_arch.errors import UnsupportedError

OPERATOR = "VaiWeGOOp"
FASTEST = "ref"


class CompiledNetwork:
    """A network compiled for a DPU.

    Parameters
    ----------
    graph
        The quantized graph.
    label
        The model's name in messages.

    Raises
    ------
    UnsupportedError
        The model is not quantized.
    """

    def __init__(self, graph: QuantizedGraph, label: str) -> None:
        if not is_quantized(graph):
            raise UnsupportedError(
                f"{label} is a float model: quantize it first (vitis_vai.quantize)"
            )
        quantized = complete(graph)
        heads = [node for node in quantized if node.kind == "data"]
        self.inputs = {node.name: node.shape for node in heads}
        self.outputs = {name: quantized[name].shape for name in quantized.outputs}
        made = api.compile_graph(quantized, target=api.chosen_target())
        self.report = made.report
        device = os.environ.get(DEVICE_VARIABLE) or FASTEST
        runner = api.create_runner(made.graph, device=device)
        assert isinstance(runner, GraphRunner)
        self._runner = runner

    def compute(self, *arrays: Array) -> list[Array]:
        """Return the outputs for a batch, real numbers."""
        count = len(arrays[0])
        feeds = {
            name: np.ascontiguousarray(array, np.float32).reshape(count, *shape)
            for (name, shape), array in zip(self.inputs.items(), arrays, strict=True)
        }
        found, _ = api.run_batch(self._runner, feeds, floats=True)
        return [
            np.asarray(found[name], np.float32).reshape(count, *shape[1:])
            for name, shape in self.outputs.items()
        ]

    def operator(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the outputs as tensors of TensorFlow, made by one operator."""
        made = tf.numpy_function(
            self.compute, list(tensors), [tf.float32] * len(self.outputs), name=OPERATOR
        )
        results = list(made) if isinstance(made, list | tuple) else [made]
        for tensor, shape in zip(results, self.outputs.values(), strict=True):
            tensor.set_shape([None, *shape[1:]])
        return results


def specs(inputs: Mapping[str, tuple[int, ...]]) -> list[Any]:
    """Return specifications of inputs, with any batch."""
    return [
        tf.TensorSpec([None, *shape[1:]], tf.float32, name=name) for name, shape in inputs.items()
    ]
