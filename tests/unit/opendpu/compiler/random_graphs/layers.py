# SPDX-License-Identifier: Apache-2.0
"""Random ops with weights."""

import math

from random_graphs.grower import Grower, grows

ACTIVATIONS = (None, None, "relu", "relu", "relu6", "leaky-relu")


def window(g: Grower, name: str, kernels: list[int], strides: list[int]) -> tuple[dict, tuple]:
    """Return attributes of a window, and the rows and columns of its result."""
    pick = g.pick
    attrs: dict = {"kernel": [], "stride": [], "pad": [], "pad_mode": "FLOOR", "dilation": []}
    size = []
    square, even = pick.choice(kernels), pick.choice(strides)
    pads = pick.choice(["none", "half", "half", "any"])
    for axis in (1, 0):  # width first
        there = g.shape(name)[axis]
        kernel = min(pick.choice([square, square, square, pick.choice(kernels)]), there + 2)
        stride = pick.choice([even, even, even, pick.choice(strides)])
        gap = pick.choice([1, 1, 1, 1, 2, 3]) if kernel > 1 else 1
        reach = (kernel - 1) * gap + 1
        half = reach // 2 if pads == "half" else 0
        before, after = (
            (half, half) if pads != "any" else (pick.randrange(reach), pick.randrange(reach))
        )
        attrs["kernel"].append(kernel)
        attrs["stride"].append(stride)
        attrs["dilation"].append(gap)
        attrs["pad"] += [before, after]
        size.insert(0, (there + before + after - reach) // stride + 1)
    return attrs, tuple(size)


def positions(g: Grower, source: str, taps: int, out: int) -> tuple[int, int]:
    """Return fix points of weights and bias with which the result uses all of int8, mostly."""
    cut = max(0, round(math.log2(92 * math.sqrt(taps))) + g.pick.randint(-1, 1))
    weights = cut + out - g.point_of(source)
    return weights, cut + out + 1 - g.pick.randint(0, min(20, cut + 2))


def by_channel(
    g: Grower, points: tuple[int, int], channels: int, out: int, source: str
) -> tuple[list[int], list[int]]:
    """Return fix points of weights and bias for each channel, which the DPU's shifts can hold."""
    pick, (weights, bias) = g.pick, points
    most = pick.choice([1, 2, 3, 5, 15])
    least = max(weights - most // 2, out - g.point_of(source))
    own = [least + pick.randint(0, most) for _ in range(channels)]
    low = max(0, min(weights + g.point_of(source) + 1 - bias, 20) - pick.randint(0, 7))
    high = min(20, low + pick.choice([0, 2, 6, 15]))
    shifts = [pick.randint(low, high) for _ in range(channels)]
    return own, [w + g.point_of(source) + 1 - s for w, s in zip(own, shifts, strict=True)]


def parameters(
    g: Grower, name: str, source: str, weights: tuple, taps: int, out: int, axis: int = 0,
    *, biased: bool,
) -> dict:  # fmt: skip
    """Return the arguments of a layer; its output channels are along ``axis`` of the weights."""
    points: tuple = positions(g, source, taps, out)
    if g.by_channel and g.pick.random() < 0.8:
        points = by_channel(g, points, weights[axis], out, source)
    given = {
        "input": [source], "weights": [g.const(f"{name}_w", *weights, point=points[0], axis=axis)]
    }  # fmt: skip
    if biased:
        given["bias"] = [g.const(f"{name}_b", weights[axis], point=points[1])]
    return given


def layer(
    g: Grower, kind: str, source: str, shape: tuple, taps: int, weights: tuple, attrs: dict
) -> str:
    """Add an op with weights, perhaps a bias, and perhaps an activation."""
    pick, name = g.pick, g.name(kind)
    act = pick.choice(ACTIVATIONS)
    out = pick.randint(4, 6) if act == "relu6" and pick.random() < 0.9 else pick.randint(0, 7)
    given = parameters(
        g, name, source, weights, taps, out, -1 if "depthwise" in kind else 0,
        biased=pick.random() < 0.85,
    )  # fmt: skip
    g.graph.add(name, kind, (1, *shape), given, attrs)
    return g.finish(name, out, act, **({"alpha": 26 / 256} if act == "leaky-relu" else {}))


@grows(10)
def conv(g: Grower) -> str | None:
    source, pick = g.source(), g.pick
    attrs, size = window(g, source, [1, 1, 2, 3, 3, 3, 4, 5, 7], [1, 1, 1, 2, 2, 3])
    inputs, outputs = g.shape(source)[2], g.channels()
    group = 1
    if pick.random() < 0.15:
        group = pick.choice([n for n in range(1, inputs + 1) if inputs % n == 0])
        outputs = group * pick.choice([1, 1, 2, 3])
    taps = math.prod(attrs["kernel"]) * inputs // group
    if not g.fits((*size, outputs), math.prod(size) * outputs * taps):
        return None
    if group > 1:
        attrs["group"] = group
    weights = (outputs, attrs["kernel"][1], attrs["kernel"][0], inputs // group)
    return layer(g, "conv2d", source, (*size, outputs), taps, weights, attrs)


@grows(5)
def depthwise(g: Grower) -> str | None:
    source = g.source()
    attrs, size = window(g, source, [1, 2, 3, 3, 3, 5, 7], [1, 1, 1, 2, 2, 3])
    shape = (*size, g.shape(source)[2])
    if not g.fits(shape):
        return None
    weights = (1, attrs["kernel"][1], attrs["kernel"][0], shape[2])
    taps = math.prod(attrs["kernel"])
    return layer(g, "depthwise-conv2d", source, shape, taps, weights, attrs)


@grows(2)
def transposed(g: Grower) -> str | None:
    source, pick = g.source(), g.pick
    height, width, inputs = g.shape(source)
    deep = pick.random() < 0.35
    outputs = inputs if deep else g.channels()
    kernel = [pick.choice([1, 2, 2, 3, 4, 5])] * 2
    kernel[1] = pick.choice([kernel[0], kernel[0], pick.randint(1, 5)])
    stride = [pick.choice([1, 2, 2, 3])] * 2
    pad = [pick.choice([0, 0, pick.randrange(k)]) for k in kernel for _ in range(2)]
    size = (
        (height - 1) * stride[1] + kernel[1] - pad[2] - pad[3],
        (width - 1) * stride[0] + kernel[0] - pad[0] - pad[1],
    )
    taps = math.prod(-(-k // s) for k, s in zip(kernel, stride, strict=True))
    taps *= 1 if deep else inputs
    if not g.fits((*size, outputs), math.prod(size) * outputs * taps):
        return None
    attrs = {"kernel": kernel, "stride": stride, "pad": pad, "pad_mode": "FLOOR"}
    weights = (1 if deep else outputs, kernel[1], kernel[0], inputs)
    kind = "transposed-depthwise-conv2d" if deep else "transposed-conv2d"
    return layer(g, kind, source, (*size, outputs), taps, weights, attrs)


@grows(4)
def block(g: Grower) -> str | None:
    """Add one to three layers of stride 1, and what they started from."""
    pick, first = g.pick, g.source()
    size, channels, name = g.shape(first)[:2], g.shape(first)[2], first
    steps = pick.randint(1, 3)
    for number in range(steps):
        kernel, inputs = pick.choice([1, 1, 3]), g.shape(name)[2]
        deep = number > 0 and pick.random() < 0.5
        outputs = inputs if deep else g.channels()
        if number == steps - 1:
            outputs, deep = channels, deep and inputs == channels
        taps = kernel * kernel * (1 if deep else inputs)
        if not g.fits((*size, outputs), math.prod(size) * outputs * taps):
            return None
        attrs = {
            "kernel": [kernel] * 2, "stride": [1, 1], "pad": [kernel // 2] * 4, "pad_mode": "FLOOR",
        }  # fmt: skip
        weights = (1 if deep else outputs, kernel, kernel, inputs)
        kind = "depthwise-conv2d" if deep else "conv2d"
        name = layer(g, kind, name, (*size, outputs), taps, weights, attrs)
        g.maps.append(name)
    terms = pick.sample([first, name], 2)
    out = g.near(min(map(g.point_of, terms)))
    if not g.can_add(terms):
        return None
    return g.add(terms, g.name("add"), out, pick.choice([None, "relu"]))


@grows(2)
def dense(g: Grower) -> str | None:
    """Add an inner product, over all of a feature map or over its channels."""
    pick = g.pick
    source = pick.choice(g.flat) if g.flat and pick.random() < 0.5 else g.source()
    if len(g.shape(source)) == 3 and pick.random() < 0.7:
        elements = math.prod(g.shape(source))
        source = g.reshape(source, g.name("flat"), elements, point=g.point_of(source))
    shape, outputs = g.shape(source), g.channels()
    if shape[-1] * outputs > 60_000:
        return None
    taps, name = shape[-1], g.name("dense")
    out = pick.randint(0, 7)
    given = parameters(g, name, source, (outputs, taps), taps, out, biased=True)
    g.graph.add(name, "inner-product", (1, *shape[:-1], outputs), given, {"axis": len(shape)})
    return g.finish(name, out, pick.choice([None, "relu"]))


@grows(1)
def matrix(g: Grower) -> str | None:
    """Add a product with a constant matrix."""
    source = g.pick.choice(g.flat) if g.flat and g.pick.random() < 0.5 else g.source()
    shape, outputs = g.shape(source), g.channels()
    if shape[-1] * outputs > 60_000:
        return None
    name, out = g.name("matmul"), g.pick.randint(0, 7)
    back = g.pick.random() < 0.5
    weights = (outputs, shape[-1]) if back else (shape[-1], outputs)
    points = positions(g, source, shape[-1], out)
    given = {"input": [source, g.const(f"{name}_w", *weights, point=points[0])]}
    g.graph.add(
        name, "matmul", (1, *shape[:-1], outputs), given,
        {"transpose_a": False, "transpose_b": back},
    )  # fmt: skip
    return g.fix(name, out)
