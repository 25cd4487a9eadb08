# SPDX-License-Identifier: Apache-2.0
"""What random CONV, ALU, POOL and DPTWISE have in common: sizes that fit, and drawn fields."""

import dataclasses
from collections.abc import Callable
from typing import Any

from opendpu_arch import isa
from opendpu_arch.extensions import Extension
from opendpu_arch.isa import ActType
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


def geometry(
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


def addresses(b: Builder, g: Geometry, pad_left: int, bits: int) -> dict[str, Any]:
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


def pads_of(b: Builder, g: Geometry, start: int, end: int) -> dict[str, Any]:
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


def shift(b: Builder, products: int) -> int:
    """Return a shift that leaves a sum of random products mostly in range, or any."""
    good = 6 + (products.bit_length() + 1) // 2
    return b.rng.choice((max(0, good + b.rng.randrange(-3, 4)), b.rng.randrange(64)))


def activation(b: Builder, leaky: bool) -> int:
    """Return an activation that the target has."""
    allowed = [ActType.NONE, ActType.RELU, ActType.RELU6]
    return b.rng.choice([*allowed, ActType.LEAKYRELU] if leaky else allowed)


def table(b: Builder) -> int:
    """Return a table of those that are loaded, or none."""
    return b.rng.choice((0, 0, *b.tables)) if b.tables else 0


def channel_shift(b: Builder) -> int:
    """Return whether channels have shifts of their own, where the target has them."""
    return b.rng.randrange(2) if Extension.CHANNEL in b.target.extensions else 0


def results(b: Builder, groups: int, bits: int, *, scaled: bool = True) -> dict[str, Any]:
    """Return the fields that say how sums become results: shifts, those of channels, multipliers.

    Addresses have ``bits``; ``scaled``: multipliers are possible.
    """
    if scaled and b.records and groups <= b.records and b.rng.random() < 0.6:
        return {"scaled": 1, "bank_addr_bias": b.record_address(groups, bits)}
    return {
        "bank_addr_bias": b.address(b.weights, b.weight_words, groups, bits=bits),
        "channel_shift": channel_shift(b),
    }


def channel_offset(b: Builder) -> int:
    """Return a channel offset: none or some."""
    return b.rng.choice((0, b.rng.randrange(b.lanes)))


def small(b: Builder, count: int) -> int:
    """Return an offset below ``count`` and below 8."""
    return b.rng.randrange(min(count, 8))


def repeat(b: Builder, make: Callable[[], isa.Instruction]) -> None:
    """Append one to three instructions under the same INIT; ``make`` returns a fresh one."""
    wanted = b.rng.choice((1, 1, 2, 3))
    for _ in range(TRIES):
        if not wanted:
            return
        wanted -= b.add(make())
