# SPDX-License-Identifier: Apache-2.0
"""Array and memories of a vendor's primitives: results of the ISS, cycles of the cycle model.

Other tests hold the portable form against both, so it is not built here.
"""

import dataclasses
import functools
import pathlib
import re

import numpy as np
import pytest

from opendpu.runtime.device import Job
from opendpu_arch.target import Target
from opendpu_hw import verilog
from opendpu_hw.engine.misc_plan import effective_taps
from opendpu_sim.cycle.device import CycleDevice
from opendpu_sim.device import IssDevice
from opendpu_sim.progen import random_program
from opendpu_sim.rtl.build import build
from opendpu_sim.rtl.device import RtlDevice

pytestmark = pytest.mark.cosim

MODELS = {
    vendor: "".join(
        (pathlib.Path(__file__).parent / file).read_text(encoding="utf-8") for file in files
    )
    for vendor, files in {"xilinx": ("dsp48e2.v", "uram288.v"), "ecp5": ("dp16kd.v",)}.items()
}
BLOCKS = {"xilinx": ("DSP48E2",), "ecp5": ("DP16KD",)}
ECP5 = "ecp5"
LEAKY = ("B128", "B4096")
"""Targets whose LEAKYRELU is in DSP blocks here."""
ULTRA = "xilinx, UltraRAM"
"""Image banks, and half of CONVW's, in URAM288."""
DOUBLED = "xilinx, dpu_2x_clk"
BOTH = "xilinx, UltraRAM, dpu_2x_clk"


@functools.cache
def device(target, form):
    name = target.name
    vendor = form.split(",")[0]
    leaky = vendor == "xilinx" and name.split("+")[0] in LEAKY
    options = {"vendor": vendor, "leaky_blocks": leaky}
    if form in (ULTRA, BOTH):
        options["ultra_ram"] = target.convw_base + target.output_channel_parallel // 2
    if form in (DOUBLED, BOTH):
        options["dsp_double_rate"] = True
    text = verilog.elaborate(target, **options) + MODELS[vendor]
    assert all(f"  {block} #(" in text for block in BLOCKS[vendor])
    path = build(text, what=f"{target.name} of {form}")
    return RtlDevice(target, memory="ideal", trace=True, simulator=path)


def compare(name, engine, seed, *, form="xilinx", **options):
    target = dataclasses.replace(Target.from_name(name), **options)
    code, given = random_program(engine, target, seed)
    where = f"random_program({engine!r}, {target}, {seed}) of {form}"
    expected, found = ({reg_id: data.copy() for reg_id, data in given.items()} for _ in range(2))
    IssDevice(target).run(Job(code, expected))
    timed = device(target, form).run(Job(code, found))
    for reg_id in given:
        np.testing.assert_array_equal(
            found[reg_id], expected[reg_id], err_msg=f"{where}: REG_{reg_id}"
        )
    wanted = CycleDevice(target, memory="ideal", results=False).run(Job(code, given))
    assert timed.cycles == wanted.cycles, where
    np.testing.assert_array_equal(timed.timeline.end, wanted.timeline.end, err_msg=where)


@pytest.mark.parametrize("engine", ["conv", "dwconv", "pool", "misc", "mixed"])
def test_all_primitives_of_xilinx(engine, rng):
    """DSP blocks, every second edge of whose clock comes with one of the DPU's, and UltraRAM.

    B128 has three taps and the window; bank groups are odd, and there is one row of the ALU for
    four pixels of the array. Weights of both kinds of memory are late by the same; all engines
    meet in the image banks. Each option alone, and B64+scaled, whose padding has its zero point
    behind its registers, are slow ones.
    """
    options = {"bank_groups": 3, "alu_pixel_parallel": 1}
    assert Target.from_name("B128").pixel_parallel == 4
    assert effective_taps(Target.from_name("B128"), 3) == 3
    for _ in range(6):
        seed = int(rng.integers(1 << 30))
        compare("B128+scaled", engine, seed, form=BOTH, **options)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["conv", "misc", "mixed"])
def test_dp16kd(engine, rng):
    """What a word answers that is being written, which the model spoils, matters to no program."""
    for _ in range(6):
        compare("B64", engine, int(rng.integers(1 << 30)), form=ECP5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["B64", "B512", "B4096"])
def test_ultra_ram_of_other_targets(name, rng):
    for _ in range(10):
        compare(name, "mixed", int(rng.integers(1 << 30)), form=ULTRA)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["B128", "B512"])
def test_ultra_ram_with_doubled_clock_of_other_targets(name, rng):
    for engine in ("conv", "dwconv", "mixed"):
        for _ in range(10):
            compare(name, engine, int(rng.integers(1 << 30)), form=BOTH)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "B128", "B512", "B800", "B1024", "B1152", "B4096",
        "B128+table+channel+scaled", "B1024+scaled",
    ],
)  # fmt: skip
def test_doubled_clock_of_other_targets(name, rng):
    """With LEAKYRELU in blocks and without."""
    for _ in range(10):
        for engine in ("conv", "dwconv", "mixed"):
            compare(name, engine, int(rng.integers(1 << 30)), form=DOUBLED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "B64", "B128", "B144", "B512", "B1152", "B4096",
        "B64+scaled", "B128+scaled", "B512+scaled", "B4096+table+channel+scaled",
    ],
)  # fmt: skip
def test_dsp48e2_of_other_targets(name, rng):
    for _ in range(10):
        for engine in ("conv", "dwconv", "mixed"):
            compare(name, engine, int(rng.integers(1 << 30)))


def blocks_of(text, module=verilog.TOP):
    """Return how many DSP48E2 a module of Verilog has, those of modules below it included."""
    inside = re.search(rf"^module {module}\(.*?^endmodule", text, re.M | re.S)
    below = re.findall(r"^  (opendpu_\w+) +\\?\S+ +\($", inside[0], re.M)
    return inside[0].count("  DSP48E2 #(") + sum(blocks_of(text, name) for name in below)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) for name in ("B128", "B512", "B4096")]
)
def test_doubled_clock_halves_the_blocks(name):
    """One for four pixels in the array and behind it, two for four rows in the window."""
    target = Target.from_name(name)
    pixels, channels = target.pixel_parallel, target.output_channel_parallel
    text = verilog.elaborate(target, vendor="xilinx", dsp_double_rate=True)
    array = pixels // 4 * channels * (target.input_channel_parallel + 1)
    taps = columns = target.alu_pixel_parallel // 2 * target.channel_parallel * 3
    assert blocks_of(text) == array + taps + columns


@pytest.mark.slow
def test_array_of_the_vendor_has_its_blocks():
    """Two products a block."""
    text = verilog.elaborate(Target.from_name("B64"), vendor="xilinx")
    # first, middle and last of a cascade; of B64's depthwise sums the first and the last
    assert text.count("  DSP48E2 #(") == 5
    assert "DSP48E2" not in verilog.elaborate(Target.from_name("B64"))


@pytest.mark.slow
def test_memories_of_ecp5_are_there_once():
    """A bank of B64 has words of 32 bits: four blocks of nine, two ports each."""
    text = verilog.elaborate(Target.from_name("B64"), vendor="ecp5")
    assert text.count("  DP16KD #(") == 4
    assert "DP16KD" not in verilog.elaborate(Target.from_name("B64"))
