# SPDX-License-Identifier: Apache-2.0
"""Float evaluation of XIR graphs, for calibration and for operators that stay on the CPU."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import xir
from opendpu.ir import Graph, Node, Rounding, from_xir
from opendpu_arch.errors import TensorError, UnsupportedError
from oracle import windows

Array = npt.NDArray[Any]
Inputs = dict[str, list[Array]]
Kernel = Callable[[Node, Inputs], Array]


def evaluate(
    graph: Graph | xir.Graph,
    inputs: Mapping[str, Array],
    *,
    keep: Collection[str] | None = None,
) -> dict[str, Array]:
    """Compute a graph in float32, ``fix`` ops included.

    Parameters
    ----------
    graph
        Float or quantized graph; its batch is 1.
    inputs
        One array for each ``data`` op, by name: its shape with any batch size in front.
    keep
        Names of the ops whose results to return; all outputs if not given.

    Raises
    ------
    TensorError
        An input is missing, unknown, or has the wrong shape.
    UnsupportedError
        An op has no float evaluation here.
    GraphError
        An op to keep is not in the graph.
    """
    graph = from_xir(graph) if isinstance(graph, xir.Graph) else graph
    wanted = set(graph.outputs if keep is None else keep)
    for name in wanted:
        graph[name]
    return {name: array for name, array in walk(graph, inputs) if name in wanted}


def walk(graph: Graph, inputs: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yield name and result of every op in order, forgetting results nobody needs any more."""
    arrays = check_inputs(graph, inputs)
    users = {name: len(nodes) for name, nodes in graph.consumer_map().items()}
    results: dict[str, Array] = {}
    for node in graph:
        if node.kind == "data":
            results[node.name] = arrays[node.name]
        elif node.value is not None:
            results[node.name] = node.value
        else:
            given = {arg: [results[n] for n in names] for arg, names in node.inputs.items()}
            results[node.name] = compute(node, given)
        yield node.name, results[node.name]
        for name in dict.fromkeys(node.sources()):
            users[name] -= 1
            if not users[name]:
                del results[name]


def check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs as float32; TensorError if names, shapes or batch sizes do not fit."""
    heads = {node.name: node for node in graph if node.kind == "data"}
    unknown = sorted(set(inputs) - set(heads))
    if unknown:
        raise TensorError(
            f"{unknown[0]!r} is no input of graph {graph.name!r}; "
            f"its inputs are: {', '.join(heads)}"
        )
    arrays = {}
    for name, node in heads.items():
        if name not in inputs:
            raise TensorError(f"input {name!r} of graph {graph.name!r} is missing")
        array = np.asarray(inputs[name])
        if array.shape[1:] != node.shape[1:] or array.ndim != len(node.shape):
            want = ["N", *node.shape[1:]]
            raise TensorError(
                f"input {name!r} has shape {list(array.shape)}, but must be "
                f"[{', '.join(map(str, want))}]"
            )
        arrays[name] = array.astype(np.float32)
    if len({array.shape[0] for array in arrays.values()}) > 1:
        sizes = ", ".join(f"{name}: {array.shape[0]}" for name, array in arrays.items())
        raise TensorError(f"inputs have different batch sizes ({sizes})")
    return arrays


def compute(node: Node, inputs: Inputs) -> Array:
    """Return the result of one op; UnsupportedError if there is no kernel for it."""
    kernel = KERNELS.get(node.kind)
    if kernel is None:
        raise UnsupportedError(f"op {node.name!r} ({node.kind}) has no float evaluation")
    return kernel(node, inputs).astype(np.float32)


def round_by(scaled: Array, rounding: Rounding) -> Array:
    """Round as ``fix`` ops do: halves up, away from zero, or to even."""
    match rounding:
        case Rounding.DPU_ROUND:
            return np.floor(scaled + 0.5)
        case Rounding.STD_ROUND:
            return np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
        case Rounding.PY3_ROUND:
            return np.rint(scaled)
    raise UnsupportedError(f"rounding {rounding.name} is none of the DPU's or of its tools")


def _fix(node: Node, inputs: Inputs) -> Array:
    found, values = node.quantization, np.asarray(inputs["input"][0], np.float64)
    shape = [-1 if axis == found.axis else 1 for axis in range(values.ndim)]
    scale = np.reshape(found.scale, shape if found.axis is not None else ())
    rounded = round_by(values / scale, found.rounding)
    return np.asarray(np.clip(rounded, *found.limits) * scale)


def _with_bias(total: Array, inputs: Inputs) -> Array:
    return total + inputs["bias"][0] if inputs.get("bias") else total


def _conv2d(node: Node, inputs: Inputs) -> Array:
    (x,), (weights,) = inputs["input"], inputs["weights"]
    return _with_bias(windows.by_group(windows.convolve, x, weights, node.attrs), inputs)


def _depthwise(node: Node, inputs: Inputs) -> Array:
    total = windows.convolve_depthwise(inputs["input"][0], inputs["weights"][0], node.attrs)
    return _with_bias(total, inputs)


def _transposed(node: Node, inputs: Inputs) -> Array:
    (x,), (weights,) = inputs["input"], inputs["weights"]
    if "depthwise" in node.kind:
        total = windows.convolve_transposed(x, weights, node.attrs, depthwise=True)
    else:
        total = windows.by_group(windows.convolve_transposed, x, weights, node.attrs)
    return _with_bias(total, inputs)


def _inner_product(node: Node, inputs: Inputs) -> Array:
    x, weights = inputs["input"][0], inputs["weights"][0]
    axis = node.attrs["axis"] % x.ndim
    flat = x.reshape(*x.shape[:axis], -1)
    return _with_bias(flat @ weights.reshape(weights.shape[0], -1).T, inputs)


def _matmul(node: Node, inputs: Inputs) -> Array:
    one, other = inputs["input"]
    one = one.swapaxes(-1, -2) if node.attrs["transpose_a"] else one
    other = other.swapaxes(-1, -2) if node.attrs["transpose_b"] else other
    return _with_bias(one @ other, inputs)


def _whole(node: Node, x: Array) -> dict[str, Any]:
    """Return the attributes of a pool, with a global one's kernel filled in."""
    if not node.attrs.get("global"):
        return node.attrs
    size = [x.shape[2], x.shape[1]]
    return {"kernel": size, "stride": size, "pad_mode": "FLOOR"}


