# SPDX-License-Identifier: Apache-2.0
"""A program with the convolutions, additions and pooling of ResNet-50 at 224x224 (4.1 GMAC).

It is tiled the way a compiler would, but computes on random data: rows of one layer are not the
results of the layer before.
"""

import dataclasses
import math

from opendpu_arch import isa
from opendpu_arch.errors import UnsupportedError
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
    def out_size(self) -> int:
        """Rows and columns of the result."""
        return self.size // self.stride

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.out_size**2 * self.outputs * self.channels * self.taps

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


@dataclasses.dataclass(frozen=True)
class Tile:
    """What one CONV makes: output rows from ``top`` on, output channels from ``first`` on."""

    layer: Layer
    target: Target
    top: int
    first: int

    @property
    def rows(self) -> int:
        """Output rows."""
        return min(self.target.pixel_parallel, self.layer.out_size - self.top)

    @property
    def groups(self) -> int:
        """Words of a pixel of the input."""
        return math.ceil(self.layer.channels / self.target.channel_parallel)

    @property
    def row_words(self) -> int:
        """Words of a row of the input."""
        return self.layer.size * self.groups

    @property
    def slot(self) -> int:
        """Address of the weights: where those of two tiles fit, the halves of a bank take turns."""
        parallel, depth = self.target.channel_parallel, self.target.bank_depth
        fits_twice = self.layer.taps * self.groups * 2 <= depth
        return self.first // parallel % 2 * (depth // 2) if fits_twice else 0

    def input_loads(self) -> list[isa.Instruction]:
        """Return LOADs of the input rows, ``stride`` successive ones to a bank.

        Raises
        ------
        UnsupportedError
            A bank of this target does not hold its rows.
        """
        layer, parallel = self.layer, self.target.pixel_parallel
        in_rows = (self.rows - 1) * layer.stride + layer.kernel
        levels = math.ceil(in_rows / parallel / layer.stride) * layer.stride
        needed, depth = levels * self.row_words, self.target.bank_depth
        if needed > depth:
            raise UnsupportedError(
                f"{layer} takes {needed} words of a bank, but {self.target.name} has {depth}: "
                "this program is for targets whose banks hold the input rows of a tile"
            )
        return [
            isa.Load(
                bank_id=r // layer.stride % parallel,
                bank_addr=(r // layer.stride // parallel * layer.stride + r % layer.stride)
                * self.row_words,
                channel=layer.channels,
                length=layer.size,
                jump_read=layer.channels,
                jump_write=self.groups,
                reg_id=WORK,
                ddr_addr=(self.top * layer.stride + r) * layer.size * layer.channels,
            )
            for r in range(in_rows)
        ]

    def parameter_loads(self) -> list[isa.Instruction]:
        """Return LOADs of the weights, a bank a lane, and of the biases."""
        target, lanes = self.target, self.target.channel_parallel
        size = self.layer.taps * self.groups * lanes
        start = self.first * size % (1 << 20)
        return [
            *(
                isa.Load(
                    bank_id=target.convw_base + lane,
                    bank_addr=self.slot,
                    channel=min(size, 16384),
                    jump_read=min(size, 16384),
                    jump_write=min(size, 16384) // lanes,
                    length=math.ceil(size / 16384),
                    reg_id=WEIGHTS,
                    ddr_addr=start + lane * size,
                )
                for lane in range(lanes)
            ),
            isa.Load(bank_id=target.bias_bank, bank_addr=self.first // lanes, channel=lanes,
                     reg_id=WEIGHTS, ddr_addr=self.first),
        ]  # fmt: skip

    def convolution(self) -> list[isa.Instruction]:
        """Return CONVINIT and CONV; its results go to the second bank group."""
        layer, lanes, depth = self.layer, self.target.channel_parallel, self.target.bank_depth
        kernel_w = layer.taps // layer.kernel
        pad = layer.kernel // 2
        bases = [
            (level * self.row_words * layer.stride - pad * self.groups) % depth
            for level in range(4)
        ]
        return [
            isa.ConvInit(
                act_type=isa.ActType.RELU,
                shift_cut=7 + int(math.log2(layer.taps * layer.channels)) // 2,
                shift_bias=5,
                jump_read=self.groups,
                jump_read_endl=self.row_words,
                jump_write=1,
                jump_write_endl=layer.out_size,
                stride_h=layer.stride,
                stride_w=layer.stride,
                kernel_h=layer.kernel,
                kernel_w=kernel_w,
                valid_pixel_parallel=self.rows,
            ),
            isa.Conv(
                dpdon=CONV | LOAD,
                dpdby=CONV | SAVE | LOAD,
                pad_left=pad if kernel_w > 1 else 0,
                pad_top=pad if self.top == 0 else 0,
                pad_right=pad if kernel_w > 1 else 15,
                pad_bottom=pad,
                bank_id_in=0,
                bank_addr_in=bases[0],
                bank_addr_in_1=bases[1],
                bank_addr_in_2=bases[2],
                bank_addr_in_3=bases[3],
                channel_group=self.groups,
                channel_offset=self.groups * lanes - layer.channels,
                length=layer.out_size,
                bank_id_out=self.target.pixel_parallel,
                bank_addr_out=0,
                bank_addr_weights=self.slot,
                bank_addr_bias=self.first // lanes,
            ),
        ]

    def saves(self) -> list[isa.Instruction]:
        """Return SAVEs of the output rows."""
        layer = self.layer
        return [
            isa.Save(
                dpdon=SAVE | CONV if row == 0 else SAVE,
                bank_id=self.target.pixel_parallel + row,
                channel=self.target.channel_parallel,
                length=layer.out_size,
                jump_write=layer.outputs,
                reg_id=WORK,
                ddr_addr=(4 << 20) + (self.top + row) * layer.out_size * layer.outputs + self.first,
            )
            for row in range(self.rows)
        ]


def layer_program(layer: Layer, target: Target) -> list[isa.Instruction]:
    """Return instructions for one layer: rows in, weights in, CONV, rows out, tile after tile.

    Every CONV gives LOAD a token, which the next tile's first LOAD takes; the last one is left.
    """
    found: list[isa.Instruction] = []
    for top in range(0, layer.out_size, target.pixel_parallel):
        for first in range(0, layer.outputs, target.channel_parallel):
            tile = Tile(layer, target, top, first)
            loads = [*(tile.input_loads() if first == 0 else ()), *tile.parameter_loads()]
            loads[-1] = dataclasses.replace(loads[-1], dpdby=LOAD | CONV)
            if found:
                loads[0] = dataclasses.replace(loads[0], dpdon=LOAD | CONV)
            found += [*loads, *tile.convolution(), *tile.saves()]
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
