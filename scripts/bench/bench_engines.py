# SPDX-License-Identifier: Apache-2.0
"""Cycles of short instructions on the RTL, in streams as AMD's compiler writes them; JSON."""

import argparse
import json
import sys
from collections.abc import Callable

import numpy as np

from opendpu.runtime.device import Job
from opendpu_arch import isa
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice
from opendpu_sim.rtl.device import RtlDevice

LOAD, SAVE, CONV, MISC = (1 << e for e in Engine)
FEW, MANY = 128, 256
"""Repetitions of the two runs whose difference is taken; enough to outlast what follows END."""

SETS = 8
"""Weights of so many CONVs lie side by side, as AMD's compiler lets addresses move on."""

Unit = list[isa.Instruction]
"""What is repeated; tokens are balanced within it."""


class Streams:
    """Units of a target, a method each; ``number`` counts them from 0."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.pp, self.alu_pp = target.pixel_parallel, target.alu_pixel_parallel
        self.lanes = target.channel_parallel

    def conv(
        self, number: int, *, length: int, groups: int, to: int = 1, weights: int = 0
    ) -> isa.Conv:
        """Return a 1x1 CONV of eight rows that reads group 0; outputs of two take turns."""
        return isa.Conv(
            bank_id_in=0, bank_id_out=to * self.pp, length=length, channel_group=groups,
            bank_addr_in_1=1000, bank_addr_out=1000 + number % 2, bank_addr_weights=weights,
        )  # fmt: skip

    def conv_init(self, *, groups: int) -> isa.ConvInit:
        """Return the CONVINIT of :meth:`conv`."""
        return isa.ConvInit(
            shift_cut=9, jump_read=groups, jump_read_endl=groups, jump_write=4, jump_write_endl=4,
            valid_pixel_parallel=self.pp,
        )  # fmt: skip

    def conv_stream(
        self, length: int, groups: int, to: int = 1
    ) -> tuple[Unit, Callable[[int], Unit]]:
        """CONVs without a break."""
        first: Unit = [self.conv_init(groups=groups)]
        return first, lambda number: [self.conv(number, length=length, groups=groups, to=to)]

    def weights_stream(self, length: int, groups: int) -> tuple[Unit, Callable[[int], Unit]]:
        """A LOAD a lane for every CONV, :data:`SETS` sets of weights in turns, as tokens allow."""

        def unit(number: int) -> Unit:
            at = number % SETS * groups
            loads: Unit = [
                isa.Load(
                    dpdon=LOAD | (CONV if lane == 0 and number >= SETS else 0),
                    dpdby=LOAD | (CONV if lane == self.lanes - 1 else 0),
                    bank_id=self.target.convw_base + lane, bank_addr=at,
                    channel=groups * self.lanes, jump_read=groups * self.lanes, length=1,
                    reg_id=0, ddr_addr=(number * self.lanes + lane) * groups * self.lanes,
                )
                for lane in range(self.lanes)
            ]  # fmt: skip
            conv = self.conv(number, length=length, groups=groups, weights=at)
            return [*loads, _with(conv, dpdon=LOAD | CONV, dpdby=LOAD | CONV)]

        return [self.conv_init(groups=groups)], unit

    def alu_init(
        self, mode: isa.AluMode, *, length: int, groups: int, kernel: int, stride: int
    ) -> isa.AluInit:
        """Return an ALUINIT."""
        return isa.AluInit(
            exec_mode=mode, kernel_h=kernel, kernel_w=kernel, stride_h=stride, stride_w=stride,
            stride_out=1, channel_group=groups, length=length, shift_cut=9, multi_factor=7,
            jump_read=groups, jump_read_endl=200, jump_read_weights=groups, jump_write=groups,
            jump_write_endl=200,
        )  # fmt: skip

    def alu(self, number: int, *, source: int, to: int) -> isa.Alu:
        """Return an ALU between bank groups, its input padded left and on top; blocks of rows."""
        row = number * self.alu_pp % self.pp
        return isa.Alu(
            bank_id_in=source * self.pp + row, bank_id_out=to * self.pp + row, bank_addr_in=0,
            bank_addr_in_1=400, bank_addr_in_2=800, bank_addr_in_3=1200, bank_addr_out=1500,
            valid_pixel_parallel=self.alu_pp, kernel_d=1, pad_left=1, pad_top=1, pad_right=255,
            pad_bottom=255,
        )  # fmt: skip

    def alu_stream(
        self, mode: isa.AluMode, length: int, groups: int, kernel: int, stride: int, to: int = 0
    ) -> tuple[Unit, Callable[[int], Unit]]:
        """ALUINIT and ALU, again and again, from bank group 1."""
        init = self.alu_init(mode, length=length, groups=groups, kernel=kernel, stride=stride)
        return [], lambda number: [init, self.alu(number, source=1, to=to)]

    def add_stream(self, length: int, groups: int) -> tuple[Unit, Callable[[int], Unit]]:
        """Sums of two feature maps of group 1 into group 0."""
        inputs: Unit = [
            isa.ElewInit(
                bank_id_in=self.pp, jump_bank=1, id=n, bank_addr_in=100 * n, jump_read=groups
            )
            for n in range(2)
        ]
        add = isa.Elew(
            bank_id_out=0, length=length, valid_pixel_parallel=self.alu_pp, num=2,
            bank_addr_out=1000, channel_group=groups, jump_write=groups, jump_write_endl=200,
        )  # fmt: skip
        return [], lambda number: [*inputs, add]

    def side_by_side(self, length: int) -> tuple[Unit, Callable[[int], Unit]]:
        """CONV from group 0 to 1, depthwise from 1 to 0, LOAD and SAVE, all at the same time."""
        first: Unit = [self.conv_init(groups=4)]
        first.append(self.alu_init(
            isa.AluMode.DWCV, length=length, groups=4, kernel=3, stride=1
        ))  # fmt: skip

        def unit(number: int) -> Unit:
            words = 4 * (length + 2)
            return [
                isa.Load(
                    bank_id=number % 8, bank_addr=1700, channel=words * self.lanes,
                    jump_read=words * self.lanes, reg_id=0, length=1,
                ),
                isa.Save(
                    bank_id=self.pp + number % 8, bank_addr=0, channel=words * self.lanes,
                    jump_write=words * self.lanes, reg_id=1, length=1, hp_id=number % 2,
                ),
                self.conv(number, length=length, groups=4),
                self.alu(number, source=1, to=0),
            ]  # fmt: skip

        return first, unit

    def all(self) -> dict[str, tuple[int, tuple[Unit, Callable[[int], Unit]]]]:
        """Return, by name, the cycles a unit takes at best, and the stream."""
        mode = isa.AluMode
        return {
            "conv 7 x 20 groups, to the other bank group": (140, self.conv_stream(7, 20)),
            "conv 7 x 20 groups, within a bank group": (140, self.conv_stream(7, 20, to=0)),
            "conv 14 x 2 groups": (28, self.conv_stream(14, 2)),
            "conv 14 x 2 groups, within a bank group": (28, self.conv_stream(14, 2, to=0)),
            "conv 7 x 1 group": (7, self.conv_stream(7, 1)),
            "conv 7 x 10 groups, its weights": (85, self.weights_stream(7, 10)),
            "conv 7 x 20 groups, its weights": (160, self.weights_stream(7, 20)),
            "conv 14 x 4 groups, its weights": (85, self.weights_stream(14, 4)),
            "depthwise 3x3, 7 x 20 groups": (140, self.alu_stream(mode.DWCV, 7, 20, 3, 1)),
            "depthwise 3x3, 56 x 3 groups": (168, self.alu_stream(mode.DWCV, 56, 3, 3, 1)),
            "depthwise 3x3, within a bank group": (
                168, self.alu_stream(mode.DWCV, 56, 3, 3, 1, to=1)),
            "depthwise 3x3 stride 2, 28 x 4 groups": (448, self.alu_stream(mode.DWCV, 28, 4, 3, 2)),
            "max 3x3 stride 2, 28 x 4 groups": (448, self.alu_stream(mode.MAXPOOL, 28, 4, 3, 2)),
            "max 2x2 stride 2, 28 x 4 groups": (448, self.alu_stream(mode.MAXPOOL, 28, 4, 2, 2)),
            "average 7x7, 20 groups": (140, self.alu_stream(mode.AVEPOOL, 1, 20, 7, 7)),
            "add of two, 28 x 4 groups": (224, self.add_stream(28, 4)),
            "conv 56 x 4 groups, depthwise, LOAD, SAVE at once": (224, self.side_by_side(56)),
        }  # fmt: skip


def _with(instruction: isa.Conv, **changes: int) -> isa.Conv:
    values = {f.name: getattr(instruction, f.name) for f in isa.Conv.bit_fields()}
    return isa.Conv(**values | changes)


def program(stream: tuple[Unit, Callable[[int], Unit]], count: int) -> tuple[bytes, int]:
    """Return a program of ``count`` units, and its instructions; tokens left over are taken."""
    first, unit = stream
    body = [i for n in range(count) for i in unit(n)]
    closing: list[isa.Instruction] = []
    given = sum(i.ENGINE == Engine.CONV and bool(i.dpdby & LOAD) for i in body)
    taken = sum(i.ENGINE == Engine.LOAD and bool(i.dpdon & CONV) for i in body)
    closing += [isa.Load(dpdon=LOAD | CONV, reg_id=0, channel=16) for _ in range(given - taken)]
    # END waits for all engines that have worked
    ends = {
        Engine.LOAD: isa.Load(dpdby=SAVE, reg_id=0, channel=16, bank_addr=2047),
        Engine.CONV: isa.ConvInit(dpdby=SAVE),
        Engine.MISC: isa.AluInit(dpdby=SAVE),
    }
    worked = {i.ENGINE for i in [*first, *body]} & set(ends)
    closing += [ends[engine] for engine in sorted(worked)]
    closing.append(isa.End(dpdon=sum(1 << engine for engine in worked)))
    instructions = [*first, *body, *closing]
    return isa.encode(instructions), len(instructions)


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="B4096", help="name or fingerprint (B4096)")
    parser.add_argument("--memory", default="kv260", help="kv260, ideal or stall:<seed> (kv260)")
    given = parser.parse_args()
    target = Target.from_name(given.target)
    device, model = RtlDevice(target, memory=given.memory), IssDevice(target)
    data = np.random.default_rng(1).integers(0, 256, 1 << 21, np.uint8)
    measured = {}
    for name, (best, stream) in Streams(target).all().items():
        cycles = []
        for count in (FEW, MANY):
            code, _ = program(stream, count)
            results = []
            for machine in (device, model):
                segments = {0: data, 1: np.zeros(1 << 16, np.uint8)}
                statistics = machine.run(Job(code, segments))
                results.append(segments[1])
                if machine is device:
                    cycles.append(statistics.cycles)
            if not np.array_equal(results[0], results[1]):
                raise SystemExit(f"{name}: the RTL saved other bytes than the functional simulator")
        took = (cycles[1] - cycles[0]) / (MANY - FEW)
        measured[name] = {"cycles": round(took, 2), "at_best": best, "total": cycles[1]}
    result = {"target": target.name, "memory": given.memory, "streams": measured}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
