# SPDX-License-Identifier: Apache-2.0
"""Random pools, sums, products and activations."""

import math

from random_graphs.grower import FURTHEST, Grower, grows
from random_graphs.layers import window


@grows(4)
def pool(g: Grower) -> str | None:
    pick, source = g.pick, g.source()
    average = pick.random() < 0.5
    kind = "avgpool2d" if average else "maxpool2d"
    height, width, channels = g.shape(source)
    name = g.name("pool")
    if pick.random() < 0.2:
        attrs: dict = {
            "kernel": [width, height], "stride": [width, height], "pad": [0] * 4,
            "pad_mode": "FLOOR", "global": True,
        }  # fmt: skip
        size: tuple = (1, 1)
    else:
        attrs, size = window(g, source, [1, 2, 2, 3, 3, 5, 7, 8], [1, 1, 2, 2, 3])
        if attrs.pop("dilation") != [1, 1]:
            return None
    if average and any(attrs["pad"]):
        attrs["count_include_pad"] = pick.random() < 0.7
    if not g.fits((*size, channels)):
        return None
    g.op(name, kind, (*size, channels), [source], **attrs)
    return g.fix(name, g.near(g.point_of(source)))


def product_point(exact: int, shift: int) -> int:
    """Return where a product may be that would be exact at one fix point: in reach of its shift."""
    return min(9, exact + FURTHEST, max(-4, exact - shift))


@grows(5)
def add(g: Grower) -> str | None:
    pick, source = g.pick, g.source()
    same = g.alike(source)
    terms = [source, *pick.choices(same, k=pick.choice([1, 1, 1, 2, 3]))]
    pick.shuffle(terms)
    out = g.near(min(map(g.point_of, terms)) - 1)
    if not g.can_add(terms):
        return None
    return g.add(terms, g.name("add"), out, pick.choice([None, "relu"]))


@grows(2)
def mul(g: Grower) -> str | None:
    pick, source = g.pick, g.source()
    terms = [source, pick.choice(g.alike(source))]
    name, product = g.name("mul"), sum(map(g.point_of, terms))
    out = product_point(product, pick.randint(4, 8))
    if abs(product - out) > 15:
        return None
    g.op(name, "mul", g.shape(source), terms)
    return g.finish(name, out, pick.choice([None, "relu"]))


@grows(2)
def by_constant(g: Grower) -> str | None:
    """Add a sum or a product with one constant a channel, or one for all."""
    pick, source = g.pick, g.source()
    kind, name = pick.choice(["add", "mul"]), g.name("constant")
    shape, point = g.shape(source), g.point_of(source)
    size = pick.choice([(shape[2],), (1, 1, 1, shape[2]), (1,)])
    at = point + pick.randint(-2, 4) if kind == "add" else pick.randint(2, 7)
    constant = g.const(f"{name}_c", *size, point=at)
    g.op(name, kind, shape, pick.sample([source, constant], 2))
    out = g.near(point - 1) if kind == "add" else product_point(point + at, pick.randint(5, 8))
    return g.finish(name, out, pick.choice([None, "relu"]))


@grows(3)
def activation(g: Grower) -> str | None:
    pick, source = g.pick, g.source()
    kind = pick.choice(["relu", "relu6", "leaky-relu", "prelu", "hard-sigmoid"])
    point, shape, name = g.point_of(source), g.shape(source), g.name(kind)
    given, attrs, out = {"input": [source]}, {}, g.near(point)
    if kind == "relu6":
        out = max(4, out) if pick.random() < 0.9 else out
    elif kind == "leaky-relu":
        attrs["alpha"] = pick.choice([26 / 256, 0.25, 0.125, 1.5, -0.5, 0.0, 0.3])
    elif kind == "prelu":
        size = pick.choice([1, shape[2]])
        given["weight"] = [g.const(f"{name}_w", size, point=pick.randint(5, 8))]
    elif kind == "hard-sigmoid":
        if point < 0:
            return None
        out = pick.randint(5, 8)
    g.graph.add(name, kind, (1, *shape), given, attrs)
    return g.fix(name, out)


@grows(2)
def reduction(g: Grower) -> str | None:
    """Add a maximum or a mean over some axes."""
    pick, source = g.pick, g.source()
    shape = (1, *g.shape(source))
    axes, keep = pick.choice([[3], [3], [1, 2], [2], [1], [2, 3], [1, 2, 3]]), pick.random() < 0.6
    size = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    if not keep:
        size = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    kind = "reduction_mean" if 3 not in axes and pick.random() < 0.5 else "reduction_max"
    if len(size) == 1:
        return None
    name = g.name("reduce")
    g.op(name, kind, size[1:], [source], axis=axes, keep_dims=keep)
    return g.fix(name, g.near(g.point_of(source)))


@grows(1)
def largest(g: Grower) -> None:
    """Add an argmax over channels: an output."""
    source, name = g.source(), g.name("argmax")
    g.op(name, "argmax", g.shape(source)[:2], [source], axis=3)
    g.ends.append(name)


@grows(1)
def for_the_cpu(g: Grower) -> str | None:
    """Add an op that no engine has and that floats compute exactly, or two of them."""
    pick, source = g.pick, g.source()
    name, shape = g.name("cpu"), g.shape(source)
    other = pick.choice(g.alike(source))
    match pick.choice(["neg", "sub", "max", "two"]):
        case "neg":
            g.op(name, "neg", shape, [source])
        case "two":
            g.op(f"{name}_neg", "neg", shape, [source])
            g.op(name, "relu", shape, [f"{name}_neg"])
        case kind:
            g.op(name, kind, shape, [source, other])
    return g.fix(name, min(g.point_of(source), g.point_of(other)))


@grows(1)
def gate(g: Grower) -> str | None:
    """Add what squeeze-and-excitation does without its broadcast: x times a gate of it."""
    source = g.source()
    point, shape = g.point_of(source), g.shape(source)
    if not 0 <= point <= 10 or not math.prod(shape):
        return None
    name = g.name("gate")
    g.op(name, "hard-sigmoid", shape, [source])
    gated = g.fix(name, 7)
    g.maps.append(gated)
    g.op(f"{name}_mul", "mul", shape, [source, gated])
    return g.fix(f"{name}_mul", g.near(point))


@grows(2)
def repeated(g: Grower) -> str | None:
    """Add a sum or product with a map of fewer rows or columns, as squeeze-and-excitation has."""
    pick, source = g.pick, g.source()
    shape, point = g.shape(source), g.point_of(source)
    axes = pick.choice([[1, 2], [1, 2], [1], [2]])
    size = tuple(1 if axis + 1 in axes else n for axis, n in enumerate(shape))
    fitting = [n for n in g.maps if g.shape(n) == size]
    if fitting and pick.random() < 0.7:
        other = pick.choice(fitting)
    else:
        small = g.name("small")
        g.op(small, "reduction_max", size, [source], axis=axes, keep_dims=True)
        other = g.fix(small, point)
    kind, name = pick.choice(["add", "mul"]), g.name("repeated")
    if kind == "add" and not g.can_add([source, other]):
        return None
    g.op(name, kind, shape, pick.sample([source, other], 2))
    low = min(point, g.point_of(other))
    product = point + g.point_of(other)
    out = g.near(low - 1) if kind == "add" else product_point(product, pick.randint(4, 8))
    return g.finish(name, out, pick.choice([None, "relu"]))
