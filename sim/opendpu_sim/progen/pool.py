# SPDX-License-Identifier: Apache-2.0
"""Random POOL."""

import dataclasses

from opendpu_arch import isa
from opendpu_arch.isa import PoolType
from opendpu_sim.progen.builder import Builder
from opendpu_sim.progen.geometry import (
    TRIES,
    Geometry,
    addresses,
    geometry,
    pads_of,
    repeat,
    small,
    table,
)


def pool(b: Builder) -> None:
    """Append a POOLINIT and one or more POOLs."""
    rng, target = b.rng, b.target
    for _ in range(TRIES):
        kind = rng.choice(tuple(PoolType))
        kernel = (rng.randrange(1, 9), rng.randrange(1, 9))
        g = geometry(b, kernel=kernel, strides=8, out_groups=0, strides_out=4)
        if g is None:
            continue
        if kind == PoolType.MAX_REDUCE:  # needs room for stride_h = kernel_h rows a bank
            columns = g.length * kernel[1]
            row = (columns - 1) * g.jump_read + g.groups
            endl = (b.image_words - row) // max(1, kernel[0] - 1)
            if endl < 1:
                continue
            g = dataclasses.replace(
                g,
                stride_h=kernel[0],
                jump_read_endl=min(endl, row),
                span_in=(kernel[0] - 1) * min(endl, row) + row,
            )
        init = isa.PoolInit(
            pool_type=kind,
            shift_cut=rng.choice((0, 8, rng.randrange(16), rng.randrange(8, 11))),
            kernel_h=kernel[0],
            kernel_w=kernel[1],
            stride_h=g.stride_h,
            stride_w=g.stride_w,
            stride_offset_in=small(b, g.stride_h),
            stride_offset_out=small(b, g.stride_out),
            stride_out=g.stride_out,
            jump_read=g.jump_read,
            jump_write=g.jump_write,
            valid_pixel_parallel=rng.randrange(1, target.pixel_parallel + 1),
        )

        def make(g: Geometry = g, kernel: tuple[int, int] = kernel) -> isa.Pool:
            pads = pads_of(b, g, 7, 7)
            return isa.Pool(
                **pads,
                **addresses(b, g, pads["pad_left"], 12),
                channel_group=g.groups,
                length=g.length,
                jump_read_endl=g.jump_read_endl,
                jump_write_endl=g.jump_write_endl,
                downsample_kernel_h=kernel[0],
                downsample_kernel_w=kernel[1],
                table=table(b),
            )

        if b.add(init):
            repeat(b, make)
            return
    raise AssertionError("no legal POOL found")
