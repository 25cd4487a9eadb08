# SPDX-License-Identifier: Apache-2.0
"""Random ALU in every mode."""

from opendpu_arch import isa
from opendpu_arch.isa import AluMode
from opendpu_arch.legal import SCALED_MODES
from opendpu_sim.progen.builder import Builder
from opendpu_sim.progen.geometry import (
    KERNELS,
    TRIES,
    Geometry,
    activation,
    addresses,
    channel_offset,
    geometry,
    pads_of,
    repeat,
    results,
    shift,
    small,
    table,
)


def alu(b: Builder, modes: tuple[AluMode, ...]) -> None:
    """Append an ALUINIT in one of ``modes`` and one or more ALUs."""
    rng, target = b.rng, b.target
    for _ in range(TRIES):
        mode = rng.choice(modes)
        pointwise = mode in (AluMode.PRELU, AluMode.LEAKYRELU, AluMode.HSIGMOID)
        kernel = (1, 1) if pointwise else (rng.choice((*KERNELS, 11, 20)), rng.choice(KERNELS))
        strides = 1 if pointwise else 9
        g = geometry(b, kernel=kernel, strides=strides, out_groups=0, strides_out=4)
        if g is None:
            continue
        taps = kernel[0] * kernel[1]
        words = 2 * g.groups if mode == AluMode.DWCVW16B0 else g.groups
        jump_weights = rng.choice((words, words + rng.randrange(3), rng.randrange(3)))
        span = (taps - 1) * jump_weights + words
        weighted = mode in (AluMode.DWCV, AluMode.DWCVB0, AluMode.DWCVW16B0, AluMode.PRELU)
        if weighted and max(span, words) > b.weight_words:
            continue
        shift_cut = rng.choice((8, rng.randrange(6, 14), rng.randrange(64)))
        if mode in (AluMode.DWCV, AluMode.DWCVB0, AluMode.DWCVW16B0):
            shift_cut = shift(b, taps) + (8 if mode == AluMode.DWCVW16B0 else 0)
        elif mode == AluMode.HSIGMOID:
            shift_cut = rng.choice((rng.randrange(64), rng.randrange(10, 24)))
        elif mode == AluMode.AVEPOOL:
            shift_cut = rng.choice((14 + taps.bit_length(), rng.randrange(64)))
        init = isa.AluInit(
            exec_mode=mode,
            kernel_h=kernel[0],
            kernel_w=kernel[1],
            stride_h=g.stride_h,
            stride_w=g.stride_w,
            stride_offset_in=small(b, g.stride_h),
            stride_offset_out=small(b, g.stride_out),
            stride_out=g.stride_out,
            channel_group=g.groups,
            channel_offset=channel_offset(b),
            length=g.length,
            shift_prelu_p=rng.choice((0, 32, rng.randrange(64), rng.randrange(32, 36))),
            shift_prelu_n=rng.choice((32, rng.randrange(64), rng.randrange(36, 44))),
            act_type=activation(b, target.alu_leaky_relu),
            shift_bias=rng.choice((rng.randrange(21), rng.randrange(12))),
            shift_cut=min(shift_cut, 63),
            multi_factor=rng.choice((1, rng.randrange(256), rng.randrange(128))),
            jump_read=g.jump_read,
            jump_read_endl=g.jump_read_endl,
            jump_read_weights=jump_weights,
            jump_write=g.jump_write,
            jump_write_endl=g.jump_write_endl,
        )
        rows = rng.choice(
            (target.alu_pixel_parallel, rng.randrange(1, target.alu_pixel_parallel + 1))
        )

        def make(
            g: Geometry = g, span: int = max(span, words), rows: int = rows, mode: AluMode = mode
        ) -> isa.Alu:
            pads = pads_of(b, g, 15, 255)
            return isa.Alu(
                **pads,
                **addresses(b, g, pads["pad_left"], 14),
                valid_pixel_parallel=rows,
                bank_addr_weights=b.address(
                    b.weights, b.weight_words, min(span, b.weight_words), bits=14
                ),
                table=table(b),
                **results(b, g.groups, 14, scaled=mode in SCALED_MODES),
            )

        if b.add(init):
            repeat(b, make)
            return
    raise AssertionError("no legal ALU found")
