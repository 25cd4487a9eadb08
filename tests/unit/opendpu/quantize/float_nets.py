# SPDX-License-Identifier: Apache-2.0
"""Float networks that tests write down one op a line: 8x8 pixels, weights from a seed."""

import numpy as np

from opendpu.ir import FloatGraph

WINDOW = {"kernel": [3, 3], "stride": [1, 1], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


class Net(FloatGraph):
    """A network whose input ``x`` has four channels."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__("net")
        self.random = np.random.default_rng(seed)
        self.add("x", "data", (1, 8, 8, 4))

    def put(self, name, kind, inputs, attrs=None, shape=None):
        names = inputs if isinstance(inputs, dict) else {"input": inputs}
        return self.add(name, kind, shape or self[names["input"][0]].shape, names, attrs).name

    def conv(self, name, source, channels, size=3):
        shape = (channels, size, size, self[source].shape[3])
        weights = self.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        inputs = {"input": [source], "weights": [self.add_const(f"{name}_w", weights).name]}
        inputs["bias"] = [self.add_const(f"{name}_b", self.random.standard_normal(channels)).name]
        attrs = WINDOW if size == 3 else POINT
        return self.put(name, "conv2d", inputs, attrs, (*self[source].shape[:3], channels))

    def done(self, *outputs) -> FloatGraph:
        self.outputs = list(outputs)
        return self.moved(FloatGraph)


def samples(count=16, seed=1, shape=(8, 8, 4)):
    return {"x": np.random.default_rng(seed).standard_normal((count, *shape)).astype(np.float32)}