def _maxpool(node: Node, inputs: Inputs) -> Array:
    x = inputs["input"][0]
    return windows.pool_max(x, _whole(node, x), -math.inf)


def _avgpool(node: Node, inputs: Inputs) -> Array:
    x = inputs["input"][0]
    attrs = _whole(node, x)
    total = windows.pool_sum(x, attrs)
    if node.attrs.get("count_include_pad", True):
        return np.asarray(total / math.prod(attrs["kernel"]))
    return total / windows.pool_sum(np.ones((1, *x.shape[1:]), x.dtype), attrs)


def _fold(operation: Callable[[Array, Array], Array]) -> Kernel:
    def kernel(node: Node, inputs: Inputs) -> Array:
        result = inputs["input"][0]
        for array in inputs["input"][1:]:
            result = operation(result, array)
        return result

    return kernel


def _unary(function: Callable[[Array], Array]) -> Kernel:
    """Return the kernel of a function, which is computed in float64 and rounded once."""
    return lambda node, inputs: function(inputs["input"][0].astype(np.float64))


def _batchnorm(node: Node, inputs: Inputs) -> Array:
    gamma, beta, mean, var = (
        inputs[arg][0].astype(np.float64) for arg in ("gamma", "beta", "moving_mean", "moving_var")
    )
    factor = gamma / np.sqrt(var + node.attrs["epsilon"])
    return np.asarray(inputs["input"][0] * factor + (beta - mean * factor))


def _scale(node: Node, inputs: Inputs) -> Array:
    return _with_bias(inputs["input"][0] * inputs["scale"][0], inputs)


def _softmax(node: Node, inputs: Inputs) -> Array:
    x = inputs["input"][0]
    e = np.exp(x - x.max(axis=node.attrs["axis"], keepdims=True))
    return np.asarray(e / e.sum(axis=node.attrs["axis"], keepdims=True))


def _reshape(node: Node, inputs: Inputs) -> Array:
    x = inputs["input"][0]
    if x.size == math.prod(node.shape):
        return x.reshape(node.shape)
    if node.shape[0] != 1:
        raise UnsupportedError(
            f"op {node.name!r} (reshape) mixes the batch into the shape "
            f"{list(node.shape)}; evaluate one sample at a time"
        )
    return x.reshape(-1, *node.shape[1:])


def _pad(node: Node, inputs: Inputs) -> Array:
    amounts = np.reshape(node.attrs["paddings"], (-1, 2)).tolist()
    mode = node.attrs["mode"].upper()
    if mode == "CONSTANT":
        values = node.attrs.get("constant_values") or [0.0]
        return np.pad(inputs["input"][0], amounts, constant_values=values[0])
    return np.pad(inputs["input"][0], amounts, mode=mode.lower())


