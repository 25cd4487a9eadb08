# SPDX-License-Identifier: Apache-2.0
"""A program with the convolutions, additions and pooling of ResNet-50 at 224x224 (4.1 GMAC).

It is tiled the way a compiler would, but computes on random data: rows of one layer are not the
results of the layer before.
"""

import dataclasses
import math

from opendpu_arch import isa
from opendpu_arch.isa import AluMode, Engine
from opendpu_arch.target import Target

LOAD, SAVE, CONV = (1 << e for e in (Engine.LOAD, Engine.SAVE, Engine.CONV))
WEIGHTS, WORK = 0, 1
"""Segments."""
FOLDED = 21
"""Channels of the first layer: kernel width 7 times 3."""


@dataclasses.dataclass
class Layer:
    """One convolution of a square image."""

    size: int
    channels: int
    outputs: int
    kernel: int
    stride: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return (self.size // self.stride) ** 2 * self.outputs * self.channels * self.taps

    @property
    def taps(self) -> int:
        """Kernel height times width; the first layer is folded to width 1."""
        return self.kernel * (1 if self.channels == FOLDED else self.kernel)


def convolutions() -> list[Layer]:
    """Return the convolutions of ResNet-50."""
    layers = [Layer(112, FOLDED, 64, 7, 1)]
    channels = 64
    for blocks, width, size, stride in ((3, 64, 56, 1), (4, 128, 56, 2), (6, 256, 28, 2),
                                        (3, 512, 14, 2)):  # fmt: skip
        for block in range(blocks):
            step = stride if block == 0 else 1
            layers += [
                Layer(size, channels, width, 1, 1),
                Layer(size, width, width, 3, step),
                Layer(size // step, width, 4 * width, 1, 1),
            ]
            if block == 0:
                layers.append(Layer(size, channels, 4 * width, 1, step))
            channels, size = 4 * width, size // step
    layers.append(Layer(1, 2048, 1008, 1, 1))
    return layers


def layer_program(layer: Layer, target: Target) -> list[isa.Instruction]:
    """Return instructions for one layer: rows in, weights in, CONV, rows out, tile after tile.

    Every CONV gives LOAD a token, which the next tile's first LOAD takes; the last one is left.
    """
    parallel, lanes, depth = target.pixel_parallel, target.channel_parallel, target.bank_depth
    groups = math.ceil(layer.channels / lanes)
    out_size = layer.size // layer.stride
    taps = layer.taps
    kernel_w = taps // layer.kernel
    pad = layer.kernel // 2
    row_words = layer.size * groups
    found: list[isa.Instruction] = []
    for top in range(0, out_size, parallel):
        rows = min(parallel, out_size - top)
        in_rows = (rows - 1) * layer.stride + layer.kernel
        levels = math.ceil(in_rows / parallel / layer.stride) * layer.stride
        assert levels * row_words <= depth, layer
        loads: list[isa.Instruction] = [
            isa.Load(
                bank_id=r // layer.stride % parallel,
                bank_addr=(r // layer.stride // parallel * layer.stride + r % layer.stride)
                * row_words,
                channel=layer.channels,
                length=layer.size,
                jump_read=layer.channels,
                jump_write=groups,
                reg_id=WORK,
                ddr_addr=(top * layer.stride + r) * layer.size * layer.channels,
            )
            for r in range(in_rows)
        ]
        for first in range(0, layer.outputs, lanes):
            size = taps * groups * lanes
            start = first * size % (1 << 20)
            slot = first // lanes % 2 * (depth // 2) if taps * groups * 2 <= depth else 0
            loads += [
                isa.Load(
                    bank_id=target.convw_base + lane,
                    bank_addr=slot,
                    channel=min(size, 16384),
                    jump_read=min(size, 16384),
                    jump_write=min(size, 16384) // lanes,
                    length=math.ceil(size / 16384),
                    reg_id=WEIGHTS,
                    ddr_addr=start + lane * size,
                )
                for lane in range(lanes)
            ]
            loads.append(
                isa.Load(bank_id=target.bias_bank, bank_addr=first // lanes, channel=lanes,
                         reg_id=WEIGHTS, ddr_addr=first)
            )  # fmt: skip
            loads[-1] = dataclasses.replace(loads[-1], dpdby=LOAD | CONV)
            first_load = dataclasses.replace(loads[0], dpdon=LOAD | CONV) if found else loads[0]
            found += [first_load, *loads[1:]]
            loads = []
            bases = [level * row_words * layer.stride - pad * groups for level in range(4)]
            found += [
                isa.ConvInit(
                    act_type=isa.ActType.RELU,
                    shift_cut=7 + int(math.log2(taps * layer.channels)) // 2,
                    shift_bias=5,
                    jump_read=groups,
                    jump_read_endl=row_words,
                    jump_write=1,
                    jump_write_endl=out_size,
                    stride_h=layer.stride,
                    stride_w=layer.stride,
                    kernel_h=layer.kernel,
                    kernel_w=kernel_w,
                    valid_pixel_parallel=rows,
                ),
                isa.Conv(
                    dpdon=CONV | LOAD,
                    dpdby=CONV | SAVE | LOAD,
                    pad_left=pad if kernel_w > 1 else 0,
                    pad_top=pad if top == 0 else 0,
                    pad_right=pad if kernel_w > 1 else 15,
                    pad_bottom=pad,
                    bank_id_in=0,
                    bank_addr_in=bases[0] % depth,
                    bank_addr_in_1=bases[1] % depth,
                    bank_addr_in_2=bases[2] % depth,
                    bank_addr_in_3=bases[3] % depth,
                    channel_group=groups,
                    channel_offset=groups * lanes - layer.channels,
                    length=out_size,
                    bank_id_out=parallel,
                    bank_addr_out=0,
                    bank_addr_weights=slot,
                    bank_addr_bias=first // lanes,
                ),
            ]
            found += [
                isa.Save(
                    dpdon=SAVE | CONV if row == 0 else SAVE,
                    bank_id=parallel + row,
                    channel=lanes,
                    length=out_size,
                    jump_write=layer.outputs,
                    reg_id=WORK,
                    ddr_addr=(4 << 20) + (top + row) * out_size * layer.outputs + first,
                )
                for row in range(rows)
            ]
    return found


def add_program(size: int, channels: int, target: Target) -> list[isa.Instruction]:
    """Return ELEWs over an image of random bytes that is in the banks anyway."""
    rows = target.alu_pixel_parallel
    groups = channels // target.channel_parallel
    found: list[isa.Instruction] = []
    for _ in range(0, size, rows):
        for number in range(2):
            found.append(isa.ElewInit(id=number, bank_id_in=rows * number, jump_read=groups))
        found.append(
            isa.Elew(num=2, length=size, valid_pixel_parallel=min(rows, size), act_type=1,
                     bank_id_out=target.pixel_parallel, channel_group=groups, jump_write=groups,
                     shift_write=17)
        )  # fmt: skip
    return found


def program(target: Target) -> tuple[bytes, int]:
    """Return the machine code, and its multiply-accumulates."""
    found: list[isa.Instruction] = []
    macs = 0
    for layer in convolutions():
        part = layer_program(layer, target)
        if found:
            part[0] = dataclasses.replace(part[0], dpdon=part[0].dpdon | CONV)
        found += part
        macs += layer.macs
    # the last CONV's token to LOAD has nobody to take it
    last = max(n for n, i in enumerate(found) if isinstance(i, isa.Conv))
    found[last] = dataclasses.replace(found[last], dpdby=CONV | SAVE)
    for size, channels, count in ((56, 256, 3), (28, 512, 4), (14, 1024, 6), (7, 2048, 3)):
        for _ in range(count):
            found += add_program(size, channels, target)
    found += [
        isa.AluInit(exec_mode=AluMode.MAXPOOL, kernel_h=3, kernel_w=3, stride_h=2, stride_w=2,
                    length=56, channel_group=4, jump_read=4, jump_write=4, jump_read_endl=448,
                    jump_write_endl=224, shift_cut=8)
    ]  # fmt: skip
    found += [
        isa.Alu(valid_pixel_parallel=target.alu_pixel_parallel, bank_id_out=target.pixel_parallel,
                pad_right=255, pad_bottom=255)
        for _ in range(56 // target.alu_pixel_parallel)
    ]  # fmt: skip
    found.append(isa.End(dpdon=SAVE, dpdby=SAVE))
    return isa.encode(found), macs
