# SPDX-License-Identifier: Apache-2.0
"""How fast the RTL simulates with its array busy, and how long a build from nothing takes; JSON."""

import argparse
import json
import os
import resource
import sys
import tempfile
import time

import numpy as np

from opendpu.runtime.device import Job
from opendpu_arch import cache, isa
from opendpu_arch.target import Target
from opendpu_hw import verilog
from opendpu_sim.device import IssDevice
from opendpu_sim.rtl.build import build
from opendpu_sim.rtl.device import RtlDevice

COLUMNS, KERNEL, GROUPS = 56, 3, 4
"""Of each CONV: output columns, kernel size, groups of input channels."""


def program(target: Target, convolutions: int) -> tuple[bytes, dict[int, np.ndarray]]:
    """Return a program that convolves the same data again and again, and its segments."""
    pp, lanes = target.pixel_parallel, target.channel_parallel
    row = (COLUMNS + KERNEL - 1) * GROUPS
    taps = KERNEL * KERNEL * GROUPS
    fills = [(bank, 2 * row) for bank in range(pp)]
    fills += [(target.convw_base + lane, taps) for lane in range(lanes)] + [(target.bias_bank, 1)]
    instructions: list[isa.Instruction] = []
    address = 0
    for bank, words in fills:
        size = words * lanes
        for at in range(0, size, 8192):
            part = min(8192, size - at)
            instructions.append(
                isa.Load(
                    bank_id=bank,
                    bank_addr=at // lanes,
                    channel=part,
                    jump_read=part,
                    reg_id=0,
                    ddr_addr=address + at,
                )
            )
        address += size
    instructions[-1] = isa.Load(
        **{f.name: getattr(instructions[-1], f.name) for f in isa.Load.bit_fields()}
        | {"dpdby": 1 << isa.Engine.CONV}
    )
    instructions.append(
        isa.ConvInit(
            dpdon=1 << isa.Engine.LOAD,
            shift_cut=11,
            jump_read=GROUPS,
            jump_read_endl=row,
            kernel_h=KERNEL,
            kernel_w=KERNEL,
            valid_pixel_parallel=pp,
            act_type=isa.ActType.RELU,
        )
    )
    for number in range(convolutions):
        instructions.append(
            isa.Conv(
                dpdby=(number == convolutions - 1) << isa.Engine.SAVE,
                bank_id_in=0,
                bank_addr_in_1=row,
                channel_group=GROUPS,
                length=COLUMNS,
                pad_right=KERNEL - 1,
                pad_bottom=KERNEL - 1,
                bank_id_out=pp,
                bank_addr_out=number * COLUMNS % (target.bank_depth - COLUMNS),
            )
        )
    instructions.append(
        isa.Save(
            dpdon=1 << isa.Engine.CONV,
            bank_id=pp,
            channel=lanes,
            length=COLUMNS,
            jump_write=lanes,
            reg_id=1,
        )
    )
    instructions.append(isa.End())
    data = np.random.default_rng(1).integers(0, 256, address, np.uint8)
    return isa.encode(instructions), {0: data, 1: np.zeros(COLUMNS * lanes, np.uint8)}


def cold_build(target: Target) -> dict[str, float]:
    """Return the seconds a build takes with an empty cache."""
    before = os.environ.get(cache.ENVIRONMENT)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[cache.ENVIRONMENT] = folder
        try:
            start, used = time.monotonic(), _processor_seconds()
            text = verilog.elaborate(target)
            elaborated = time.monotonic()
            library = build(text)
            parts = json.loads(library.with_suffix(".json").read_text(encoding="utf-8"))
            return {
                "elaborate_seconds": round(elaborated - start, 1),
                "verilator_seconds": round(parts["verilator"], 1),
                "c++_seconds": round(parts["c++"], 1),
                "seconds": round(time.monotonic() - start, 1),
                "processor_seconds": round(_processor_seconds() - used, 1),
            }
        finally:
            if before is None:
                del os.environ[cache.ENVIRONMENT]
            else:
                os.environ[cache.ENVIRONMENT] = before


def _processor_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(r.ru_utime + r.ru_stime for r in map(resource.getrusage, kinds))


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="B4096", help="name or fingerprint (B4096)")
    parser.add_argument("--memory", default="kv260", help="kv260, ideal or stall:<seed> (kv260)")
    parser.add_argument("--cycles", type=int, default=200_000, help="about how many (200000)")
    parser.add_argument("--cold", action="store_true", help="also build with an empty cache")
    given = parser.parse_args()
    target = Target.from_name(given.target)
    steps = COLUMNS * KERNEL * KERNEL * GROUPS
    code, segments = program(target, max(1, given.cycles // steps))
    expected = {reg: content.copy() for reg, content in segments.items()}
    IssDevice(target).run(Job(code, expected))
    result: dict[str, object] = {"target": target.name, "memory": given.memory}
    if given.cold:
        result["cold_build"] = cold_build(target)
    device = RtlDevice(target, memory=given.memory)
    device.run(Job(code, segments))  # once to warm up
    used = time.process_time()
    statistics = device.run(Job(code, segments))
    used = time.process_time() - used
    busy = statistics.busy_cycles["array"]
    result |= {
        "cycles": statistics.cycles,
        "array_busy": round(busy / statistics.cycles, 4),
        "seconds": round(statistics.wall_seconds, 3),
        "processor_seconds": round(used, 3),
        "cycles_per_second": round(statistics.cycles / statistics.wall_seconds),
        "cycles_per_processor_second": round(statistics.cycles / used),
        "macs_per_second": round(busy * target.macs_per_cycle / statistics.wall_seconds),
        "equal_to_iss": bool(np.array_equal(segments[1], expected[1])),
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
