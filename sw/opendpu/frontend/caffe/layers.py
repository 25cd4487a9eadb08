# SPDX-License-Identifier: Apache-2.0
"""One handler for every layer of Caffe that can be converted."""

from typing import Any

import numpy as np

from opendpu.frontend.caffe.registry import Call, handles
from opendpu.frontend.refusal import FaultError, Refusal

_FUNCTIONS = {
    "Sigmoid": "Sigmoid", "TanH": "Tanh", "AbsVal": "Abs", "Exp": "Exp", "BNLL": "Softplus",
    "Dropout": "Identity",
}  # fmt: skip


@handles(*_FUNCTIONS)
def function(call: Call) -> str:
    """Functions of one tensor; dropout changes nothing in inference."""
    return call.emit(_FUNCTIONS[call.layer.type], call.x)


def _pair(given: Any, name: str, default: int) -> list[int]:
    """Return rows and columns of a parameter that is given for both, or for each."""
    rows, columns = f"{name}_h", f"{name}_w"
    if given.HasField(rows) or given.HasField(columns):
        return [getattr(given, rows), getattr(given, columns)]
    key = "kernel_size" if name == "kernel" else name
    found = getattr(given, key)
    numbers = [found] if isinstance(found, int) else list(found)
    numbers = numbers or [default]
    return numbers * 2 if len(numbers) == 1 else numbers


DEPTHWISE = ("ConvolutionDepthwise", "DepthwiseConvolution")
"""Names that forks have for convolutions of as many groups as channels."""