def _slice(node: Node, inputs: Inputs) -> Array:
    limits = zip(node.attrs["begin"], node.attrs["end"], node.attrs["strides"], strict=True)
    slices = [slice(*limit) for limit in limits]
    return inputs["input"][0][(slice(None), *slices[1:])]


def _tile(node: Node, inputs: Inputs) -> Array:
    """Trade blocks of pixels for channels: row in the block, column, channel; or back."""
    x, size = inputs["input"][0], int(node.attrs["stride"])
    batch, height, width, channels = x.shape
    if node.attrs["reverse"]:
        split = x.reshape(batch, height, width, size, size, channels // size**2)
        return split.transpose(0, 1, 3, 2, 4, 5).reshape(batch, *node.shape[1:])
    split = x.reshape(batch, height // size, size, width // size, size, channels)
    return split.transpose(0, 1, 3, 2, 4, 5).reshape(batch, *node.shape[1:])


def _reorg(node: Node, inputs: Inputs) -> Array:
    """As ``_tile``; the rows of a block are ``scale`` apart, in groups of ``scale**2`` rows."""
    x, size = inputs["input"][0], int(node.attrs["scale"])
    batch, height, width, channels = x.shape
    if node.attrs["reverse"]:
        split = x.reshape(batch, height // size, size, width, size, size, channels // size**2)
        return split.transpose(0, 1, 4, 2, 3, 5, 6).reshape(batch, *node.shape[1:])
    split = x.reshape(batch, height // size**2, size, size, width // size, size, channels)
    return split.transpose(0, 1, 3, 4, 2, 5, 6).reshape(batch, *node.shape[1:])


def _pixel_shuffle(node: Node, inputs: Inputs) -> Array:
    """Trade channels for blocks of pixels or back: channel, row in the block, column."""
    x, size = inputs["input"][0], int(node.attrs["scale"])
    batch, height, width, channels = x.shape
    if node.attrs["upscale"]:
        split = x.reshape(batch, height, width, channels // size**2, size, size)
        return split.transpose(0, 1, 4, 2, 5, 3).reshape(batch, *node.shape[1:])
    split = x.reshape(batch, height // size, size, width // size, size, channels)
    return split.transpose(0, 1, 3, 5, 2, 4).reshape(batch, *node.shape[1:])


def _reduction(function: Callable[..., Array]) -> Kernel:
    def kernel(node: Node, inputs: Inputs) -> Array:
        axes = tuple(node.attrs["axis"])
        result = function(inputs["input"][0], axis=axes, keepdims=node.attrs["keep_dims"])
        return np.asarray(result)

    return kernel


def _lrn(node: Node, inputs: Inputs) -> Array:
    """Divide by a power of the mean square of neighbouring channels, as ONNX defines it."""
    x = inputs["input"][0]
    size, attrs = node.attrs["size"], node.attrs
    padded = np.pad(
        x.astype(np.float64) ** 2, [(0, 0)] * (x.ndim - 1) + [((size - 1) // 2, size // 2)]
    )
    total = sum(padded[..., step : step + x.shape[-1]] for step in range(size))
    return np.asarray(x / (attrs["bias"] + attrs["alpha"] / size * total) ** attrs["beta"])


def _group_norm(node: Node, inputs: Inputs) -> Array:
    """Give each group of channels of an image mean 0 and variance 1, as ONNX defines it."""
    x = inputs["input"][0].astype(np.float64)
    groups = int(node.attrs.get("num_groups", node.shape[-1]))
    parts = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    centred = parts - parts.mean(axis=(1, 3), keepdims=True)
    variance = np.mean(centred**2, axis=(1, 3), keepdims=True)
    made = (centred / np.sqrt(variance + node.attrs["eps"])).reshape(x.shape)
    if node.attrs["affine"]:
        made = made * inputs["weight"][0] + inputs["bias"][0]
    return np.asarray(made)


def _l2_normalize(node: Node, inputs: Inputs) -> Array:
    x = inputs["input"][0].astype(np.float64)
    squares = np.sum(x**2, axis=tuple(node.attrs["axis"]), keepdims=True)
    return np.asarray(x / np.sqrt(np.maximum(squares, node.attrs["epsilon"])))


def _resize(node: Node, inputs: Inputs) -> Array:
    x = inputs["input"][0]
    for axis, size in ((1, node.shape[1]), (2, node.shape[2])):
        x = _resize_axis(x, axis, size, node.attrs)
    return x


ROUNDED = 1e-5
"""What a position may lack because scales such as 1/3 are rounded."""


def _resize_axis(x: Array, axis: int, size: int, attrs: Mapping[str, Any]) -> Array:
    old = x.shape[axis]
    out = np.arange(size)
    if attrs.get("align_corners") and size > 1:
        position = out * (old - 1) / (size - 1)
    else:
        scale = attrs["scale"][2 - axis]
        position = out / scale
        if attrs.get("half_pixel_centers"):
            position = (out + 0.5) / scale - 0.5
    if attrs["mode"] == "NEAREST":
        near = np.floor(position + ROUNDED)
        return np.asarray(x.take(np.clip(near, 0, old - 1).astype(int), axis))
    position = np.clip(position, 0, old - 1)
    low = np.floor(position).astype(int)
    share = (position - low).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    return np.asarray(
        x.take(low, axis) * (1 - share) + x.take(np.minimum(low + 1, old - 1), axis) * share
    )


def _leaky(node: Node, inputs: Inputs) -> Array:
    x = inputs["input"][0]
    return np.where(x < 0, x * node.attrs["alpha"], x)


_erf = np.vectorize(math.erf, otypes=[np.float64])

KERNELS: dict[str, Kernel] = {
    "fix": _fix,
    "conv2d": _conv2d,
    "depthwise-conv2d": _depthwise,
    "transposed-conv2d": _transposed,
    "transposed-depthwise-conv2d": _transposed,
    "inner-product": _inner_product,
    "matmul": _matmul,
    "maxpool2d": _maxpool,
    "avgpool2d": _avgpool,
    "add": _fold(np.add),
    "sub": _fold(np.subtract),
    "mul": _fold(np.multiply),
    "div": _fold(np.divide),
    "min": _fold(np.minimum),
    "max": _fold(np.maximum),
    "batchnorm": _batchnorm,
    "lrn": _lrn,
    "groupnorm": _group_norm,
    "instancenorm": _group_norm,
    "l2_normalize": _l2_normalize,
    "scale": _scale,
    "softmax": _softmax,
    "reshape": _reshape,
    "flatten": _reshape,
    "squeeze": _reshape,
    "transpose": lambda node, inputs: inputs["input"][0].transpose(node.attrs["order"]),
    "concat": lambda node, inputs: np.concatenate(inputs["input"], axis=node.attrs["axis"]),
    "pad": _pad,
    "strided_slice": _slice,
    "gstiling": _tile,
    "reorg": _reorg,
    "pixel-shuffle": _pixel_shuffle,
    "reduction_mean": _reduction(np.mean),
    "reduction_max": _reduction(np.max),
    "reduction_sum": _reduction(np.sum),
    "cast": lambda node, inputs: inputs["input"][0].astype(node.type.dtype),
    "argmax": lambda node, inputs: np.argmax(inputs["input"][0], axis=node.attrs["axis"]),
    "resize": _resize,
    "relu": lambda node, inputs: np.maximum(inputs["input"][0], 0),
    "relu6": lambda node, inputs: np.clip(inputs["input"][0], 0, 6),
    "leaky-relu": _leaky,
    "prelu": lambda node, inputs: np.where(
        inputs["input"][0] < 0, inputs["input"][0] * inputs["weight"][0], inputs["input"][0]
    ),
    "elu": lambda node, inputs: np.where(
        inputs["input"][0] < 0,
        node.attrs["alpha"] * np.expm1(np.minimum(inputs["input"][0], 0)),
        inputs["input"][0],
    ),
    "gelu": _unary(lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2)))),
    "mish": _unary(lambda x: x * np.tanh(np.logaddexp(0, x))),
    "swish": _unary(lambda x: x / (1 + np.exp(-x.astype(np.float64)))),
    "hard-sigmoid": _unary(lambda x: np.clip(x + 3, 0, 6) / 6),
    "hard-swish": _unary(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "sigmoid": _unary(lambda x: 1 / (1 + np.exp(-x.astype(np.float64)))),
    "tanh": _unary(np.tanh),
    "hard-tanh": _unary(lambda x: np.clip(x, -1, 1)),
    "exp": _unary(np.exp),
    "neg": lambda node, inputs: -inputs["input"][0],
}
"""Float kernel of every op type that can be evaluated."""
