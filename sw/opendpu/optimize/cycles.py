# SPDX-License-Identifier: Apache-2.0
"""Cycles of a network on a target, for thousands of candidates.

Compiling a whole candidate takes seconds, so candidates are ranked by an estimate. Its parts are
layers compiled alone, once for each shape. How a layer does inside the network, where its operands
are on the chip already and the next weights come meanwhile, is learned from the unpruned network
and from every candidate that was compiled as a whole: a layer's share of the cycles there, by the
cycle model's account, against what it took alone. :meth:`Cycles.exact` is no estimate.
"""

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from torch import nn

from opendpu.frontend import load_onnx
from opendpu.frontend.pytorch import as_onnx, load_torch
from opendpu.ir import FloatGraph
from opendpu.optimize.layers import Layer, Shapes, Widths
from opendpu.optimize.measure import Measured, measure
from opendpu.optimize.onnx_widths import narrowed
from opendpu.optimize.surgery import removed_axes, slim
from opendpu_arch.errors import DPUError
from opendpu_arch.target import Target

OPSET = 17
HIDDEN = 0.3
"""Part of its first factor that a layer keeps when others hide it: wider, it would show again."""
Shape = tuple[Any, ...]


class Cycles:
    """The objective ``cycles``: those of the DPU, by the cycle model.

    Parameters
    ----------
    model, inputs
        The network before pruning, and what it is called with.
    shapes
        Its layers for any widths.
    target
        The DPU.

    Raises
    ------
    UnsupportedError
        The network cannot be traced, or nothing of it runs on the DPU.
    """

    name = "cycles"

    def __init__(self, model: nn.Module, inputs: Any, shapes: Shapes, target: Target) -> None:
        self.model, self.inputs, self.shapes, self.target = model, inputs, shapes, target
        self.compiled_layers = 0
        self.compiled_networks = 0
        self._onnx = as_onnx(model, inputs)
        self._alone: dict[Shape, float] = {}
        self._whole: dict[tuple[tuple[str, int], ...], Measured] = {}
        self._factors: dict[str, float] = {}
        self._first: dict[str, float] = {}
        self._around = 0.0
        """Cycles of what is no layer here: pools and additions that the array waits for."""
        self._learn({})

    def cost(self, widths: Widths) -> float:
        """Return an estimate of the cycles."""
        known = self._whole.get(self._key(widths))
        if known is not None:
            return float(known.cycles)
        layers = self.shapes.at(widths).values()
        return self._around + sum(self._factors[la.path] * self._cycles_alone(la) for la in layers)

    def exact(self, widths: Widths) -> int:
        """Return the cycles, of the whole network compiled."""
        return self.measured(widths).cycles

    def measured(self, widths: Widths) -> Measured:
        """Return what the whole network takes, and learn from it."""
        key = self._key(widths)
        if key not in self._whole:
            self._learn(widths)
        return self._whole[key]

    def _key(self, widths: Widths) -> tuple[tuple[str, int], ...]:
        groups = self.shapes.dependencies.groups
        return tuple((name, widths.get(name, group.units)) for name, group in groups.items())

    def _learn(self, widths: Widths) -> None:
        found = measure(self._graph(widths), self.target)
        self.compiled_networks += 1
        self._whole[self._key(widths)] = found
        left = float(found.cycles)
        for layer in self.shapes.at(widths).values():
            alone = self._cycles_alone(layer)
            spent = found.by_layer.get(layer.path, 0.0)
            factor = spent / alone if alone else 0.0
            first = self._first.setdefault(layer.path, factor)
            self._factors[layer.path] = max(factor, HIDDEN * first)
            left -= spent if alone else 0.0
        self._around = max(left, 0.0)

    def _graph(self, widths: Widths) -> FloatGraph:
        """Return the float graph of the network with some widths."""
        groups = self.shapes.dependencies.groups
        removed = {name: range(kept, groups[name].units) for name, kept in widths.items()}
        dependencies = self.shapes.dependencies
        try:
            return narrowed(self._onnx, removed_axes(self.model, dependencies, removed))
        except DPUError:  # the trace fixes a number of channels: trace what is slim
            return load_torch(slim(self.model, dependencies, removed), self.inputs)

    def _cycles_alone(self, layer: Layer) -> float:
        """Return the cycles of a layer by itself, compiled once for each shape."""
        key: Shape = (
            layer.inputs, layer.outputs, layer.groups, layer.kernel, layer.stride, layer.padding,
            layer.dilation, layer.transposed, layer.input_size, layer.spatial,
        )  # fmt: skip
        if key not in self._alone:
            self.compiled_layers += 1
            try:
                self._alone[key] = float(measure(load_onnx(_alone(layer)), self.target).cycles)
            except DPUError:  # the CPU computes it
                self._alone[key] = 0.0
        return self._alone[key]


def _alone(layer: Layer) -> onnx.ModelProto:
    """Return a layer and a ReLU as a network, with made-up weights."""
    noise = np.random.default_rng(0)
    if layer.kernel:
        kind = "ConvTranspose" if layer.transposed else "Conv"
        ends = (layer.outputs, layer.inputs)
        first, second = reversed(ends) if layer.transposed else ends
        shape = (first, second // layer.groups, *layer.kernel)
        size = (1, layer.inputs, *layer.input_size)
        attributes: dict[str, Any] = {
            "group": layer.groups, "strides": layer.stride, "dilations": layer.dilation,
        }  # fmt: skip
        if isinstance(layer.padding, str):
            attributes["auto_pad"] = "VALID" if layer.padding == "valid" else "SAME_UPPER"
        else:
            attributes["pads"] = (*layer.padding, *layer.padding)
    else:
        kind, shape, size = "Gemm", (layer.outputs, layer.inputs), (1, layer.inputs)
        attributes = {"transB": 1}
    weights = noise.standard_normal(shape, np.float32)
    return helper.make_model(
        helper.make_graph(
            [
                helper.make_node(kind, ["x", "w", "b"], ["y"], name="layer", **attributes),
                helper.make_node("Relu", ["y"], ["z"], name="relu"),
            ],
            "layer",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, size)],
            [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)],
            [
                numpy_helper.from_array(weights, "w"),
                numpy_helper.from_array(np.zeros(layer.outputs, np.float32), "b"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
    )  # fmt: skip
