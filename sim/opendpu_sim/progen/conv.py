# SPDX-License-Identifier: Apache-2.0
"""Random CONV and DPTWISE."""

from opendpu_arch import isa
from opendpu_sim.progen.builder import Builder
from opendpu_sim.progen.geometry import (
    KERNELS,
    TRIES,
    Geometry,
    activation,
    addresses,
    channel_offset,
    channel_shift,
    geometry,
    pads_of,
    repeat,
    results,
    shift,
    small,
    table,
)


def conv(b: Builder) -> None:
    """Append a CONVINIT and one or more CONVs."""
    rng, target = b.rng, b.target
    for _ in range(TRIES):
        kernel = (rng.choice(KERNELS), rng.choice(KERNELS))
        g = geometry(b, kernel=kernel, strides=8, out_groups=1, strides_out=4)
        if g is None or kernel[0] * kernel[1] * g.groups > b.weight_words:
            continue
        count = kernel[0] * kernel[1] * g.groups
        init = isa.ConvInit(
            act_type=activation(b, target.conv_leaky_relu),
            shift_cut=shift(b, count * b.lanes),
            shift_bias=rng.choice((rng.randrange(21), rng.randrange(12))),
            zero_in=rng.randrange(256) if b.records else 0,
            jump_read=g.jump_read,
            jump_read_endl=g.jump_read_endl,
            jump_write=g.jump_write,
            jump_write_endl=g.jump_write_endl,
            stride_out=g.stride_out,
            stride_offset_out=small(b, g.stride_out),
            stride_h=g.stride_h,
            stride_w=g.stride_w,
            stride_offset_in=small(b, g.stride_h),
            kernel_h=kernel[0],
            kernel_w=kernel[1],
            valid_pixel_parallel=rng.choice(
                (target.pixel_parallel, rng.randrange(1, target.pixel_parallel + 1))
            ),
        )

        def make(g: Geometry = g, count: int = count) -> isa.Conv:
            pads = pads_of(b, g, 15, 15)
            return isa.Conv(
                **pads,
                **addresses(b, g, pads["pad_left"], 12),
                channel_group=g.groups,
                channel_offset=channel_offset(b),
                length=g.length,
                bank_addr_weights=b.address(b.weights, b.weight_words, count),
                table=table(b),
                **results(b, 1, 12),
            )

        if b.add(init):
            repeat(b, make)
            return
    raise AssertionError("no legal CONV found")


def dptwise(b: Builder) -> None:
    """Append a DWINIT and one or more DPTWISEs."""
    rng, target = b.rng, b.target
    for _ in range(TRIES):
        kernel = (rng.choice(KERNELS), rng.choice(KERNELS))
        g = geometry(b, kernel=kernel, strides=16, out_groups=0, strides_out=4)
        if g is None or kernel[0] * kernel[1] * g.groups > b.weight_words:
            continue
        taps = kernel[0] * kernel[1]
        init = isa.DwInit(
            shift_cut=shift(b, taps),
            shift_bias=rng.randrange(21),
            jump_read=g.jump_read,
            jump_read_endl=g.jump_read_endl,
            jump_write=g.jump_write,
            jump_write_endl=g.jump_write_endl,
            stride_out=g.stride_out,
            stride_offset_out=small(b, g.stride_out),
            stride_h=g.stride_h,
            stride_w=g.stride_w,
            stride_offset_in=small(b, g.stride_h),
            kernel_h=kernel[0],
            kernel_w=kernel[1],
            valid_pixel_parallel=rng.randrange(1, target.pixel_parallel + 1),
        )
        act = activation(b, target.alu_leaky_relu)

        def make(g: Geometry = g, taps: int = taps, act: int = act) -> isa.DptWise:
            pads = pads_of(b, g, 15, 15)
            return isa.DptWise(
                **pads,
                **addresses(b, g, pads["pad_left"], 12),
                act_type=act,
                channel_group=g.groups,
                channel_offset=channel_offset(b),
                length=g.length,
                bank_addr_weights=b.address(b.weights, b.weight_words, taps * g.groups),
                bank_addr_bias=b.address(b.weights, b.weight_words, g.groups),
                table=table(b),
                channel_shift=channel_shift(b),
            )

        if b.add(init):
            repeat(b, make)
            return
    raise AssertionError("no legal DPTWISE found")
