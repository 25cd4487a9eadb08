# SPDX-License-Identifier: Apache-2.0
"""Random CONV, ALU, POOL, DPTWISE and ELEW inside the window of a builder."""

import dataclasses
from typing import Any

from opendpu_arch import isa
from opendpu_arch.isa import ActType, AluMode, PoolType
from opendpu_sim.progen.builder import Builder

TRIES = 2000
KERNELS = (1, 1, 1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 16)


@dataclasses.dataclass
class Geometry:
    """Sizes of one walk that fit in the window."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    length: int
    groups: int
    jump_read: int
    jump_read_endl: int
    jump_write: int
    jump_write_endl: int
    stride_out: int
    span_in: int
    """Words that the rows of one bank take up, padding left of base included."""
    span_out: int


def _geometry(
    b: Builder, *, kernel: tuple[int, int], strides: int, out_groups: int, strides_out: int
) -> Geometry | None:
    """Return sizes, or None if the kernel does not fit; ``out_groups`` 0: as many as are read."""
    rng = b.rng
    kernel_h, kernel_w = kernel
    stride_h, stride_w = (
        min(strides, rng.choice((1, 1, 2, k, rng.randrange(1, strides + 1)))) for k in kernel
    )
    groups = rng.choice((1, 1, 2, 3, rng.randrange(1, 9)))
    jump_read = rng.choice((groups, groups, groups + rng.randrange(3), rng.randrange(1, 6)))
    most = ((b.image_words - groups) // jump_read + 1 - kernel_w) // stride_w + 1
    if most < 1:
        return None
    length = rng.choice((1, rng.randrange(1, most + 1), min(most, rng.randrange(1, 9))))
    columns = (length - 1) * stride_w + kernel_w
    row = (columns - 1) * jump_read + groups
    endl = rng.choice((row, rng.randrange(1, row + 3)))
    if stride_h > 1:
        endl = min(endl, (b.image_words - row) // (stride_h - 1))
    out = out_groups or groups
    jump_write = rng.choice((out, out, out + rng.randrange(3)))
    stride_out = rng.choice((1, 1, 2, rng.randrange(1, strides_out + 1)))
    out_row = (length - 1) * jump_write + out
    write_endl = out_row + rng.choice((0, 0, 1, 5))
    span_out = (2 * stride_out - 1) * write_endl + out_row
    if endl < 1 or span_out > b.image_words:
        return None
    return Geometry(
        kernel_h=kernel_h,
        kernel_w=kernel_w,
        stride_h=stride_h,
        stride_w=stride_w,
        length=length,
        groups=groups,
        jump_read=jump_read,
        jump_read_endl=endl,
        jump_write=jump_write,
        jump_write_endl=write_endl,
        stride_out=stride_out,
        span_in=(stride_h - 1) * endl + row,
        span_out=span_out,
    )


def _addresses(b: Builder, g: Geometry, pad_left: int, bits: int) -> dict[str, Any]:
    """Return the banks and addresses of an instruction; pad_left columns lie before the base."""
    first = pad_left * g.jump_read if b.rng.random() < 0.7 else 0
    bases = [b.alias(b.address(b.image, b.image_words, g.span_in) - first, bits) for _ in range(4)]
    return {
        "bank_id_in": b.rng.randrange(b.target.image_banks),
        "bank_addr_in": bases[0],
        "bank_addr_in_1": bases[1],
        "bank_addr_in_2": bases[2],
        "bank_addr_in_3": bases[3],
        "bank_id_out": b.rng.randrange(b.target.image_banks),
        "bank_addr_out": b.address(b.image, b.image_words, g.span_out, bits=bits),
    }


def _pads(b: Builder, g: Geometry, start: int, end: int) -> dict[str, Any]:
    """Return random pads; ``start`` and ``end`` are the largest values of the fields.

    Right and bottom hold kernel - 1 - padding, so large values mean none.
    """
    rng = b.rng
    if rng.random() < 0.3:
        return {"pad_left": 0, "pad_top": 0, "pad_right": end, "pad_bottom": end}
    return {
        "pad_left": rng.randrange(min(start, g.kernel_w + 1) + 1),
        "pad_top": rng.randrange(min(start, g.kernel_h + 1) + 1),
        "pad_right": rng.choice((end, rng.randrange(min(end, g.kernel_w) + 1))),
        "pad_bottom": rng.choice((end, rng.randrange(min(end, g.kernel_h) + 1))),
    }


def _shift(b: Builder, products: int) -> int:
    """Return a shift that leaves a sum of random products mostly in range, or any."""
    good = 6 + (products.bit_length() + 1) // 2
    return b.rng.choice((max(0, good + b.rng.randrange(-3, 4)), b.rng.randrange(64)))


def _act(b: Builder, leaky: bool) -> int:
    allowed = [ActType.NONE, ActType.RELU, ActType.RELU6]
    return b.rng.choice([*allowed, ActType.LEAKYRELU] if leaky else allowed)


def _offset(b: Builder) -> int:
    """Return a channel offset: none or some."""
    return b.rng.choice((0, b.rng.randrange(b.lanes)))


def _small(b: Builder, count: int) -> int:
    """Return an offset below ``count`` and below 8."""
    return b.rng.randrange(min(count, 8))


def _repeat(b: Builder, make: Any) -> None:
    """Append one to three instructions under the same INIT; ``make`` returns a fresh one."""
    wanted = b.rng.choice((1, 1, 2, 3))
    for _ in range(TRIES):
        if not wanted:
            return
        wanted -= b.add(make())


def conv(b: Builder) -> None:
    """Append a CONVINIT and one or more CONVs."""
    rng, target = b.rng, b.target
    for _ in range(TRIES):
        kernel = (rng.choice(KERNELS), rng.choice(KERNELS))
        g = _geometry(b, kernel=kernel, strides=8, out_groups=1, strides_out=4)
        if g is None or kernel[0] * kernel[1] * g.groups > b.weight_words:
            continue
        count = kernel[0] * kernel[1] * g.groups
        init = isa.ConvInit(
            act_type=_act(b, target.conv_leaky_relu),
            shift_cut=_shift(b, count * b.lanes),
            shift_bias=rng.choice((rng.randrange(21), rng.randrange(12))),
            jump_read=g.jump_read,
            jump_read_endl=g.jump_read_endl,
            jump_write=g.jump_write,
            jump_write_endl=g.jump_write_endl,
            stride_out=g.stride_out,
            stride_offset_out=_small(b, g.stride_out),
            stride_h=g.stride_h,
            stride_w=g.stride_w,
            stride_offset_in=_small(b, g.stride_h),
            kernel_h=kernel[0],
            kernel_w=kernel[1],
            valid_pixel_parallel=rng.choice(
                (target.pixel_parallel, rng.randrange(1, target.pixel_parallel + 1))
            ),
        )

        def make(g: Geometry = g, count: int = count) -> isa.Conv:
            pads = _pads(b, g, 15, 15)
            return isa.Conv(
                **pads,
                **_addresses(b, g, pads["pad_left"], 12),
                channel_group=g.groups,
                channel_offset=_offset(b),
                length=g.length,
                bank_addr_weights=b.address(b.weights, b.weight_words, count),
                bank_addr_bias=b.address(b.weights, b.weight_words, 1),
            )

        if b.add(init):
            _repeat(b, make)
            return
    raise AssertionError("no legal CONV found")


def _alu(b: Builder, modes: tuple[AluMode, ...]) -> None:
    """Append an ALUINIT in one of ``modes`` and one or more ALUs."""
    rng, target = b.rng, b.target
    for _ in range(TRIES):
        mode = rng.choice(modes)
        pointwise = mode in (AluMode.PRELU, AluMode.LEAKYRELU, AluMode.HSIGMOID)
        kernel = (1, 1) if pointwise else (rng.choice((*KERNELS, 11, 20)), rng.choice(KERNELS))
        strides = 1 if pointwise else 9
        g = _geometry(b, kernel=kernel, strides=strides, out_groups=0, strides_out=4)
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
            shift_cut = _shift(b, taps) + (8 if mode == AluMode.DWCVW16B0 else 0)
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
            stride_offset_in=_small(b, g.stride_h),
            stride_offset_out=_small(b, g.stride_out),
            stride_out=g.stride_out,
            channel_group=g.groups,
            channel_offset=_offset(b),
            length=g.length,
            shift_prelu_p=rng.choice((0, 32, rng.randrange(64), rng.randrange(32, 36))),
            shift_prelu_n=rng.choice((32, rng.randrange(64), rng.randrange(36, 44))),
            act_type=_act(b, target.alu_leaky_relu),
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

        def make(g: Geometry = g, span: int = max(span, words), rows: int = rows) -> isa.Alu:
            pads = _pads(b, g, 15, 255)
            return isa.Alu(
                **pads,
                **_addresses(b, g, pads["pad_left"], 14),
                valid_pixel_parallel=rows,
                bank_addr_weights=b.address(
                    b.weights, b.weight_words, min(span, b.weight_words), bits=14
                ),
                bank_addr_bias=b.address(b.weights, b.weight_words, g.groups, bits=14),
            )

        if b.add(init):
            _repeat(b, make)
            return
    raise AssertionError("no legal ALU found")


def misc(b: Builder) -> None:
    """Append PRELU, LEAKYRELU or HSIGMOID."""
    _alu(b, (AluMode.PRELU, AluMode.LEAKYRELU, AluMode.HSIGMOID))


def dwconv(b: Builder) -> None:
    """Append a depthwise convolution: ALU or DPTWISE."""
    if b.rng.random() < 0.7:
        _alu(b, (AluMode.DWCV, AluMode.DWCV, AluMode.DWCVB0, AluMode.DWCVW16B0))
        return
    rng, target = b.rng, b.target
    for _ in range(TRIES):
        kernel = (rng.choice(KERNELS), rng.choice(KERNELS))
        g = _geometry(b, kernel=kernel, strides=16, out_groups=0, strides_out=4)
        if g is None or kernel[0] * kernel[1] * g.groups > b.weight_words:
            continue
        taps = kernel[0] * kernel[1]
        init = isa.DwInit(
            shift_cut=_shift(b, taps),
            shift_bias=rng.randrange(21),
            jump_read=g.jump_read,
            jump_read_endl=g.jump_read_endl,
            jump_write=g.jump_write,
            jump_write_endl=g.jump_write_endl,
            stride_out=g.stride_out,
            stride_offset_out=_small(b, g.stride_out),
            stride_h=g.stride_h,
            stride_w=g.stride_w,
            stride_offset_in=_small(b, g.stride_h),
            kernel_h=kernel[0],
            kernel_w=kernel[1],
            valid_pixel_parallel=rng.randrange(1, target.pixel_parallel + 1),
        )
        act = _act(b, target.alu_leaky_relu)

        def make(g: Geometry = g, taps: int = taps, act: int = act) -> isa.DptWise:
            pads = _pads(b, g, 15, 15)
            return isa.DptWise(
                **pads,
                **_addresses(b, g, pads["pad_left"], 12),
                act_type=act,
                channel_group=g.groups,
                channel_offset=_offset(b),
                length=g.length,
                bank_addr_weights=b.address(b.weights, b.weight_words, taps * g.groups),
                bank_addr_bias=b.address(b.weights, b.weight_words, g.groups),
            )

        if b.add(init):
            _repeat(b, make)
            return
    raise AssertionError("no legal DPTWISE found")


def pool(b: Builder) -> None:
    """Append a pooling: ALU or POOL."""
    if b.rng.random() < 0.7:
        _alu(b, (AluMode.AVEPOOL, AluMode.MAXPOOL, AluMode.MAXREDUCE))
        return
    rng, target = b.rng, b.target
    for _ in range(TRIES):
        kind = rng.choice(tuple(PoolType))
        kernel = (rng.randrange(1, 9), rng.randrange(1, 9))
        g = _geometry(b, kernel=kernel, strides=8, out_groups=0, strides_out=4)
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
            stride_offset_in=_small(b, g.stride_h),
            stride_offset_out=_small(b, g.stride_out),
            stride_out=g.stride_out,
            jump_read=g.jump_read,
            jump_write=g.jump_write,
            valid_pixel_parallel=rng.randrange(1, target.pixel_parallel + 1),
        )

        def make(g: Geometry = g, kernel: tuple[int, int] = kernel) -> isa.Pool:
            pads = _pads(b, g, 7, 7)
            return isa.Pool(
                **pads,
                **_addresses(b, g, pads["pad_left"], 12),
                channel_group=g.groups,
                length=g.length,
                jump_read_endl=g.jump_read_endl,
                jump_write_endl=g.jump_write_endl,
                downsample_kernel_h=kernel[0],
                downsample_kernel_w=kernel[1],
            )

        if b.add(init):
            _repeat(b, make)
            return
    raise AssertionError("no legal POOL found")


def eltwise(b: Builder) -> None:
    """Append ELEWINITs and an ELEW."""
    rng, target = b.rng, b.target
    parallel = target.pixel_parallel
    for _ in range(TRIES):
        multiply = rng.random() < 0.4
        num = 2 if multiply else rng.randrange(1, 5)
        rows = rng.choice(
            (target.alu_pixel_parallel, rng.randrange(1, target.alu_pixel_parallel + 1))
        )
        groups = rng.choice((1, 1, 2, 3, rng.randrange(1, 9)))
        length = rng.randrange(1, max(2, b.image_words // groups // 2))
        inputs = []
        for entry in range(num):
            jump = rng.choice((groups, groups, groups + rng.randrange(3), 0, 1))
            row = (length - 1) * jump + groups
            endl = rng.randrange(1, max(2, min(row + 3, b.image_words - row)))
            if row + endl > b.image_words:
                break
            inputs.append(
                isa.ElewInit(
                    id=entry,
                    bank_id_in=rng.randrange(target.image_banks),
                    share_pp=int(rng.random() < 0.2),
                    jump_bank=rng.choice((1, rng.randrange(1, parallel // rows + 1))),
                    jump_read_endl=endl,
                    bank_addr_in=b.address(b.image, b.image_words, row + endl, bits=14),
                    shift_read=rng.choice((0, 0, 1, 2, rng.randrange(16))),
                    jump_read=jump,
                )
            )
        jump_write = rng.choice((groups, groups, groups + rng.randrange(3)))
        row = (length - 1) * jump_write + groups
        endl = row + rng.choice((0, 1, 3))
        if len(inputs) < num or row + endl > b.image_words:
            continue
        write = rng.choice((0, 17, rng.randrange(32), 24 if multiply else 18))
        elew = isa.Elew(
            bank_id_out=rng.randrange(target.image_banks),
            elew_type=int(multiply),
            act_type=rng.randrange(2),
            length=length,
            valid_pixel_parallel=rows,
            num=num,
            jump_write_endl=endl,
            bank_addr_out=b.address(b.image, b.image_words, row + endl, bits=14),
            channel_group=groups,
            shift_write=write,
            jump_write=jump_write,
        )
        if rng.random() < 0.1:  # in place
            first = inputs[0]
            inputs[0] = dataclasses.replace(
                first,
                share_pp=0,
                jump_bank=1,
                jump_read=jump_write,
                jump_read_endl=endl,
                bank_id_in=elew.bank_id_out,
                bank_addr_in=elew.bank_addr_out,
            )
        if b.add_elew(inputs, elew):
            return
    raise AssertionError("no legal ELEW found")
