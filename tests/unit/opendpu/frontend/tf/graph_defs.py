# SPDX-License-Identifier: Apache-2.0
"""Frozen graphs made on the spot, without TensorFlow."""

from pathlib import Path

import numpy as np

from opendpu.frontend.tensorflow.graphdef import DTYPES
from opendpu.frontend.tensorflow.proto import Graph

NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


class Network:
    """A GraphDef in the making."""

    def __init__(self):
        self.graph = Graph()

    def _new(self):
        return self.graph.node.add()

    def node(self, name, op, *inputs, **attrs):
        made = self._new()
        made.name, made.op = name, op
        made.input.extend(inputs)
        for key, value in attrs.items():
            self._set(made.attr[key], value)
        return name

    def _set(self, attr, value):
        match value:
            case bool():
                attr.b = value
            case int():
                attr.i = value
            case float():
                attr.f = value
            case str() if value.startswith("@"):
                attr.func.name = value[1:]
            case str():
                attr.s = value.encode()
            case np.dtype():
                attr.type = NUMBERS[value]
            case list():
                attr.list.i.extend(value)
            case tuple():
                attr.shape.SetInParent()
                for size in value:
                    attr.shape.dim.add().size = size
            case np.ndarray():
                attr.tensor.dtype = NUMBERS[value.dtype]
                attr.tensor.tensor_content = value.tobytes()
                for size in value.shape:
                    attr.tensor.tensor_shape.dim.add().size = size

    def function(self, name, inputs, results):
        """Begin a function; returns what takes its nodes. ``results`` by their name."""
        made = self.graph.library.function.add()
        made.signature.name = name
        for argument in inputs:
            made.signature.input_arg.add().name = argument
        for result, reference in results.items():
            made.signature.output_arg.add().name = result
            made.ret[result] = reference
        return _Function(made)

    def data(self, name, shape):
        return self.node(name, "Placeholder", dtype=np.dtype(np.float32), shape=shape)

    def const(self, name, array):
        array = np.asarray(array)
        return self.node(name, "Const", dtype=array.dtype, value=array)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.graph.SerializeToString())
        return path


class _Function(Network):
    """The nodes of a function."""

    def __init__(self, made):
        self.made = made

    def _new(self):
        return self.made.node_def.add()
