# SPDX-License-Identifier: Apache-2.0
"""Quantized networks compiled for a DPU, as operators of TensorFlow.

The operator computes whole batches: the DPU's parts on the device that ``OPENDPU_DEVICE`` names
(``ref`` by default), what stays on the CPU in onnxruntime.
"""

import collections
import os
import pathlib
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import xir
from opendpu import api
from opendpu.export.onnx_qdq import output_name
from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import SCALARS, Array, QuantizedGraph
from opendpu.quantize import complete, is_quantized
from opendpu.runtime import GraphRunner
from opendpu.runtime.devices import DEVICE_VARIABLE
from opendpu_arch.errors import TensorError, UnsupportedError
from vitis_vai import operator
from vitis_vai.target import target_for

FORM = "compiled"
FASTEST = "ref"
REMEMBERED = 64
"""Jobs and calls whose times are kept."""
_FILE = "model.xmodel"


class _Running:
    """A compiled network on a device.

    Parameters
    ----------
    graph
        The compiled graph.
    header
        ``inputs``: names with their shapes, the batch of 1 in front, in order; ``types``: of these;
        ``outputs``: names with their shapes for one sample.

    Attributes
    ----------
    statistics
        What each part took in the last jobs, by name: the newest last.
    seconds
        Samples and time of the last calls.
    """

    def __init__(self, graph: xir.Graph, header: Mapping[str, Any]) -> None:
        self.graph = graph
        self.statistics: collections.deque[dict[str, Any]] = collections.deque(maxlen=REMEMBERED)
        self.seconds: collections.deque[tuple[int, float]] = collections.deque(maxlen=REMEMBERED)
        device = os.environ.get(DEVICE_VARIABLE) or FASTEST
        runner = api.create_runner(graph, device=device)
        assert isinstance(runner, GraphRunner)
        self._runner = runner
        self._inputs, self._outputs = header["inputs"], header["outputs"]
        self._types = header.get("types") or ["float32"] * len(self._inputs)

    def compute(self, *arrays: Array) -> list[Array]:
        """Return the outputs for a batch, real numbers; nothing for none.

        Raises
        ------
        TensorError
            An input has another shape; or there is not one sample, and an output has no axis for
            several.
        """
        count = len(arrays[0])
        for (name, shape), array in zip(self._inputs, arrays, strict=True):
            if array.shape != (count, *shape[1:]):
                raise TensorError(
                    f"input {name!r} has shape {list(array.shape)}, but must be "
                    f"{[count, *shape[1:]]}; create the model anew for another size"
                )
        for name, shape in self._outputs:
            if count != 1 and not _is_of_each(shape):
                raise TensorError(
                    f"the inputs hold {count} samples, but output {name!r} has shape {list(shape)} "
                    "for any: give them one"
                )
        if not count:
            return [np.zeros((0, *shape[1:]), np.float32) for _, shape in self._outputs]
        feeds = {
            name: np.ascontiguousarray(array, dtype).reshape(count, *shape)
            for (name, shape), dtype, array in zip(self._inputs, self._types, arrays, strict=True)
        }
        start = time.perf_counter()
        found, statistics = api.run_batch(self._runner, feeds, floats=True)
        self.statistics.extend(statistics)
        self.seconds.append((count, time.perf_counter() - start))
        return [
            np.asarray(found[name], np.float32).reshape(
                (count, *shape[1:]) if _is_of_each(shape) else tuple(shape)
            )
            for name, shape in self._outputs
        ]


def _is_of_each(shape: Sequence[int]) -> bool:
    """Tell whether a result for one sample has an axis for several."""
    return list(shape[:1]) == [1]


def _read(content: bytes, header: Mapping[str, Any]) -> _Running:
    with tempfile.TemporaryDirectory(prefix="opendpu-") as folder:
        path = pathlib.Path(folder, _FILE)
        path.write_bytes(content)
        return _Running(api.load(path), header)


operator.readers[FORM] = _read


class CompiledNetwork:
    """A network compiled for a DPU.

    Parameters
    ----------
    graph
        The quantized graph.
    label
        The model's name in messages.
    target
        As of :func:`vitis_vai.target.target_for`.

    Raises
    ------
    UnsupportedError
        The model is not quantized.
    TargetError
        There is no such target.
    """

    def __init__(self, graph: QuantizedGraph, label: str, target: str | None = None) -> None:
        if not is_quantized(graph):
            raise UnsupportedError(
                f"{label} is a float model: quantize it first (vitis_vai.quantize); or one that "
                "was quantized and has nothing that is worth the DPU, so that all stayed float"
            )
        quantized = complete(graph)
        heads = [node for node in quantized if node.kind == "data"]
        self.inputs = {node.name: node.shape for node in heads}
        self.types = [node.type.dtype.name for node in heads]
        named = {name: output_name(quantized, name) for name in quantized.outputs}
        scalars = quantized.attrs.get(SCALARS, ())
        self.names = list(named.values())
        self.outputs = {
            name: () if user in scalars else quantized[name].shape for name, user in named.items()
        }
        made = api.compile_graph(quantized, target=target_for(target))
        self.report = made.report
        self.header = {
            "form": FORM,
            "inputs": list(self.inputs.items()),
            "types": self.types,
            "outputs": list(self.outputs.items()),
        }
        with tempfile.TemporaryDirectory(prefix="opendpu-") as folder:
            path = pathlib.Path(folder, _FILE)
            made.graph.serialize(path)
            self.content = path.read_bytes()
        self.running = _Running(made.graph, self.header)

    def operator(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the outputs as tensors of TensorFlow, made by one operator."""
        return operator.place(self.header, self.content, tensors, self.open_shapes(), self.running)

    def open_shapes(self) -> list[list[int | None]]:
        """Return the shapes of the outputs, with any batch."""
        return [
            [None, *shape[1:]] if _is_of_each(shape) else list(shape)
            for shape in self.outputs.values()
        ]


def specs(inputs: Mapping[str, tuple[int, ...]], types: Sequence[str]) -> list[Any]:
    """Return specifications of inputs, with any batch."""
    return [
        tf.TensorSpec([None, *shape[1:]], dtype, name=name)
        for (name, shape), dtype in zip(inputs.items(), types, strict=True)
    ]
