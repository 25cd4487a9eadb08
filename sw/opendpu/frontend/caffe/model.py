# SPDX-License-Identifier: Apache-2.0
"""From Caffe's two files to a float graph."""

import pathlib
from typing import Any

import onnx
from onnx import TensorProto, helper

from opendpu.frontend.binding import Sizes, bind_inputs
from opendpu.frontend.building import Builder, Missing
from opendpu.frontend.caffe import detection, forks, layers
from opendpu.frontend.caffe.net import read_net, read_weights
from opendpu.frontend.caffe.registry import HANDLERS, Call
from opendpu.frontend.refusal import FaultError, Refusal
from opendpu.ir import Array, FloatGraph, Origin
from opendpu_arch.errors import ModelFormatError, UnsupportedError

assert layers and detection and forks  # register the handlers
NET, WEIGHTS = ".prototxt", ".caffemodel"
_LOSSES = ("Accuracy", "Silence")
"""Layers that make nothing in inference."""


def load_caffe(
    path: str | pathlib.Path,
    input_shapes: Sizes | None = None,
    *,
    weights: str | pathlib.Path | None = None,
) -> FloatGraph:
    """Convert a network of Caffe to a float graph.

    Ops have the names of the layers. Inputs and outputs are NCHW in Caffe, NHWC in the graph, as
    of :func:`opendpu.frontend.load_onnx`.

    Parameters
    ----------
    path
        ``deploy.prototxt`` or the ``.caffemodel``.
    input_shapes
        As of :func:`opendpu.frontend.load_onnx`; for networks that do not say theirs.
    weights
        The other file; by default the only one of its kind beside the first, or that of its name.

    Raises
    ------
    ModelFormatError
        A file is missing or damaged, or both do not fit together.
    UnsupportedError
        Layers that cannot be converted, all of them.
    """
    path = pathlib.Path(path)
    other = _beside(path) if weights is None else pathlib.Path(weights)
    net, trained = (path, other) if path.suffix != WEIGHTS else (other, path)
    return _Import(str(path), read_net(net), read_weights(trained), input_shapes or {}).graph()


def _beside(path: pathlib.Path) -> pathlib.Path:
    """Return the file that belongs to a file."""
    suffix = NET if path.suffix == WEIGHTS else WEIGHTS
    named = path.with_suffix(suffix)
    if named.exists():
        return named
    found = sorted(path.parent.glob(f"*{suffix}"))
    if len(found) == 1:
        return found[0]
    listed = ", ".join(one.name for one in found) or "none"
    raise ModelFormatError(
        f"{path} needs a {suffix} file: {named.name}, or the only one beside it, but there are: "
        f"{listed}"
    )


class _Import:
    """Goes over the layers of a network."""

    def __init__(self, label: str, net: Any, weights: dict[str, list[Array]], sizes: Sizes) -> None:
        self.label, self.net, self.weights = label, net, weights
        self.missing = Missing(label)
        shapes = dict(_inputs(label, net))
        items = [_item(name, dims) for name, dims in shapes.items()]
        self._bound = bind_inputs(label, items, sizes)
        self.b = Builder(label, net.name or pathlib.Path(label).stem, self._bound.types)
        self.values = {name: name for name in shapes}

    def graph(self) -> FloatGraph:
        """Return the graph."""
        with self._bound.checked():
            return self._graph()

    def _graph(self) -> FloatGraph:
        for layer in self.net.layer:
            if layer.type != "Input" and layer.type not in _LOSSES:
                self._convert(layer)
        if self.missing.found:
            raise UnsupportedError(str(self.missing))
        read: set[str] = set()
        outputs: dict[str, str] = {}
        for layer in reversed(self.net.layer):
            if layer.type in _LOSSES:
                continue
            for top in layer.top:
                if top not in read and top in self.values:
                    outputs.setdefault(top, self.values[top])
            read.update(layer.bottom)
        return self.b.load(dict(reversed(outputs.items())), channels_last=False)

    def _convert(self, layer: Any) -> None:
        lost = [name for name in layer.bottom if name not in self.values]
        if lost and not self.missing.found:
            raise ModelFormatError(
                f"{self.label}: layer {layer.name!r} reads {lost[0]!r}, which nobody makes"
            )
        if lost:
            return
        self.b.origin = Origin(layer.name, layer.type)
        inputs = [self.values[name] for name in layer.bottom]
        try:
            if layer.type not in HANDLERS:
                raise Refusal("no counterpart")
            call = Call(self.b, layer, inputs, self.weights.get(layer.name, []))
            found = HANDLERS[layer.type](call)
        except Refusal as reason:
            self.missing.add(f"{layer.type} ({reason})", layer.name)
            return
        except (FaultError, ValueError, IndexError, ArithmeticError) as fault:
            raise ModelFormatError(
                f"{self.label}: layer {layer.name!r} ({layer.type}): {fault}"
            ) from None
        results = [found] if isinstance(found, str) else found
        self.values |= dict(zip(layer.top, results, strict=False))


def _inputs(label: str, net: Any) -> list[tuple[str, list[int]]]:
    """Return inputs with their shapes: said by layers, or in front of them."""
    layers = [layer for layer in net.layer if layer.type == "Input"]
    found = [item for layer in layers for item in _tops(label, layer)]
    for i, name in enumerate(net.input):
        dims = list(net.input_dim[4 * i : 4 * i + 4])
        if i < len(net.input_shape):
            dims = [int(size) for size in net.input_shape[i].dim]
        found.append((name, dims))
    if not found:
        raise ModelFormatError(
            f"{label} has no inputs; a network for inference has a layer 'Input', or 'input' and "
            "'input_dim'"
        )
    return found


def _tops(label: str, layer: Any) -> list[tuple[str, list[int]]]:
    """Return what an ``Input`` makes; one shape is that of all."""
    shapes = [[int(size) for size in shape.dim] for shape in layer.input_param.shape]
    number = len(layer.top)
    if len(shapes) == 1 and number:
        shapes *= number
    if shapes and len(shapes) != number:
        raise ModelFormatError(
            f"{label}: layer {layer.name!r} (Input) has {len(shapes)} shapes for {number} tops"
        )
    return list(zip(layer.top, shapes, strict=False))


def _item(name: str, dims: list[int]) -> onnx.ValueInfoProto:
    """Return what ONNX calls an input; the batch is free."""
    free: list[int | str] = ["", *dims[1:]] if dims else []
    shape = free or None
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
