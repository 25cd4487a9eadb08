# SPDX-License-Identifier: Apache-2.0
"""Random MISC instructions: mostly legal, with every field in play."""

import dataclasses

from opendpu_arch import isa
from opendpu_arch.isa import ActType, AluMode, ElewType, PoolType

DEPTHWISE = (AluMode.DWCV, AluMode.DWCVB0, AluMode.DWCVW16B0)
POOLING = (AluMode.AVEPOOL, AluMode.MAXPOOL, AluMode.MAXREDUCE)
POINTWISE = (AluMode.PRELU, AluMode.LEAKYRELU, AluMode.HSIGMOID)


def _activation(target, rng):
    leaky = [ActType.LEAKYRELU] if target.alu_leaky_relu else []
    return rng.choice([ActType.NONE, ActType.RELU, ActType.RELU6, *leaky])


def _kernel(rng, most=4):
    return rng.choice((1, 2, 3, 3, 3, rng.randint(1, most), rng.randint(1, most)))


def _places(target, rng, addresses):
    names = ("bank_addr_in", "bank_addr_in_1", "bank_addr_in_2", "bank_addr_in_3", "bank_addr_out")
    return {
        "bank_id_in": rng.randrange(target.image_banks),
        "bank_id_out": rng.randrange(target.image_banks),
        **{name: addresses() for name in names},
    }


def alu(target, rng, modes=tuple(AluMode)):
    """Draw ALUINIT and ALU."""
    mode = rng.choice(modes)
    one = mode in POINTWISE
    kh, kw = (1, 1) if one else (_kernel(rng), _kernel(rng))
    sh, sw = (1, 1) if one else (rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2, 3)))
    if rng.random() < 0.05 and not one:
        kh, kw = rng.randint(1, 12), rng.randint(1, 12)
    if rng.random() < 0.15 and not one:
        kh, kw, sh, sw = 3, 3, 2, 2
    so = rng.choice((1, 1, 2, 3))
    groups = rng.choice((1, 1, 2, 3))
    init = isa.AluInit(
        exec_mode=mode,
        kernel_h=kh,
        kernel_w=kw,
        stride_h=sh,
        stride_w=sw,
        stride_offset_in=rng.randrange(sh),
        stride_offset_out=rng.randrange(so),
        stride_out=so,
        channel_group=groups,
        channel_offset=rng.choice((0, rng.randrange(target.channel_parallel))),
        length=rng.randint(1, 7),
        shift_prelu_p=rng.choice((0, 1, 32, 33, 35, rng.randrange(64))),
        act_type=_activation(target, rng),
        shift_bias=rng.choice((0, 3, 8, rng.randrange(21))),
        shift_cut=rng.choice((5, 8, 9, 12, 14, 15, rng.randrange(64))),
        shift_prelu_n=rng.choice((36, 38, 40, rng.randrange(64))),
        multi_factor=rng.randrange(256),
        jump_read=groups + rng.choice((0, 0, 2)),
        jump_read_endl=rng.randint(1, 8192),
        jump_read_weights=rng.choice((groups, rng.randrange(512))),
        jump_write=groups + rng.choice((0, 0, 2)),
        jump_write_endl=rng.randint(1, 8192),
    )
    last = isa.Alu(
        **_places(target, rng, lambda: rng.randrange(1 << 14)),
        valid_pixel_parallel=rng.randint(1, target.alu_pixel_parallel),
        pad_left=rng.choice((0, 1, rng.randrange(4))),
        pad_top=rng.choice((0, 1, rng.randrange(4))),
        pad_right=rng.choice((255, max(kw - 2, 0), rng.randrange(5))),
        pad_bottom=rng.choice((255, max(kh - 2, 0), rng.randrange(5))),
        kernel_d=1,
        bank_addr_weights=rng.randrange(1 << 14),
        bank_addr_bias=rng.randrange(1 << 14),
    )
    return [init, last]


def depthwise_alu(target, rng):
    return alu(target, rng, DEPTHWISE)


def pooling_alu(target, rng):
    return alu(target, rng, POOLING)


def pointwise_alu(target, rng):
    return alu(target, rng, POINTWISE)


def dptwise(target, rng):
    """Draw DWINIT and DPTWISE."""
    kh, kw = _kernel(rng), _kernel(rng)
    sh, sw = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2, 3))
    so = rng.choice((1, 1, 2))
    groups = rng.choice((1, 1, 2, 3))
    init = isa.DwInit(
        jump_read=groups + rng.choice((0, 2)),
        jump_read_endl=rng.randint(1, 1024),
        stride_offset_in=rng.randrange(sh),
        valid_pixel_parallel=rng.randint(1, target.pixel_parallel),
        stride_w=sw,
        stride_h=sh,
        kernel_w=kw,
        kernel_h=kh,
        jump_write_endl=rng.randint(1, 1024),
        jump_write=groups + rng.choice((0, 2)),
        stride_out=so,
        stride_offset_out=rng.randrange(so),
        shift_bias=rng.choice((0, 3, 8, rng.randrange(21))),
        shift_cut=rng.choice((5, 8, 9, rng.randrange(64))),
    )
    last = isa.DptWise(
        **_places(target, rng, lambda: rng.randrange(1 << 12)),
        channel_group=groups,
        pad_left=rng.randrange(3),
        pad_top=rng.randrange(3),
        pad_right=rng.choice((15, rng.randrange(4))),
        pad_bottom=rng.choice((15, rng.randrange(4))),
        act_type=_activation(target, rng),
        length=rng.randint(1, 7),
        bank_addr_weights=rng.randrange(1 << 12),
        bank_addr_bias=rng.randrange(1 << 12),
        channel_offset=rng.choice((0, rng.randrange(target.channel_parallel))),
    )
    return [init, last]