@handles("Convolution", "Deconvolution", *DEPTHWISE)
def convolution(call: Call) -> str:
    """Weights are OIHW, those of deconvolutions IOHW, as ONNX has them."""
    given = call.layer.convolution_param
    kernel, pads = _pair(given, "kernel", 0), _pair(given, "pad", 0)
    dilation = list(given.dilation) or [1]
    transposed = call.layer.type == "Deconvolution"
    channels, outputs = call.shape[1], given.num_output
    group = channels if call.layer.type in DEPTHWISE else given.group
    if channels % group or outputs % group:
        raise FaultError(f"{group} groups do not divide {channels} and {outputs} channels")
    shape = (channels, outputs // group) if transposed else (outputs, channels // group)
    inputs = [call.x, call.constant(0, "weights", (*shape, *kernel))]
    if given.bias_term:
        inputs.append(call.constant(1, "bias", (outputs,)))
    return call.emit(
        "ConvTranspose" if transposed else "Conv", *inputs, kernel_shape=kernel, pads=pads * 2,
        strides=_pair(given, "stride", 1), dilations=dilation * 2 if len(dilation) == 1
        else dilation, group=group,
    )  # fmt: skip


@handles("Pooling")
def pooling(call: Call) -> str:
    """Sizes are rounded up; means count the padding, but not what rounding adds."""
    given = call.layer.pooling_param
    if given.pool not in (given.MAX, given.AVE):
        raise Refusal("stochastic pooling is for training")
    largest = given.pool == given.MAX
    if given.global_pooling:
        return call.emit("GlobalMaxPool" if largest else "GlobalAveragePool", call.x)
    kernel, stride = _pair(given, "kernel", 0), _pair(given, "stride", 1)
    pads, behind = _pair(given, "pad", 0), []
    for size, k, s, p in zip(call.shape[2:], kernel, stride, pads, strict=True):
        steps = (size + 2 * p - k) // s
        if given.round_mode == given.CEIL:
            steps = -(-(size + 2 * p - k) // s)
            if p and steps * s >= size + p:  # the last window begins in the padding
                steps -= 1
        behind.append(steps * s + k - size - p)
    attrs = {"kernel_shape": kernel, "strides": stride}
    if largest:
        return call.emit("MaxPool", call.x, pads=pads + _least(behind), **attrs)
    if not any(pads) and not any(n > 0 for n in behind):
        return call.emit("AveragePool", call.x, **attrs)
    if all(n <= p for n, p in zip(behind, pads, strict=True)):
        return call.emit("AveragePool", call.x, pads=pads + _least(behind), count_include_pad=1,
                         **attrs)  # fmt: skip
    if not any(pads):
        return call.emit("AveragePool", call.x, pads=[0, 0, *_least(behind)], **attrs)
    raise Refusal("means with padding whose size is rounded up are not supported")


def _least(pads: list[int]) -> list[int]:
    return [max(0, pad) for pad in pads]


@handles("InnerProduct")
def inner_product(call: Call) -> str:
    """All axes from one on are inputs; weights are ``[outputs, inputs]`` unless transposed."""
    given, b, shape = call.layer.inner_product_param, call.b, call.shape
    axis = call.axis(given.axis)
    size = int(np.prod(shape[axis:]))
    x = call.x
    if len(shape) != axis + 1:
        x = b.node("Reshape", [x, b.integers(*shape[:axis], size)], f"{x}/flat")
    weights = call.blob(0, "weights").reshape(
        (size, given.num_output) if given.transpose else (given.num_output, size)
    )
    matrix = b.constant(weights if given.transpose else weights.T, f"{call.name}/weights")
    if not given.bias_term:
        return call.emit("MatMul", x, matrix)
    made = b.node("MatMul", [x, matrix], f"{call.name}/MatMul")
    return call.emit("Add", made, call.constant(1, "bias", (given.num_output,)))


@handles("ReLU")
def relu(call: Call) -> str:
    """With a slope for what is negative, if there is one."""
    slope = call.layer.relu_param.negative_slope
    return call.emit("LeakyRelu", call.x, alpha=slope) if slope else call.emit("Relu", call.x)


@handles("ReLU6")
def relu6(call: Call) -> str:
    """Limit to 0..6."""
    low, high = (call.b.constant(np.float32(bound)) for bound in (0, 6))
    return call.emit("Clip", call.x, low, high)


@handles("PReLU")
def prelu(call: Call) -> str:
    """One slope a channel, or one."""
    count = 1 if call.layer.prelu_param.channel_shared else call.shape[1]
    shape = (count, *[1] * (len(call.shape) - 2))
    return call.emit("PRelu", call.x, call.constant(0, "slopes", shape))


@handles("ELU")
def elu(call: Call) -> str:
    """Convert to ``Elu``."""
    return call.emit("Elu", call.x, alpha=call.layer.elu_param.alpha)


@handles("Power")
def power(call: Call) -> str:
    """``(shift + scale * x) ** power``."""
    given, b, x = call.layer.power_param, call.b, call.x
    if given.scale != 1:
        x = b.node("Mul", [x, b.constant(np.float32(given.scale))])
    if given.shift != 0:
        x = b.node("Add", [x, b.constant(np.float32(given.shift))])
    if given.power != 1:
        x = b.node("Pow", [x, b.constant(np.float32(given.power))])
    return call.emit("Identity", x)


@handles("BatchNorm")
def batch_norm(call: Call) -> str:
    """Sums of means and variances, and what to divide both by; no scale."""
    mean, variance, factor = (
        call.blob(i, what) for i, what in enumerate(("means", "variances", "factor"))
    )
    divisor = float(factor.ravel()[0]) or 1.0
    channels = call.shape[1]
    arrays = {
        "scale": np.ones(channels), "offset": np.zeros(channels), "mean": mean.ravel() / divisor,
        "variance": variance.ravel() / divisor,
    }  # fmt: skip
    constants = [
        call.b.constant(array.astype(np.float32), f"{call.name}/{what}")
        for what, array in arrays.items()
    ]
    return call.emit(
        "BatchNormalization", call.x, *constants, epsilon=call.layer.batch_norm_param.eps
    )


@handles("Scale", "Bias")
def scale(call: Call) -> str:
    """Factors along axes, or of a second bottom; offsets."""
    b, made = call.b, call.x
    factors = call.layer.type == "Scale"
    given = call.layer.scale_param if factors else call.layer.bias_param
    if len(call.inputs) > 1:
        axis = call.axis(given.axis)
        other = b.shape(call.inputs[1]) or ()
        shape = (*other, *[1] * (len(call.shape) - axis - len(other)))
        second = b.node("Reshape", [call.inputs[1], b.integers(*shape)])
        made = call.emit("Mul" if factors else "Add", made, second)
        if factors and given.bias_term:
            made = call.emit("Add", made, _along(call, 0, "offsets", given))
        return made
    op_type, what = ("Mul", "factors") if factors else ("Add", "offsets")
    made = call.emit(op_type, made, _along(call, 0, what, given))
    if factors and given.bias_term:
        made = call.emit("Add", made, _along(call, 1, "offsets", given))
    return made


def _along(call: Call, index: int, what: str, given: Any) -> str:
    axis = call.axis(given.axis)
    stop = len(call.shape) if given.num_axes == -1 else axis + given.num_axes
    shape = call.shape[axis:stop]
    return call.constant(index, what, (*shape, *[1] * (len(call.shape) - stop)))


@handles("Eltwise")
def eltwise(call: Call) -> str:
    """Products, sums with coefficients, largest elements."""
    given, b = call.layer.eltwise_param, call.b
    values = call.inputs
    if given.operation == given.SUM and any(factor != 1 for factor in given.coeff):
        values = [
            value if factor == 1 else b.node("Mul", [value, b.constant(np.float32(factor))])
            for value, factor in zip(values, given.coeff, strict=True)
        ]
    if given.operation == given.MAX:
        return call.emit("Max", *values)
    op_type = "Mul" if given.operation == given.PROD else "Add"
    made = values[0]
    for value in values[1:]:
        made = b.node(op_type, [made, value], call.name)
    return made


@handles("Concat")
def concat(call: Call) -> str:
    """Join along an axis."""
    given = call.layer.concat_param
    axis = given.concat_dim if given.HasField("concat_dim") else given.axis
    return call.emit("Concat", *call.inputs, axis=call.axis(axis))


@handles("Slice")
def slice_(call: Call) -> list[str]:
    """Parts that end at given places, or equal ones."""
    given, b = call.layer.slice_param, call.b
    axis = call.axis(given.slice_dim if given.HasField("slice_dim") else given.axis)
    size, count = call.shape[axis], len(call.layer.top)
    ends = [*given.slice_point, size]
    if not given.slice_point:
        ends = [size * (i + 1) // count for i in range(count)]
    sizes = [end - start for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    names = list(call.layer.top)
    return b.nodes("Split", [call.x, b.integers(*sizes)], names, axis=axis)


@handles("Split")
def split(call: Call) -> list[str]:
    """The same for everybody."""
    return [call.x] * len(call.layer.top)


@handles("Softmax", "SoftmaxWithLoss")
def softmax(call: Call) -> str:
    """Along an axis."""
    return call.emit("Softmax", call.x, axis=call.axis(call.layer.softmax_param.axis))


@handles("LRN")
def lrn(call: Call) -> str:
    """Over neighbouring channels."""
    given = call.layer.lrn_param
    if given.norm_region != given.ACROSS_CHANNELS:
        raise Refusal("norm_region WITHIN_CHANNEL is not supported")
    return call.emit(
        "LRN", call.x, size=given.local_size, alpha=given.alpha, beta=given.beta, bias=given.k
    )


@handles("Flatten")
def flatten(call: Call) -> str:
    """Some axes become one."""
    given, shape = call.layer.flatten_param, call.shape
    first, last = call.axis(given.axis), call.axis(given.end_axis)
    final = (*shape[:first], int(np.prod(shape[first : last + 1])), *shape[last + 1 :])
    return call.emit("Reshape", call.x, call.b.integers(*final))


@handles("Reshape")
def reshape(call: Call) -> str:
    """A part of the shape is another; 0 copies a size, -1 takes what is left."""
    given, shape = call.layer.reshape_param, call.shape
    first = given.axis % (len(shape) + 1)
    last = len(shape) if given.num_axes == -1 else first + given.num_axes
    part = [shape[first + i] if n == 0 else int(n) for i, n in enumerate(given.shape.dim)]
    return call.emit("Reshape", call.x, call.b.integers(*shape[:first], *part, *shape[last:]))


@handles("Permute")
def permute(call: Call) -> str:
    """Another order of axes."""
    order = list(call.layer.permute_param.order)
    order += [axis for axis in range(len(call.shape)) if axis not in order]
    return call.emit("Transpose", call.x, perm=order)


@handles("Reduction")
def reduction(call: Call) -> str:
    """Over an axis and all behind it."""
    given = call.layer.reduction_param
    axes = list(range(call.axis(given.axis), len(call.shape)))
    b = call.b
    if given.operation == given.MEAN:
        made = b.node("ReduceMean", [call.x], call.name, axes=axes, keepdims=0)
    elif given.operation == given.SUM:
        made = b.node("ReduceSum", [call.x, b.integers(*axes)], call.name, keepdims=0)
    else:
        raise Refusal("only sums and means are supported")
    return made if given.coeff == 1 else call.emit("Mul", made, b.constant(np.float32(given.coeff)))


@handles("Tile")
def tile(call: Call) -> str:
    """Repeat along an axis."""
    given = call.layer.tile_param
    repeats = [1] * len(call.shape)
    repeats[call.axis(given.axis)] = given.tiles
    return call.emit("Tile", call.x, call.b.integers(*repeats))


@handles("Crop")
def crop(call: Call) -> str:
    """The size of the second bottom, from an axis on."""
    given, b = call.layer.crop_param, call.b
    wanted = b.shape(call.inputs[1]) if len(call.inputs) > 1 else None
    if wanted is None:
        raise FaultError("it has no second bottom")
    axes = list(range(call.axis(given.axis), len(call.shape)))
    offsets = list(given.offset) or [0]
    offsets = offsets * len(axes) if len(offsets) == 1 else offsets
    ends = [offset + wanted[axis] for offset, axis in zip(offsets, axes, strict=True)]
    return call.emit("Slice", call.x, b.integers(*offsets), b.integers(*ends), b.integers(*axes))
