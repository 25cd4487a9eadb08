# SPDX-License-Identifier: Apache-2.0
"""Targets that no size has by default: RTL, functional simulator and cycle model must agree."""

import dataclasses
import functools

import numpy as np
import pytest

from opendpu.runtime.device import Job
from opendpu_arch.target import Target
from opendpu_hw.engine.misc_plan import effective_taps
from opendpu_sim.cycle.device import CycleDevice
from opendpu_sim.device import IssDevice
from opendpu_sim.progen import random_program
from opendpu_sim.rtl.device import RtlDevice

pytestmark = pytest.mark.cosim


def target(name, **options):
    return dataclasses.replace(Target.from_name(name), **options)


@functools.cache
def devices(which, **options):
    return (
        RtlDevice(which, memory="kv260", trace=True, **options),
        IssDevice(which),
        CycleDevice(which, memory="kv260", results=False, **options),
    )


def compare(which, engine, seed, **options):
    """One random program on all three; what differs is named with the seed."""
    rtl, iss, cycle = devices(which, **options)
    code, given = random_program(engine, which, seed)
    where = f"random_program({engine!r}, {which}, {seed}) with {options}"
    found = {}
    for device in (rtl, iss):
        segments = {reg_id: data.copy() for reg_id, data in given.items()}
        found[device.name] = segments, device.run(Job(code, segments))
    for reg_id in given:
        np.testing.assert_array_equal(
            found["rtl"][0][reg_id], found["iss"][0][reg_id], err_msg=f"{where}: REG_{reg_id}"
        )
    measured, predicted = found["rtl"][1], cycle.run(Job(code, given))
    for moment in ("start", "end"):
        np.testing.assert_array_equal(
            getattr(predicted.timeline, moment), getattr(measured.timeline, moment), err_msg=where
        )
    assert predicted.cycles == measured.cycles, where


@pytest.mark.slow
def test_three_taps_the_window_and_three_bank_groups(rng):
    """PP is not twice the rows of the ALU either, and LEAKYRELU is where it is not by default.

    With a vendor's primitives such a target is one of the quick ones (``test_vendor``).
    """
    which = target(
        "B512", bank_groups=3, conv_leaky_relu=False, alu_leaky_relu=True, alu_pixel_parallel=1
    )
    assert effective_taps(which, 3) == 3
    assert which.pixel_parallel != 2 * which.alu_pixel_parallel
    for engine in ("conv", "dwconv", "pool", "misc", "mixed"):
        for _ in range(4):
            compare(which, engine, int(rng.integers(1 << 30)))


@pytest.mark.slow
def test_three_taps_and_the_window(rng):
    which = target("B512")
    for engine in ("dwconv", "pool", "misc", "mixed"):
        for _ in range(10):
            compare(which, engine, int(rng.integers(1 << 30)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"bank_groups": 1},
        {"bank_groups": 3, "conv_leaky_relu": False, "alu_leaky_relu": True,
         "alu_pixel_parallel": 2},
    ],
)  # fmt: skip
def test_other_bank_groups(options, rng):
    """Odd numbers of bank groups; with three PP is not twice the rows of the ALU either."""
    which = target("B64", **options)
    for engine in ("conv", "dwconv", "misc", "mixed"):
        for _ in range(4):
            compare(which, engine, int(rng.integers(1 << 30)))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 4])
def test_other_alu_rows(rows, rng):
    """PP is not twice the rows of the ALU."""
    which = target("B128", alu_pixel_parallel=rows)
    for engine in ("dwconv", "pool", "misc", "mixed"):
        for _ in range(10):
            compare(which, engine, int(rng.integers(1 << 30)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["B128", "B512", "B1024"])
@pytest.mark.parametrize(
    "options", [{"taps_per_cycle": 1}, {"taps_per_cycle": 2}, {"window": False}]
)
def test_other_misc_engines(name, options, rng):
    which = target(name)
    for engine in ("dwconv", "pool", "misc", "mixed"):
        for _ in range(10):
            compare(which, engine, int(rng.integers(1 << 30)), **options)