def pool(target, rng):
    """Draw POOLINIT and POOL."""
    kind = rng.choice(tuple(PoolType))
    kh, kw = _kernel(rng, 8), _kernel(rng, 8)
    if kind == PoolType.AVERAGE and rng.random() < 0.8:
        kh = kw
    sh, sw = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2, 3))
    down = rng.choice((1, 2, 3)), rng.choice((1, 2, 3))
    so = rng.choice((1, 1, 2))
    groups = rng.choice((1, 1, 2, 3))
    init = isa.PoolInit(
        shift_cut=rng.choice((0, 8, 9, rng.randrange(16))),
        kernel_w=kw,
        kernel_h=kh,
        jump_read=groups + rng.choice((0, 2)),
        jump_write=groups + rng.choice((0, 2)),
        stride_out=so,
        stride_offset_out=rng.randrange(so),
        valid_pixel_parallel=rng.randint(1, target.pixel_parallel),
        stride_offset_in=rng.randrange(min(sh, down[0])),
        stride_w=sw,
        stride_h=sh,
        pool_type=kind,
    )
    last = isa.Pool(
        **_places(target, rng, lambda: rng.randrange(1 << 12)),
        channel_group=groups,
        jump_write_endl=rng.randint(1, 4096),
        pad_left=rng.randrange(3),
        pad_top=rng.randrange(3),
        pad_right=rng.choice((7, rng.randrange(4))),
        pad_bottom=rng.choice((7, rng.randrange(4))),
        jump_read_endl=rng.randint(1, 4096),
        length=rng.randint(1, 6),
        downsample_kernel_w=down[1],
        downsample_kernel_h=down[0],
    )
    return [init, last]


def elew(target, rng):
    """Draw ELEWINITs and ELEW."""
    kind = rng.choice(tuple(ElewType))
    inputs = 2 if kind == ElewType.MULT else rng.randint(1, 4)
    rows = rng.randint(1, target.alu_pixel_parallel)
    groups = rng.choice((1, 1, 2, 3))
    entries = [
        isa.ElewInit(
            bank_id_in=rng.randrange(target.image_banks),
            share_pp=rng.random() < 0.2,
            jump_bank=rng.choice((1, 1, 2, rng.randint(1, 8))),
            id=n,
            jump_read_endl=rng.randint(1, 8192),
            bank_addr_in=rng.randrange(1 << 14),
            shift_read=rng.choice((0, 1, 2, rng.randrange(16))),
            jump_read=rng.choice((0, groups, groups, rng.randrange(1 << 12))),
        )
        for n in range(inputs)
    ]
    last = isa.Elew(
        bank_id_out=rng.randrange(target.image_banks),
        elew_type=kind,
        act_type=rng.randrange(2),
        length=rng.randint(1, 9),
        valid_pixel_parallel=rows,
        num=inputs,
        jump_write_endl=rng.randint(1, 8192),
        bank_addr_out=rng.randrange(1 << 14),
        channel_group=groups,
        shift_write=rng.choice((0, 1, 16, 17, 20, rng.randrange(32))),
        jump_write=groups + rng.choice((0, 2)),
    )
    return [*entries, last]


def anything(target, rng):
    """Draw any of them."""
    return rng.choice((alu, alu, alu, dptwise, pool, elew))(target, rng)


def crowded(target, rng):
    """Draw any of them, close together: instructions read what the ones before wrote."""
    return [
        dataclasses.replace(
            i,
            **{
                f.name: getattr(i, f.name) % 40
                for f in dataclasses.fields(i)
                if f.name.startswith("bank_addr_") and "weights" not in f.name
            },
        )
        for i in anything(target, rng)
    ]


def windows(target, rng):
    """Draw ALU, DPTWISE or POOL with 3 wide kernels of up to 3 rows and stride 1."""
    sequence = rng.choice((depthwise_alu, pooling_alu, dptwise, pool))(target, rng)
    names = {"kernel_h": rng.randint(1, 3), "kernel_w": 3, "stride_h": 1, "stride_w": 1}
    return [
        dataclasses.replace(
            sequence[0], **names, stride_offset_in=0, channel_group=rng.randint(1, 3)
        )
        if isinstance(sequence[0], isa.AluInit)
        else dataclasses.replace(sequence[0], **names, stride_offset_in=0),
        sequence[1],
    ]
