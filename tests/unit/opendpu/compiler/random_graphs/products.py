# SPDX-License-Identifier: Apache-2.0
"""Products of two feature maps, whose matrices lie in DDR by rows, by columns or in heads."""

import math

import numpy as np

from random_graphs.grower import PRODUCT_GROWTHS, Grower, grows

MOST_TERMS = 512
"""Of a sum of products, which float32 of the reference then holds."""


@grows(20, PRODUCT_GROWTHS)
def product(g: Grower) -> str | None:
    """Add a product of feature maps that have an axis of the same size."""
    pick, one = g.pick, g.source()
    rows, terms = _matrix(g, one)
    swapped = pick.random() < 0.2
    if swapped:
        rows, terms = terms, rows
    fitting = [
        (name, back)
        for name in g.maps
        for back, axis in ((True, 1), (False, 0))
        if _matrix(g, name)[axis] == terms
    ]
    if not fitting or terms > MOST_TERMS:
        return None
    other, back = pick.choice(fitting)
    columns = _matrix(g, other)[0 if back else 1]
    if not g.fits((rows, columns), rows * columns * terms):
        return None
    name = g.name("product")
    heads = [n for n in (2, 3, 4) if terms % n == 0] if back and not swapped else []
    factors = [_reshaped(g, n, f"{name}_{i}") for i, n in enumerate((one, other))]
    shape: tuple[int, ...] = (rows, columns)
    if heads and pick.random() < 0.5 and g.fits((heads[0] * rows, columns)):
        factors = [_in_heads(g, n, heads[0], f"{n}_heads") for n in factors]
        terms //= heads[0]
        shape = (heads[0], *shape)
    g.op(name, "matmul", shape, factors, transpose_a=swapped, transpose_b=back)
    cut = max(0, round(math.log2(92 * math.sqrt(terms))) + pick.randint(-2, 1))
    return g.finish(name, sum(map(g.point_of, factors)) - cut, pick.choice([None, None, "relu"]))


def _matrix(g: Grower, name: str) -> tuple[int, int]:
    """Return pixels and channels of a feature map."""
    height, width, channels = g.shape(name)
    return height * width, channels


def _reshaped(g: Grower, name: str, view: str) -> str:
    return g.reshape(name, view, *_matrix(g, name), point=g.point_of(name))


def _in_heads(g: Grower, name: str, heads: int, view: str) -> str:
    """Return a matrix of parts of the rows, each a head."""
    rows, channels = g.shape(name)
    point, each = g.point_of(name), channels // heads
    split = g.reshape(name, f"{view}_split", rows, heads, each, point=point)
    moved = g.op(view, "transpose", (heads, rows, each), [split], order=[0, 2, 1, 3])
    return g.fix(moved, point)


@grows(6, PRODUCT_GROWTHS)
def along_axis(g: Grower) -> str | None:
    """Multiply a constant matrix with the rows or the columns of a map, as interpolation does."""
    pick, source = g.pick, g.source()
    height, width, channels = g.shape(source)
    down = pick.random() < 0.5
    size, made = height if down else width, pick.randint(1, 20)
    shape = (made, width, channels) if down else (height, made, channels)
    if not g.fits(shape, math.prod(shape) * size):
        return None
    name = g.name("matrix")
    point = pick.randint(5, 7)
    values = (_banded(g, made, size) * 2.0**-point).astype(np.float32)
    g.graph.add(f"{name}_w", "const", values.shape, value=values)
    matrix = g.fix(f"{name}_w", point)
    if down:
        point = g.point_of(source)
        source = g.reshape(source, f"{name}_lines", height, width * channels, point=point)
    g.op(
        name, "matmul", (made, width * channels) if down else shape, [matrix, source],
        transpose_a=False, transpose_b=False,
    )  # fmt: skip
    point = g.point_of(matrix) + g.point_of(source) - pick.choice([5, 6, 6, 7])
    made_fix = g.fix(name, point)
    return g.reshape(made_fix, f"{name}_map", *shape, point=point) if down else made_fix


def _banded(g: Grower, made: int, size: int) -> np.ndarray:
    """Return numbers of which each row has some neighbours; rows now and then repeat."""
    pick, matrix = g.pick, np.zeros((made, size))
    taps, step = pick.randint(1, 4), pick.choice([0.3, 0.5, 1, 1.4, 2])
    period = pick.choice([1, 2, 3, made])
    numbers = [[pick.randint(-20, 40) for _ in range(taps)] for _ in range(period)]
    for row in range(made):
        for tap, number in enumerate(numbers[row % period]):
            matrix[row, min(size - 1, int(row * step) + tap)] += number
    return np.clip(matrix, -128, 127)
