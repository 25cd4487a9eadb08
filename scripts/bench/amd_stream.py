# SPDX-License-Identifier: Apache-2.0
"""A MobileNetV2 written as AMD's compiler writes it, for want of the file; run on the RTL; JSON.

One LOAD a lane for every CONV, weights moving on through their buffer, feature maps that stay in
the two bank groups, blocks fused over tiles of eight rows, tokens for what instructions really
touch. It has 12 878 instructions and takes 165 872 CONV steps, 342 356 ALU taps and 7 952 ELEW
words; AMD's own has 12 684 and takes 161 806, 342 356 and 7 952.
"""

import argparse
import collections
import json
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.runtime.device import Job
from opendpu_arch import isa
from opendpu_arch.isa import AluMode
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice
from opendpu_sim.model.machine import plan_step
from opendpu_sim.model.walk import Walker
from opendpu_sim.progen.tokens import Touched, link, touched
from opendpu_sim.rtl.device import RtlDevice

BLOCKS = (
    (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, repetitions, stride of the first one."""
IMAGE, CONSTANTS = 224 * 672, 1 << 22
"""Bytes of the segments; constants are read again from the start where they do not suffice."""
PP = 8
"""Rows of a CONV; an ALU has half of them."""
LARGEST_LOAD = 16384


class Map:
    """A feature map in a bank group: eight rows side by side, ``pair`` of them in a bank.

    Only ``kept`` rows have words of their own; others follow in these.
    """

    def __init__(
        self, stream: "Stream", group: int, rows: int, columns: int, channels: int, *,
        pair: int = 1, kept: int | None = None,
    ) -> None:  # fmt: skip
        self.depth = stream.target.bank_depth
        self.group, self.rows, self.columns, self.pair = group, rows, columns, pair
        self.channels, self.groups = channels, -(-channels // stream.lanes)
        self.turns = -(-(kept or rows) // (PP * pair))
        self.step = pair * columns * self.groups
        self.base = stream.allocate(group, self.turns * self.step)

    def bank(self, row: int) -> int:
        """Return the bank of a row, -1 included."""
        return self.group * PP + row // self.pair % PP

    def bases(self, row: int, before: int = 0) -> dict[str, Any]:
        """Return the input addresses of instructions that begin at a row, less ``before`` words."""
        turn = row // (PP * self.pair)
        names = ("bank_addr_in", "bank_addr_in_1", "bank_addr_in_2", "bank_addr_in_3")
        return {
            name: (self.base + (turn + n) % self.turns * self.step - before) % self.depth
            for n, name in enumerate(names)
        }

    def address(self, row: int, word: int = 0) -> int:
        """Return where a row begins that is the first one of its bank in an output."""
        return int(self.bases(row)["bank_addr_in"] + word) % self.depth


class Stream:
    """The program in the making."""

    def __init__(self, target: Target) -> None:
        self.target, self.lanes = target, target.channel_parallel
        self.program: list[tuple[isa.Instruction, Touched]] = []
        self._walker = Walker(target)
        self._inits: dict[type[isa.Instruction], isa.Instruction] = {}
        self._inputs: list[isa.ElewInit] = []
        self._next = {"group0": 0, "group1": 0, "weights": 0, "depthwise": 0}
        self._weights: dict[tuple[str, int], int] = {}
        self._constants = 0

    def add(self, i: isa.Instruction) -> None:
        """Append an instruction; an INIT that is in force already is left out."""
        touch = Touched()
        if isinstance(i, isa.ConvInit | isa.AluInit):
            if self._inits.get(type(i)) == i:
                return
            self._inits[type(i)] = i
        elif isinstance(i, isa.ElewInit):
            self._inputs.append(i)
        elif not isinstance(i, isa.End):
            init = self._inits.get(isa.ConvInit if isinstance(i, isa.Conv) else isa.AluInit)
            with_init = self._inputs if isinstance(i, isa.Elew) else init
            touch = touched(plan_step(len(self.program), i, with_init, self._walker))
        if isinstance(i, isa.Elew):
            self._inputs = []
        self.program.append((i, touch))

    def _take(self, what: str, words: int) -> int:
        """Return the first of so many words; after the end of a bank comes its beginning."""
        first = self._next[what]
        self._next[what] = (first + words) % self.target.bank_depth
        return first

    def allocate(self, group: int, words: int) -> int:
        """Return the first of so many words in every bank of a group."""
        return self._take(f"group{group}", words)

    def constants(self, bank: int, address: int, words: int) -> None:
        """Load constants to successive words."""
        for at in range(0, words * self.lanes, LARGEST_LOAD):
            size = min(LARGEST_LOAD, words * self.lanes - at)
            word = (address + at // self.lanes) % self.target.bank_depth
            self.add(isa.Load(
                bank_id=bank, bank_addr=word, channel=size, jump_read=1, reg_id=0,
                ddr_addr=self._constants,
            ))  # fmt: skip
            self._constants = (self._constants + size) % (CONSTANTS - LARGEST_LOAD)

    def weights(self, name: str, number: int, words: int) -> int:
        """Return the address of the weights of 16 channels; loads them the first time."""
        if (name, number) not in self._weights:
            self._weights[name, number] = address = self._take("weights", words)
            for lane in range(self.lanes):
                self.constants(self.target.convw_base + lane, address, words)
        return self._weights[name, number]

    def depthwise_weights(self, groups: int) -> int:
        """Load the weights of a 3x3 depthwise convolution; return their address."""
        address = self._take("depthwise", 9 * groups)
        self.constants(self.target.dwconvw_bank, address, 9 * groups)
        return address

    def conv(self, source: Map, to: Map, tile: int, name: str) -> None:
        """Convolve eight rows, 1x1."""
        row = PP * tile
        for number in range(to.groups):
            weights = self.weights(name, number, source.groups)
            self.add(isa.ConvInit(
                shift_cut=2 + (source.channels.bit_length() + 1) // 2,
                jump_read=source.groups, stride_out=to.pair, act_type=isa.ActType.RELU,
                jump_write=to.groups, jump_write_endl=to.columns * to.groups,
                valid_pixel_parallel=min(PP, to.rows - row),
            ))  # fmt: skip
            self.add(isa.Conv(
                bank_id_in=source.bank(row), **source.bases(row), channel_group=source.groups,
                length=to.columns, bank_id_out=to.bank(row), bank_addr_out=to.address(row, number),
                bank_addr_weights=weights,
            ))  # fmt: skip

    def depthwise(self, source: Map, to: Map, block: int, stride: int, weights: int) -> None:
        """Convolve four rows, 3x3, a channel each."""
        rows = PP // 2
        row, first = rows * block, rows * block * stride - 1
        count = min(rows, to.rows - row)
        below = (row + count - 1) * stride + 2 - source.rows
        groups = source.groups
        self.add(isa.AluInit(
            exec_mode=AluMode.DWCV, kernel_h=3, kernel_w=3, stride_h=stride, stride_w=stride,
            stride_offset_in=first % stride, channel_group=groups, length=to.columns, shift_cut=4,
            jump_read=groups, jump_read_endl=source.columns * groups, jump_read_weights=groups,
            jump_write=groups, jump_write_endl=to.columns * groups, act_type=isa.ActType.RELU,
        ))  # fmt: skip
        self.add(isa.Alu(
            bank_id_in=source.bank(first), **source.bases(first, before=groups),
            bank_id_out=to.bank(row), bank_addr_out=to.address(row), valid_pixel_parallel=count,
            kernel_d=1, pad_left=1, pad_top=int(row == 0), pad_right=1 if stride == 1 else 2,
            pad_bottom=2 - max(0, below), bank_addr_weights=weights,
        ))  # fmt: skip

    def sum(self, one: Map, other: Map, block: int) -> None:
        """Add four rows of one map to the other, in place."""
        rows = PP // 2
        row = rows * block
        for number, source in enumerate((one, other)):
            self.add(isa.ElewInit(
                id=number, bank_id_in=source.bank(row), bank_addr_in=source.address(row),
                jump_read=source.groups, jump_bank=1,
            ))  # fmt: skip
        self.add(isa.Elew(
            bank_id_out=other.bank(row), bank_addr_out=other.address(row), num=2,
            valid_pixel_parallel=min(rows, other.rows - row), length=other.columns,
            channel_group=other.groups, jump_write=other.groups,
        ))  # fmt: skip

    def tail(self, x: Map, depth: Map, y: Map, *, source: Map, stride: int, name: str) -> "Tail":
        """Return the depthwise and the second 1x1 convolution of a block, to be made by rows."""
        return Tail(self, x, depth, y, source, stride, name)

    def block(self, x: Map, expansion: int, channels: int, stride: int, name: str) -> Map:
        """Append an inverted residual; return its result."""
        rows, columns = x.rows // stride, x.columns // stride
        inside = expansion * x.channels
        large = x.rows * x.columns * inside // self.lanes // PP > 900
        kept = 16 if large else None
        wide = Map(self, 1 - x.group, x.rows, x.columns, inside, pair=stride, kept=kept)
        depth = Map(self, x.group, rows, columns, inside, kept=kept)
        y = Map(self, 1 - x.group, rows, columns, channels)
        tail = self.tail(x, depth, y, source=wide, stride=stride, name=name)
        for tile in range(-(-x.rows // PP)):
            self.conv(x, wide, tile, f"{name} expand")
            tail.advance(PP * tile + PP)
        return y


class Tail:
    """Depthwise convolution, 1x1 convolution and sum of a block, as far as rows are there."""

    def __init__(
        self, stream: Stream, x: Map, depth: Map, y: Map, source: Map, stride: int, name: str
    ) -> None:
        self.stream, self.x, self.depth, self.y, self.source = stream, x, depth, y, source
        self.stride, self.name = stride, name
        self.weights = stream.depthwise_weights(source.groups)
        self.blocks = self.tiles = 0

    def advance(self, rows: int) -> None:
        """Go on with the first ``rows`` rows of the source."""
        y, high = self.y, PP // 2
        while high * self.blocks < y.rows and (
            rows >= self.source.rows or high * (self.blocks + 1) * self.stride < rows
        ):
            self.stream.depthwise(self.source, self.depth, self.blocks, self.stride, self.weights)
            self.blocks += 1
            if high * self.blocks < min(PP * self.tiles + PP, y.rows):
                continue
            self.stream.conv(self.depth, y, self.tiles, f"{self.name} project")
            if (self.x.rows, self.x.channels) == (y.rows, y.channels):
                for block in (2 * self.tiles, 2 * self.tiles + 1):
                    if high * block < y.rows:
                        self.stream.sum(self.x, y, block)
            self.tiles += 1


def first_layers(s: Stream) -> Map:
    """Append the 3x3 convolution of stride 2, three pixels a word, and the block behind it."""
    wide = Map(s, 1, 112, 112, 32, kept=16)
    image = Map(s, 0, 224, 112, s.lanes, pair=2, kept=32)
    depth = Map(s, 0, 112, 112, 32, kept=16)
    y = Map(s, 1, 112, 112, 16)
    tail = s.tail(image, depth, y, source=wide, stride=1, name="first")
    loaded = 0
    for tile in range(14):
        for row in range(loaded, min(16 * tile + 17, 224)):
            at = row + 1  # row -1 is padding
            s.add(isa.Load(
                bank_id=image.bank(at), channel=9, jump_read=6, length=112, pad_start=3, reg_id=2,
                bank_addr=image.address(at, at % 2 * 112), ddr_addr=row * 672,
            ))  # fmt: skip
        loaded = 16 * tile + 17
        for number in range(2):
            weights = s.weights("image", number, 3)
            s.add(isa.ConvInit(
                shift_cut=4, jump_read_endl=112, stride_h=2, kernel_h=3, jump_write=2,
                valid_pixel_parallel=PP, act_type=isa.ActType.RELU,
            ))  # fmt: skip
            s.add(isa.Conv(
                bank_id_in=image.bank(16 * tile), **image.bases(16 * tile), channel_offset=7,
                length=112, bank_id_out=wide.bank(8 * tile), bank_addr_weights=weights,
                bank_addr_out=wide.address(8 * tile, number), pad_top=int(tile == 0),
                pad_right=15, pad_bottom=15,
            ))  # fmt: skip
        tail.advance(PP * tile + PP)
    return y


def last_layers(s: Stream, x: Map) -> int:
    """Append the last convolution, average and classifier; return the bytes saved."""
    wide = Map(s, 1 - x.group, 7, 7, 1280)
    s.conv(x, wide, 0, "last")
    mean = Map(s, x.group, 1, 1, 1280)
    s.add(isa.AluInit(
        exec_mode=AluMode.AVEPOOL, kernel_h=7, kernel_w=7, channel_group=80, length=1, shift_cut=17,
        multi_factor=21, jump_read=80, jump_read_endl=560, jump_write=80, jump_write_endl=80,
    ))  # fmt: skip
    s.add(isa.Alu(
        bank_id_in=wide.bank(0), bank_addr_in=wide.base, bank_id_out=mean.bank(0),
        bank_addr_out=mean.base, pad_right=255, pad_bottom=255,
    ))  # fmt: skip
    classes = Map(s, 1 - x.group, 1, 1, 1000)
    s.conv(mean, classes, 0, "classes")
    s.add(isa.Save(bank_id=classes.bank(0), bank_addr=classes.base, channel=1000, reg_id=3))
    return 1000


def program(target: Target) -> tuple[list[isa.Instruction], dict[int, npt.NDArray[np.uint8]]]:
    """Return the program and its segments."""
    s = Stream(target)
    s.constants(target.bias_bank, 0, 1)
    x = first_layers(s)
    for number, (expansion, channels, repetitions, stride) in enumerate(BLOCKS):
        for again in range(repetitions):
            x = s.block(x, expansion, channels, 1 if again else stride, f"{number}.{again}")
    sizes = {0: CONSTANTS, 2: IMAGE + 64, 3: last_layers(s, x)}
    s.add(isa.End())
    random = np.random.default_rng(1)
    # small weights, so that with the shifts above neither all nor no sums saturate
    segments = {0: random.integers(-12, 13, CONSTANTS, np.int8).view(np.uint8)}
    segments |= {reg: random.integers(0, 256, sizes[reg], np.uint8) for reg in (2, 3)}
    return link(s.program, target, sizes), segments


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="B4096", help="one with eight rows of pixels (B4096)")
    parser.add_argument("--memory", default="kv260", help="kv260, ideal or stall:<seed> (kv260)")
    given = parser.parse_args()
    target = Target.from_name(given.target)
    if (target.pixel_parallel, target.alu_pixel_parallel, target.channel_parallel) != (8, 4, 16):
        raise SystemExit(f"target is {target.name}, but must have the shape of B4096")
    instructions, segments = program(target)
    code = isa.encode(instructions)
    results = {}
    for machine in (RtlDevice(target, memory=given.memory), IssDevice(target)):
        copies = {reg: content.copy() for reg, content in segments.items()}
        statistics = machine.run(Job(code, copies))
        results[machine.name] = copies[3]
        if machine.name == "rtl":
            cycles, busy = statistics.cycles, dict(statistics.busy_cycles)
    if not np.array_equal(results["rtl"], results["iss"]):
        raise SystemExit("the RTL saved other bytes than the functional simulator")
    result = {
        "target": target.name, "memory": given.memory, "cycles": cycles, "busy_cycles": busy,
        "instructions": dict(collections.Counter(i.mnemonic() for i in instructions)),
        "values_saved": len(set(results["rtl"].tolist())),
    }  # fmt: skip
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
