# SPDX-License-Identifier: Apache-2.0
"""Kernels of layers with weights in integers: sums of products that are exact, rounded once.

``y = floor(act(sum / 2**cut + bias) + 1/2)``, where ``cut`` is the fractional bits that a product
has more than the result. The bias and the half are joined before, in units of the last bit of a
product, where bits below it decide nothing; only the slope of LEAKYRELU needs them.
"""

import dataclasses
import itertools

import numpy as np
import numpy.typing as npt

from opendpu.ir import Array, Node
from opendpu.ops.convolution import DENSE, DEPTHWISE
from opendpu.ops.fixed.exact import EXACT, Exact, bind, nonlinear
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu.ops.operator import Operator, register
from opendpu.ops.window import onnx_window, pair, reaching_pad, transposed_pad
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.isa import Engine

Wide = npt.NDArray[np.float64]
LEAKY_FACTOR, LEAKY_BITS = 13, 7
"""The slope of LEAKYRELU, 26/256, as an odd factor and a right shift."""


@dataclasses.dataclass(frozen=True)
class Sums:
    """What the sums of a layer's products can be, for each output channel."""

    low: Wide
    high: Wide

    def exact(self, offset: Array | float = 0.0) -> bool:
        """Tell whether float32 has every sum of some products and the offset."""
        high = self.high + np.maximum(offset, 0)
        low = self.low + np.minimum(offset, 0)
        return bool(max(high.max(), -low.min()) <= EXACT)


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of a layer, and how its ONNX operator takes them.

    ``values`` are whole float64: OHWI, or MHWC of a depthwise layer.
    """

    node: Node
    values: Wide
    group: int

    @property
    def depthwise(self) -> bool:
        """Whether every channel has its own kernel."""
        return "depthwise" in self.node.kind

    @property
    def transposed(self) -> bool:
        """Whether inputs are spread over the result."""
        return self.node.kind.startswith("transposed")

    def sums(self, low: int, high: int) -> Sums:
        """Return what sums of some products can be, for inputs between two integers."""
        axes = (1, 2) if self.depthwise else (1, 2, 3)
        ends = (self.values * low, self.values * high, np.zeros(()))
        most = np.maximum(np.maximum(*ends[:2]), 0).sum(axis=axes)
        least = np.minimum(np.minimum(*ends[:2]), 0).sum(axis=axes)
        return Sums(least.T.ravel(), most.T.ravel())

    def inputs(self, start: int, stop: int) -> "Weights":
        """Return those of some input channels of every group."""
        return dataclasses.replace(self, values=self.values[..., start:stop])

    def tensor(self, scale: float) -> npt.NDArray[np.float32]:
        """Return them times a power of two, as ONNX's operator has them."""
        values = (self.values * scale).astype(np.float32)
        if self.transposed:
            values = values[:, ::-1, ::-1].transpose(3, 0, 1, 2)
            if self.depthwise or self.group == 1:
                return values
            inputs, outputs, *kernel = values.shape
            split = values.reshape(inputs, self.group, outputs // self.group, *kernel)
            return split.swapaxes(0, 1).reshape(inputs * self.group, -1, *kernel)
        if self.depthwise:
            return values.transpose(3, 0, 1, 2).reshape(-1, 1, *values.shape[1:3])
        return values.transpose(0, 3, 1, 2)


def layer(builder: OnnxBuilder, node: Node) -> None:
    """Emit a convolution of any kind on integers."""
    (source,), weights = node.inputs["input"], _weights_of(builder, node)
    product = builder.graph[source].fix_point + builder.graph[node.inputs["weights"][0]].fix_point
    cut, point = product - node.fix_point, node.fix_point
    if cut < 0:
        weights, cut = dataclasses.replace(weights, values=np.ldexp(weights.values, -cut)), 0
    bias = _bias_of(builder, node)
    if nonlinear(node) == "LEAKYRELU":
        total = _sum(builder, node, weights, cut)
        value = total.widened().plus_constant(
            _a_channel(np.ldexp(bias, point)), max(_bias_bits(builder, node) - point, 0)
        )
        bind(builder, node, _leaky(value), "LEAKYRELU", channels_first=True)
        return
    half = 2.0 ** (cut - 1)
    offset = np.floor(np.ldexp(bias, point + cut) + half)
    total = _sum(builder, node, weights, cut, offset)
    bind(builder, node, total, "RELU", "RELU6", channels_first=True, half_added=True)


def _weights_of(builder: OnnxBuilder, node: Node) -> Weights:
    (name,) = node.inputs["weights"]
    values = builder.constant(name)
    if values is None:
        raise UnsupportedError(
            f"op {node.name!r} ({node.kind}) has weights that are computed, but must have constants"
        )
    depthwise = "depthwise" in node.kind
    group = values.shape[3] if depthwise else int(node.attrs.get("group") or 1)
    return Weights(node, values.astype(np.float64), group)


def _bias_of(builder: OnnxBuilder, node: Node) -> Wide:
    """Return the bias of every output channel as a real number."""
    for name in node.inputs.get("bias", ()):
        values = builder.constant(name)
        assert values is not None, name
        return np.ldexp(values.astype(np.float64).ravel(), -builder.graph[name].fix_point)
    return np.zeros(node.shape[-1])


def _bias_bits(builder: OnnxBuilder, node: Node) -> int:
    return max((builder.graph[name].fix_point for name in node.inputs.get("bias", ())), default=0)


def _a_channel(values: Wide) -> Wide:
    return values.reshape(1, -1, 1, 1)


def _sum(
    builder: OnnxBuilder, node: Node, weights: Weights, cut: int, offset: Wide | None = None
) -> Exact:
    """Return the sums of products and the offset, in last bits of a product, over ``2**cut``."""
    (source,) = node.inputs["input"]
    limits = builder.limits(source)
    sums = weights.sums(*limits)
    scale = 2.0**-cut
    if sums.exact(0.0 if offset is None else offset):
        name = _emitted(builder, weights, builder.channels_first(source), scale, offset)
        added = np.zeros(()) if offset is None else offset
        reach = ((sums.low + added).min() * scale, (sums.high + added).max() * scale)
        return Exact(builder, name, reach, cut)
    made: Exact | None = None
    for start, stop in _parts(weights, limits):
        part = weights.inputs(start, stop)
        value = _slice(builder, source, weights, start, stop)
        name = _emitted(builder, part, value, scale, None)
        few = part.sums(*limits)
        reach = (few.low.min() * scale, few.high.max() * scale)
        one = Exact(builder, name, reach, cut).widened()
        made = one if made is None else made.plus(one)
    assert made is not None
    return made if offset is None else made.plus_constant(_a_channel(offset * scale), cut)


def _parts(weights: Weights, limits: tuple[int, int]) -> list[tuple[int, int]]:
    """Return ranges of input channels of a group whose sums are exact, few of them."""
    channels = weights.values.shape[-1]
    count = 1
    while count <= channels and not weights.depthwise:
        ends = [channels * n // count for n in range(count + 1)]
        ranges = list(itertools.pairwise(ends))
        if all(weights.inputs(*part).sums(*limits).exact() for part in ranges):
            return ranges
        count += 1
    if weights.sums(*limits).exact():
        return [(0, channels)]
    raise UnsupportedError(
        f"op {weights.node.name!r} ({weights.node.kind}) has a kernel of "
        f"{weights.values.shape[1]}x{weights.values.shape[2]}, whose sums are too large for float32"
    )


def _slice(builder: OnnxBuilder, source: str, weights: Weights, start: int, stop: int) -> str:
    """Return some input channels of every group, NCHW."""
    value = builder.channels_first(source)
    channels = weights.values.shape[-1]
    if weights.depthwise or (start, stop) == (0, channels):
        return value
    first, last = builder.integers([start]), builder.integers([stop])
    if weights.group == 1:
        return builder.op("Slice", [value, first, last, builder.integers([1])])
    _, height, width, _ = builder.graph[source].shape
    split = [0, weights.group, channels, height, width]
    value = builder.op("Reshape", [value, builder.integers(split)])
    value = builder.op("Slice", [value, first, last, builder.integers([2])])
    joined = [0, weights.group * (stop - start), height, width]
    return builder.op("Reshape", [value, builder.integers(joined)])


def _emitted(
    builder: OnnxBuilder, weights: Weights, value: str, scale: float, offset: Wide | None
) -> str:
    """Add the operator; ``offset`` is one a channel, in the units that the weights have before."""
    node = weights.node
    kernel = (weights.values.shape[2], weights.values.shape[1])
    (source,) = node.inputs["input"]
    pad = transposed_pad(node) if weights.transposed else reaching_pad(
        node, kernel, builder.graph[source].shape)  # fmt: skip
    window = onnx_window(kernel, pair(node, "stride"), pad, pair(node, "dilation"))
    given = [value, builder.initializer(weights.tensor(scale))]
    if offset is not None:
        given.append(builder.initializer((offset * scale).astype(np.float32)))
    kind = "ConvTranspose" if weights.transposed else "Conv"
    return builder.op(kind, given, group=weights.group, **window)


def _leaky(value: Exact) -> Exact:
    """Return negative numbers times the slope, exactly."""
    slope = LEAKY_FACTOR / 2.0**LEAKY_BITS
    steep = value.builder.op("Mul", [value.name, value.number(slope)])
    name = value.builder.op("Max", [value.name, steep])
    low, high = (max(limit, limit * slope) for limit in value.reach)
    return Exact(value.builder, name, (low, high), value.bits + LEAKY_BITS, wide=value.wide)


register(
    Operator(
        kind="conv2d-fix", emit=layer, engine=Engine.CONV, multiplies=True, parameters=DENSE
    ),
    Operator(
        kind="transposed-conv2d-fix", emit=layer, engine=Engine.CONV, multiplies=True,
        parameters=DENSE,
    ),
    Operator(
        kind="depthwise-conv2d-fix", emit=layer, engine=Engine.MISC, multiplies=True,
        parameters=DEPTHWISE,
    ),
    Operator(
        kind="transposed-depthwise-conv2d-fix", emit=layer, engine=Engine.MISC, multiplies=True,
        parameters=DEPTHWISE,
    ),
)  # fmt: skip
