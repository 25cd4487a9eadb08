# SPDX-License-Identifier: Apache-2.0
"""Limits of ops that move data; a pool behind them needs the DPU."""

from limits.case import Drawing, limit


def pooled(q: Drawing, name: str) -> str:
    """Return a pool of one pixel, so that the DPU has something to compute."""
    return q.pool(name, "pool", "maxpool2d", 1, point=int(q.graph[name].fix_point))


def resized(
    q: Drawing, name: str, size: tuple, scale: list[float], mode: str, point: int = 5
) -> str:
    attrs = {"half_pixel_centers": False, "align_corners": False}
    return q.alone("resize", name, point, size, scale=scale, mode=mode, **attrs)


@limit("mirrored_pad", "up to 3 here")
def reflected_rows(q: Drawing) -> str:
    more = q.either(3)
    x = q.data(4, 5, 3)
    return pooled(q, q.alone("pad", x, 5, (4 + more, 5, 3), paddings=[0, 0, more, 0, 0, 0, 0, 0],
                             mode="REFLECT"))  # fmt: skip


@limit("mirrored_pad", "up to 5 here")
def mirrored_columns(q: Drawing) -> str:
    more = q.either(5)
    x = q.data(4, 5, 3)
    return pooled(q, q.alone("pad", x, 5, (4, 5 + more, 3), paddings=[0, 0, 0, 0, 0, more, 0, 0],
                             mode="SYMMETRIC"))  # fmt: skip


@limit("mirrored_pad", 'of channels with "mode"(SYMMETRIC) CONSTANT')
def mirrored_channels(q: Drawing) -> str:
    mode = "SYMMETRIC" if q.beyond else "CONSTANT"
    x = q.data(4, 5, 3)
    return pooled(q, q.alone("pad", x, 5, (4, 5, 4), paddings=[0] * 7 + [1], mode=mode))


@limit("resize_scale", '"scale_width"(257) up to 256')
def many_times_as_wide(q: Drawing) -> str:
    times = q.either(256)
    x = q.data(2, 2, 3)
    return pooled(q, resized(q, x, (2, 2 * times, 3), [float(times), 1.0], "NEAREST"))


@limit("resize_shift", '"shift_cut"(-1) in 0..63')
def bilinear_of_many_bits(q: Drawing) -> str:
    x = q.data(3, 3, 3, point=2)
    return pooled(q, resized(q, x, (6, 6, 3), [2.0, 2.0], "BILINEAR", q.either(4)))


@limit("row_groups", '"height"(6)', runs=False)
def rows_of_reorg(q: Drawing) -> str:
    """XIR does not say what reorg makes of a rest."""
    rows = q.either(8, 6)
    return pooled(q, q.alone("reorg", q.data(rows, 4, 3), 5, (rows // 2, 2, 12), scale=2,
                             reverse=False))  # fmt: skip


@limit("save_argmax", "does not support argmax-fix", save_argmax=False)
def argmax_without_the_option(q: Drawing) -> str:
    x = q.data(4, 5, 9)
    if not q.beyond:
        return q.pool(x, "pool", "maxpool2d", 2)
    return argmax(q, x)


@limit("reduced_channels", '"input_channel"(257) of argmax-fix up to 256')
def argmax_of_many(q: Drawing) -> str:
    x = q.data(2, 3, q.either(256))
    return argmax(q, x)


def argmax(q: Drawing, x: str) -> str:
    made = q.graph.add("op", "argmax", q.graph[pooled(q, x)].shape[:3], {"input": ["pool_fix"]},
                       {"axis": 3})  # fmt: skip
    return made.name


@limit("reduced_channels", '"input_channel"(4097) of reduction_max-fix up to 4096')
def maximum_of_many(q: Drawing) -> str:
    x = q.data(2, 2, q.either(4096))
    return pooled(q, q.alone("reduction_max", x, 5, (2, 2, 1), axis=[3], keep_dims=True))
