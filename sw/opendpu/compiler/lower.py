# SPDX-License-Identifier: Apache-2.0
"""Pass: the ops of one DPU part to layers with instruction fields, and to aliases."""

from collections.abc import Collection, Iterable

import numpy as np

from opendpu.compiler.average import average_factor
from opendpu.compiler.constraints import extent
from opendpu.compiler.fixed import point_of
from opendpu.compiler.plan import (
    Alias,
    AluLayer,
    ConvLayer,
    EltwiseLayer,
    Feature,
    Int8Array,
    Layer,
    Network,
    Window,
)
from opendpu.ir import Draft, Node
from opendpu_arch.errors import GraphError
from opendpu_arch.isa import ActType, AluMode

ACTIVATIONS = {
    "NONE": ActType.NONE, "RELU": ActType.RELU, "RELU6": ActType.RELU6,
    "LEAKYRELU": ActType.LEAKYRELU,
}  # fmt: skip


def lower(draft: Draft, nodes: Iterable[str], outputs: Collection[str]) -> Network:
    """Return what the DPU part with ``nodes`` computes.

    ``outputs`` are the nodes whose results are needed outside.
    """
    work = _Lowering(draft, [draft[n] for n in nodes], set(outputs))
    return work.network()


class _Lowering:
    """One run of the pass."""

    def __init__(self, draft: Draft, nodes: list[Node], outputs: set[str]) -> None:
        self.draft = draft
        self.nodes = nodes
        self.outputs = outputs
        self.inside = {n.name for n in nodes}
        self.features: dict[str, Feature] = {}
        self.layers: list[Layer] = []
        self.aliases: dict[str, Alias] = {}
        self.inputs: dict[str, None] = {}

    def network(self) -> Network:
        """Return the finished network."""
        for node in self.nodes:
            for name in node.inputs.get("input", ()):
                if name not in self.inside and name not in self.inputs:
                    self.inputs[name] = None
                    self._feature(self.draft[name])
            self._feature(node)
            self._lower(node)
        return Network(
            features=self.features, layers=tuple(self.layers), inputs=tuple(self.inputs),
            outputs=tuple(n.name for n in self.nodes if n.name in self.outputs),
            aliases=self.aliases,
        )  # fmt: skip

    def _feature(self, node: Node) -> Feature:
        height, width, channels = (*(1,) * (4 - len(node.shape)), *node.shape[1:])
        feature = Feature(name=node.name, height=height, width=width, channels=channels)
        self.features[node.name] = feature
        return feature

    def _lower(self, node: Node) -> None:
        source = node.inputs["input"][0]
        match node.kind:
            case "conv2d-fix":
                self.layers.append(self._conv(node, source))
            case "depthwise-conv2d-fix":
                self.layers.append(self._depthwise(node, source))
            case "pool-fix":
                self.layers.append(self._pool(node, source))
            case "eltwise-fix":
                self.layers.append(self._eltwise(node))
            case "reshape-fix":
                self._reshape(node, source)
            case "concat-fix":
                self._concat(node)
            case _:
                raise GraphError(f"op {node.name!r} ({node.kind}) cannot be lowered for the DPU")

    def _constant(self, node: Node, arg: str) -> Int8Array:
        value = self.draft[node.inputs[arg][0]].value
        assert value is not None
        return np.asarray(value, dtype=np.int8)

    def _shifts(self, node: Node, source: str) -> tuple[int, int]:
        product = point_of(self.draft[source]) + point_of(self.draft[node.inputs["weights"][0]])
        bias = node.inputs.get("bias")
        shift_bias = product - point_of(self.draft[bias[0]]) + 1 if bias else 0
        return product - point_of(node), shift_bias

    def _bias(self, node: Node, channels: int) -> Int8Array:
        if node.inputs.get("bias"):
            return self._constant(node, "bias").reshape(-1)
        return np.zeros(channels, dtype=np.int8)

    def _conv(self, node: Node, source: str) -> ConvLayer:
        cut, bias = self._shifts(node, source)
        return ConvLayer(
            name=node.name, source=source, output=node.name, window=_window(node),
            weights=_spread(self._constant(node, "weights"), node),
            bias=self._bias(node, node.shape[-1]), shift_cut=cut, shift_bias=bias,
            act_type=ACTIVATIONS[node.attrs["nonlinear"]],
        )  # fmt: skip

    def _depthwise(self, node: Node, source: str) -> AluLayer:
        cut, bias = self._shifts(node, source)
        return AluLayer(
            name=node.name, source=source, output=node.name, window=_window(node),
            mode=AluMode.DWCV, weights=_spread(self._constant(node, "weights"), node)[0],
            bias=self._bias(node, node.shape[-1]), shift_cut=cut, shift_bias=bias,
            act_type=ACTIVATIONS[node.attrs["nonlinear"]],
        )  # fmt: skip

    def _pool(self, node: Node, source: str) -> AluLayer:
        window = _window(node)
        right = point_of(self.draft[source]) - point_of(node)
        mode, factor = AluMode.MAXPOOL, 0
        if node.attrs["type"] == "AVG":
            mode = AluMode.AVEPOOL
            factor, shift = average_factor(kernel_h=window.kernel_h, kernel_w=window.kernel_w)
            right += shift
        return AluLayer(
            name=node.name, source=source, output=node.name, window=window, mode=mode,
            multi_factor=factor, shift_cut=8 + right if right >= 0 else -right,
        )  # fmt: skip

    def _eltwise(self, node: Node) -> EltwiseLayer:
        sources = tuple(node.inputs["input"])
        points = [point_of(self.draft[s]) for s in sources]
        right = min(points) - point_of(node)
        return EltwiseLayer(
            name=node.name, sources=sources, output=node.name,
            shift_read=tuple(p - min(points) for p in points),
            shift_write=16 + right if right > 0 else -right,
            relu=node.attrs["nonlinear"] == "RELU",
        )  # fmt: skip

    def _copy(self, source: str, name: str) -> str:
        """Add a layer that copies a feature map; return the copy's name."""
        feature = self.features[source]
        self.features[name] = Feature(
            name=name, height=feature.height, width=feature.width, channels=feature.channels
        )
        self.layers.append(
            EltwiseLayer(name=name, sources=(source,), output=name, shift_read=(0,), shift_write=0)
        )
        return name

    def _root(self, name: str) -> str:
        while name in self.aliases:
            name = self.aliases[name].holder
        return name

    def _is_dense(self, name: str) -> bool:
        """Tell whether the bytes of a feature map follow each other without gaps."""
        while name in self.aliases:
            alias = self.aliases[name]
            if alias.pixel_bytes != self.features[name].channels:
                return False
            name = alias.holder
        return True

    def _reshape(self, node: Node, source: str) -> None:
        if not self._is_dense(source) or self._is_served(source, node.name):
            source = self._copy(source, f"{node.name}/copy")
        channels = self.features[node.name].channels
        self.aliases[node.name] = Alias(holder=source, offset=0, pixel_bytes=channels)

    def _is_served(self, source: str, name: str) -> bool:
        """Tell whether a result that is an output cannot be bytes of ``source``.

        Inputs and outputs have segments of their own, and so do two outputs.
        """
        if name not in self.outputs:
            return False
        root = self._root(source)
        return root in self.inputs or any(self._root(o) == root for o in self.outputs - {name})

    def _concat(self, node: Node) -> None:
        holder = self.features[node.name]
        along_rows = int(node.attrs["axis"]) == 1
        offset = 0
        made = {layer.output for layer in self.layers}
        for number, source in enumerate(node.inputs["input"]):
            feature = self.features[source]
            free = source in made and source not in self.aliases and source not in self.outputs
            if not free or source in {a.holder for a in self.aliases.values()}:
                source = self._copy(source, f"{node.name}/{number}")
            self.aliases[source] = Alias(
                holder=node.name, offset=offset, pixel_bytes=holder.channels
            )
            pixels = feature.height * feature.width if along_rows else 1
            offset += feature.channels * pixels


def _window(node: Node) -> Window:
    rows, columns = extent(node)
    left, _, top, _ = (int(p) for p in node.attrs["pad"])
    stride_w, stride_h = (int(s) for s in node.attrs["stride"])
    return Window(
        kernel_h=rows, kernel_w=columns, stride_h=stride_h, stride_w=stride_w,
        pad_top=top, pad_left=left,
    )  # fmt: skip


def _spread(weights: Int8Array, node: Node) -> Int8Array:
    """Return OHWI weights with the zeros that a dilation leaves between the taps."""
    gap_w, gap_h = (int(d) for d in node.attrs.get("dilation") or (1, 1))
    if gap_w == gap_h == 1:
        return weights
    outputs, _, _, inputs = weights.shape
    spread = np.zeros((outputs, *extent(node), inputs), dtype=np.int8)
    spread[:, ::gap_h, ::gap_w] = weights
    return spread
