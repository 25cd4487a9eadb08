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

    def node(self, name, op, *inputs, **attrs):
        made = self.graph.node.add()
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

    def data(self, name, shape):
        return self.node(name, "Placeholder", dtype=np.dtype(np.float32), shape=shape)

    def const(self, name, array):
        array = np.asarray(array)
        return self.node(name, "Const", dtype=array.dtype, value=array)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.graph.SerializeToString())
        return path
