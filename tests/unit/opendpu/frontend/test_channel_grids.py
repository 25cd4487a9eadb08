# SPDX-License-Identifier: Apache-2.0
"""Feature maps with a scale for each channel in front of depthwise layers, as NNCF writes them."""

import numpy as np
import pytest
from quantized_pairs import Pairs, compared

SHAPE, CHANNELS = (1, 3, 9, 8), 6


class Network(Pairs):
    """A convolution, an activation, a pair with a scale for each channel, a depthwise layer."""

    def kernel(self, form, *shape) -> str:
        values, scales = self.spread(*shape)
        zeros = np.zeros(shape[0], np.int8)
        if form == "pair":
            return self.pair(self.constant(values), scales, zeros, axis=0)
        if form == "one scale":
            values = np.rint(values / values.max() * 127).clip(-128, 127).astype(np.int8)
            scales, zeros = np.float32(0.008), np.int8(0)
        else:
            values = np.rint(values / scales.reshape(-1, 1, 1, 1)).astype(np.int8)
        given = [self.constant(np.asarray(a)) for a in (values, scales, zeros)]
        return self.node("DequantizeLinear", *given, **({"axis": 0} if scales.ndim else {}))

    def made(self, zeros, scales, activation=(), form="integers", last=None):
        x = self.pair("x", 0.031, np.uint8(120))
        bias = self.constant(self.random.normal(0, 0.4, CHANNELS).astype(np.float32))
        value = self.node("Conv", x, self.kernel(form, CHANNELS, 3, 3, 3), bias)
        if activation:
            ends = [self.constant(np.float32(end)) for end in activation[1:]]
            value = self.node(activation[0], value, *ends)
        value = self.pair(value, scales, zeros, axis=1)
        weights = self.kernel(form, CHANNELS, 1, 3, 3)
        deep = self.node("Conv", value, weights, group=CHANNELS, pads=[1] * 4)
        out = self.pair(deep, 0.04, np.int8(-3))
        if last is not None:
            out = self.pair(self.node("Add", out, value), 0.06, np.int8(2))
        return self.model(out, SHAPE)


def spread(seed) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.002, 0.02, CHANNELS).astype(np.float32)


@pytest.mark.parametrize("form", ["integers", "one scale", "pair"])
@pytest.mark.parametrize(
    ("zero", "activation"),
    [(np.uint8(0), ("Clip", 0, 6)), (np.int8(-128), ("Relu",)), (np.int8(5), ())],
)
def test_layers_around_take_the_scales(zero, activation, form):
    net = Network(seed=1)
    model = net.made(np.full(CHANNELS, zero), spread(2), activation, form)
    graph, off = compared(model)
    kinds = {node.kind for node in graph if node.value is None}
    assert kinds == {"data-fix", "conv2d-fix", "depthwise-conv2d-fix"}
    assert off.max() <= 1
    assert (off > 0).mean() < 0.02


@pytest.mark.parametrize("why", ["zero points", "bound", "another reader", "activation"])
def test_what_layers_cannot_take_is_the_cpus(why):
    zeros, scales = np.zeros(CHANNELS, np.uint8), spread(3)
    activation, last = ("Clip", 0, 6), None
    match why:
        case "zero points":
            zeros = np.array([0, 0, 3, 0, 0, 1], np.uint8)
        case "bound":
            activation = ("Clip", 0, 1)
        case "another reader":
            last = "Add"
        case "activation":
            activation = ("Sigmoid",)
    graph, off = compared(Network(seed=1).made(zeros, scales, activation, last=last))
    assert "depthwise-conv2d" in {node.kind for node in graph}
    assert off.max() <= 1
    assert (off > 0).mean() < 0.01
