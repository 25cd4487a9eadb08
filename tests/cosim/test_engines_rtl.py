# SPDX-License-Identifier: Apache-2.0
"""Random programs for every engine on the RTL, compared with the functional simulator."""

import functools
import os

import numpy as np
import pytest

from opendpu.runtime.device import Job
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice
from opendpu_sim.progen import ENGINES, random_program
from opendpu_sim.rtl.device import RtlDevice

pytestmark = pytest.mark.cosim

FIRST_SEED = int(os.environ.get("OPENDPU_SEED", 0))
"""Seeds count from here; a failure names the one to repeat."""
QUICK = 10
"""Programs an engine in a quick run."""


@functools.cache
def devices(name, memory):
    target = Target.from_name(name)
    return IssDevice(target), RtlDevice(target, memory=memory, timeout_cycles=5_000_000)


def compare(name, memory, engine, seed):
    """Run one program on both devices; the segments must be equal, byte for byte."""
    iss, rtl = devices(name, memory)
    code, segments = random_program(engine, iss.target, seed)
    expected = {reg: content.copy() for reg, content in segments.items()}
    ran = iss.run(Job(code, expected))
    found = {reg: content.copy() for reg, content in segments.items()}
    where = f"random_program({engine!r}, {name}, {seed}) with {memory}"
    try:
        statistics = rtl.run(Job(code, found))
    except Exception as error:
        raise AssertionError(f"{where}: {error}") from error
    for reg in segments:
        different = np.flatnonzero(expected[reg] != found[reg])
        assert not different.size, (
            f"{where}: segment {reg} differs in {different.size} of {expected[reg].size} bytes, "
            f"first at {different[0]:#x}: {found[reg][different[0]]} instead of "
            f"{expected[reg][different[0]]}"
        )
    assert statistics.instructions == ran.instructions, where
    assert 0 < statistics.cycles < 5_000_000, where


@pytest.mark.parametrize("engine", ENGINES)
def test_quick_sample(engine):
    for seed in range(FIRST_SEED, FIRST_SEED + QUICK):
        memory = ("ideal", "kv260", f"stall:{seed}")[seed % 3]
        compare("B64", memory, engine, seed)


def test_one_device_runs_program_after_program():
    """What one program leaves in banks, INITs and counters must not reach the next."""
    for seed in range(FIRST_SEED, FIRST_SEED + 8):
        for engine in ENGINES:
            compare("B64", "ideal", engine, 1000 + seed)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["ideal", "kv260", "stall"])
@pytest.mark.parametrize("engine", ENGINES)
def test_small_target_for_long(engine, memory):
    for seed in range(10_000, 10_000 + 300):
        model = f"stall:{seed // 50}" if memory == "stall" else memory
        compare("B64", model, engine, seed)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["B128", "B512", "B1024", "B1600", "B4096"])
def test_other_targets(name, engine):
    for seed in range(20_000, 20_000 + 30):
        memory = ("ideal", "kv260", "stall:1")[seed % 3]
        compare(name, memory, engine, seed)
