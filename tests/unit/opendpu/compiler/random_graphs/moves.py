# SPDX-License-Identifier: Apache-2.0
"""Random ops that only move data."""

import math

from random_graphs.grower import Grower, grows


@grows(5)
def concat(g: Grower) -> str | None:
    pick, source = g.pick, g.source()
    axis = pick.choice([0, 1, 2, 2, 2, 2])
    shape = g.shape(source)
    fitting = [
        n for n in g.maps
        if all(a == axis or g.shape(n)[a] == shape[a] for a in range(3))
    ]  # fmt: skip
    parts = [source, *pick.choices(fitting, k=pick.randint(1, 3))]
    pick.shuffle(parts)
    size = list(shape)
    size[axis] = sum(g.shape(n)[axis] for n in parts)
    if not g.fits(tuple(size)):
        return None
    name = g.name("concat")
    g.op(name, "concat", tuple(size), parts, axis=pick.choice([axis + 1, axis - 3]))
    points = [g.point_of(n) for n in parts]
    return g.fix(name, pick.choice([min(points), pick.choice(points), g.near(max(points))]))


@grows(2)
def reshape(g: Grower) -> str | None:
    """Add a view of the same bytes with other axes."""
    pick, source = g.pick, g.pick.choice([*g.maps, *g.flat])
    rest, size = math.prod(g.shape(source)), []
    for _ in range(pick.randint(0, 2)):
        size.append(pick.choice([n for n in range(1, min(rest, 40) + 1) if rest % n == 0]))
        rest //= size[-1]
    size.append(rest)
    pick.shuffle(size)
    return g.reshape(source, g.name("reshape"), *size, point=g.near(g.point_of(source)))


@grows(2)
def cut(g: Grower) -> str | None:
    """Add a slice with steps."""
    pick, source = g.pick, g.source()
    begin, end, strides, size = [0], [1], [1], []
    for there in g.shape(source):
        step = pick.choice([1, 1, 1, 2, 3])
        first = pick.randrange(there) if pick.random() < 0.4 else 0
        last = pick.randint(first + 1, there) if pick.random() < 0.4 else there
        begin.append(first)
        end.append(last)
        strides.append(step)
        size.append(-(-(last - first) // step))
    name = g.name("slice")
    attrs = {"begin": begin, "end": end, "strides": strides}
    g.op(name, "strided_slice", tuple(size), [source], **attrs)
    return g.fix(name, g.near(g.point_of(source)))


@grows(2)
def pad(g: Grower) -> str | None:
    pick, source = g.pick, g.source()
    shape = g.shape(source)
    mode = pick.choice(["CONSTANT", "CONSTANT", "SYMMETRIC", "REFLECT"])
    amounts = [0, 0]
    for axis, there in enumerate(shape):
        most = min(4, there - (mode == "REFLECT"))
        most = 0 if axis == 2 and (mode != "CONSTANT" or pick.random() < 0.8) else most
        amounts += [pick.randint(0, most), pick.randint(0, most)]
    size = tuple(n + sum(amounts[2 * a + 2 : 2 * a + 4]) for a, n in enumerate(shape))
    if not g.fits(size):
        return None
    name, point = g.name("pad"), g.point_of(source)
    attrs: dict = {"paddings": amounts, "mode": mode}
    if mode == "CONSTANT":
        attrs["constant_values"] = [pick.choice([0, 0, 0, 5, -9]) * 2.0**-point] * 8
    g.op(name, "pad", size, [source], **attrs)
    return g.fix(name, pick.choice([point, point, g.near(point)]))


@grows(2)
def resize(g: Grower) -> str | None:
    pick, source = g.pick, g.source()
    height, width, channels = g.shape(source)
    mode = pick.choice(["NEAREST", "NEAREST", "BILINEAR"])
    scale = [float(pick.choice([1, 2, 2, 3, 4])) for _ in range(2)]
    if mode == "BILINEAR":
        scale = [float(pick.choice([1, 2, 2, 4])) for _ in range(2)]
    size = (int(height * scale[1]), int(width * scale[0]), channels)
    if not g.fits(size):
        return None
    name = g.name("resize")
    half = mode == "BILINEAR" and pick.random() < 0.5
    g.op(
        name, "resize", size, [source], mode=mode, scale=scale, half_pixel_centers=half,
        align_corners=False,
    )  # fmt: skip
    return g.fix(name, g.near(g.point_of(source)))


@grows(1)
def transpose(g: Grower) -> str | None:
    """Exchange rows and columns, or all axes."""
    pick, source = g.pick, g.source()
    shape = (1, *g.shape(source))
    order = pick.choice([[0, 2, 1, 3], [0, 2, 1, 3], [0, 3, 1, 2], [0, 2, 3, 1]])
    name = g.name("transpose")
    g.op(name, "transpose", tuple(shape[a] for a in order[1:]), [source], order=order)
    return g.fix(name, g.near(g.point_of(source)))


@grows(3)
def blocks(g: Grower) -> str | None:
    """Trade blocks of pixels for channels, or back."""
    pick, source = g.pick, g.source()
    kind = pick.choice(["gstiling", "reorg", "pixel-shuffle"])
    size, back = pick.choice([2, 2, 3]), pick.random() < 0.5
    height, width, channels = g.shape(source)
    if back:
        parts = 1 if channels % size**2 else size**2
        if parts == 1 or (kind == "reorg" and height % size):
            return None
        made = (height * size, width * size, channels // parts)
    else:
        if height % (size**2 if kind == "reorg" else size) or width % size:
            return None
        made = (height // size, width // size, channels * size**2)
    if not g.fits(made):
        return None
    attrs = {
        "gstiling": {"stride": size, "reverse": back}, "reorg": {"scale": size, "reverse": back},
        "pixel-shuffle": {"scale": size, "upscale": back},
    }[kind]  # fmt: skip
    name = g.name(kind)
    g.op(name, kind, made, [source], **attrs)
    return g.fix(name, g.near(g.point_of(source)))
