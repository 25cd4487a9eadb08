# SPDX-License-Identifier: Apache-2.0
"""Small targets of odd options, drawn at random: built or refused, linted, simulated."""

import pathlib
import random
import shutil
import subprocess

import numpy as np
import pytest

from opendpu.runtime.device import Job
from opendpu_arch.errors import DPUError
from opendpu_arch.extensions import Extension
from opendpu_arch.target import ARCHITECTURES, Target
from opendpu_hw.__main__ import main
from opendpu_hw.boards.catalog import BOARDS, ZynqBoard
from opendpu_hw.options import VALUES, check
from opendpu_hw.verilog import TOP
from opendpu_sim.device import IssDevice
from opendpu_sim.progen import ENGINES, random_program
from opendpu_sim.rtl.build import build
from opendpu_sim.rtl.device import RtlDevice
from opendpu_sim.rtl.tools import run_verilator

pytestmark = pytest.mark.cosim

HERE = pathlib.Path(__file__).parent
PRIMITIVES = {"DSP48E2": "dsp48e2.v", "URAM288_BASE": "uram288.v", "DP16KD": "dp16kd.v"}
WAIVERS = HERE.parents[1] / "hw" / "opendpu_hw" / "lint.vlt"
SMALL = [n for n, (pixels, channels) in enumerate(ARCHITECTURES) if pixels * channels**2 <= 128]

#: Of these ten each vendor has some, and UltraRAM, the doubled clock, LEAKYRELU in blocks, three
#: rows of the ALU one.
SEEDS = (0, 1, 3, 5, 9, 14, 19, 23, 29, 40)


def draw_target(rng):
    """Return a target that the fingerprint can name, of at most 128 MACs a cycle."""
    arch = rng.choice(SMALL)
    flags = ("channel_augmentation", "conv_leaky_relu", "alu_leaky_relu", "save_argmax")
    return Target(
        arch=arch,
        alu_pixel_parallel=rng.randint(1, ARCHITECTURES[arch][0]),
        bank_groups=rng.randint(1, 3),
        load_mean=rng.random() < 0.05,
        log2_conv_write_parallel=rng.choice((0, 0, 1, 2)),
        log2_alu_write_parallel=rng.choice((0, 0, 1, 2)),
        extensions=frozenset(e for e in Extension if rng.random() < 0.4),
        **{flag: rng.random() < 0.6 for flag in flags},
    )


def draw_options(rng, target):
    """Return some options of the top module, some of which no target has."""
    drawn = {
        "vendor": rng.choice((None, "xilinx", "xilinx", "ecp5")),
        "leaky_blocks": rng.choice(
            (None, True, False, rng.randint(0, target.output_channel_parallel + 1))
        ),
        "ultra_ram": rng.randint(0, target.dwconvw_bank + 1),
        "taps_per_cycle": rng.choice((0, 1, 2, 3, 4, 7)),
        "window": rng.random() < 0.5,
        "dsp_double_rate": True,
    }
    assert drawn.keys() == VALUES.keys()
    likely = {"vendor": 0.8, "window": 0.5}
    return {name: value for name, value in drawn.items() if rng.random() < likely.get(name, 0.3)}


def legal(rng):
    """Return a target and options that :func:`opendpu_hw.options.check` accepts."""
    while True:
        target = draw_target(rng)
        options = draw_options(rng, target)
        try:
            check(target, **options)
        except DPUError:
            continue
        return target, options


def test_drawn_options_are_accepted_or_refused_by_name(rng):
    """Nothing but errors of the family, which name an option or the target."""
    draws = random.Random(int(rng.integers(1 << 30)))
    accepted = 0
    for _ in range(300):
        target = draw_target(draws)
        options = draw_options(draws, target)
        assert Target.from_fingerprint(target.fingerprint) == target
        try:
            check(target, **options)
        except DPUError as error:
            assert any(name in str(error) for name in (*options, "load_mean", "UltraRAM")), error
        else:
            accepted += 1
    assert 100 < accepted < 280


def lint(source):
    """Return what Verilator and Icarus say of a file."""
    said = run_verilator(
        ["--lint-only", "-Wall", "--top-module", TOP, str(WAIVERS), str(source)], cwd=source.parent
    )
    warnings = [line for line in said.splitlines() if line.startswith("%")]
    if shutil.which("iverilog"):
        done = subprocess.run(
            ["iverilog", "-g2001", "-Wall", "-t", "null", "-s", TOP, str(source)],
            capture_output=True,
            text=True,
            check=False,
        )
        warnings += (done.stdout + done.stderr).splitlines()
    return warnings


def generate(rng, target, options, folder):
    """Write the Verilog as the command line does, for a board or without one; return its text."""
    arguments = ["--target", f"{target.fingerprint:#x}", "-o", str(folder)]
    arguments += ["--vendor", options.get("vendor") or "none"]
    for name, value in options.items():
        if name != "vendor":
            arguments += ["--option", f"{name}={value}"]
    boards = [
        b.name
        for b in BOARDS.values()
        if isinstance(b, ZynqBoard)
        and (b.resources.ultra_ram or not (options.get("vendor") and options.get("ultra_ram")))
    ]
    fits = options.get("vendor") in (None, ZynqBoard.vendor)
    board = rng.choice((None, *boards)) if fits else None
    if board:
        arguments += ["--board", board, "--clock-mhz", str(rng.choice((50, 123.4, 300)))]
    print(" ".join(arguments))
    assert main(arguments) == 0
    (source,) = folder.rglob(f"{target.name}.v")
    return source.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_targets(seed, tmp_path):
    """Verilog without a warning, whose results are those of the functional simulator."""
    rng = random.Random(seed)
    target, options = legal(rng)
    text = generate(rng, target, options, tmp_path)
    models = "".join(
        (HERE / file).read_text(encoding="utf-8")
        for primitive, file in PRIMITIVES.items()
        if f"  {primitive} #(" in text
    )
    # A model has but what tests need, and ports that write one after the other.
    rules = ("UNUSEDPARAM", "UNUSEDSIGNAL", "WIDTHEXPAND", "BLKSEQ")
    off = "".join(f"/* verilator lint_off {rule} */\n" for rule in rules)
    source = tmp_path / "dpu.v"
    source.write_text(text + (off + models if models else ""), encoding="utf-8")
    assert lint(source) == []
    rtl = RtlDevice(target, memory="kv260", simulator=build(text + models, what=target.name))
    for engine in ENGINES:
        for _ in range(6):
            number = rng.randrange(1 << 30)
            code, given = random_program(engine, target, number)
            found = []
            for device in (rtl, IssDevice(target)):
                segments = {reg_id: data.copy() for reg_id, data in given.items()}
                device.run(Job(code, segments))
                found.append(segments)
            for reg_id in given:
                np.testing.assert_array_equal(
                    *(segments[reg_id] for segments in found),
                    err_msg=f"random_program({engine!r}, {target}, {number}): REG_{reg_id}",
                )
