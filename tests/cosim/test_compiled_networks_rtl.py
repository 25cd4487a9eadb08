# SPDX-License-Identifier: Apache-2.0
"""Programs of our compiler on the RTL: random networks, and how busy they keep the array."""

import pathlib
import sys

import numpy as np
import pytest

from opendpu.compiler import backend
from opendpu.compiler.backend import build
from opendpu.compiler.layers import misc
from opendpu.compiler.planner.revise import BankCapacityError
from opendpu.runtime.device import Job
from opendpu_arch import isa
from opendpu_arch.target import Target
from opendpu_sim.rtl.device import RtlDevice

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "unit" / "opendpu" / "compiler"))
sys.path.append(str(TESTS.parent / "scripts" / "bench"))

import bench_conv_layer as bench  # noqa: E402
from network_draws import (  # noqa: E402
    draw_inputs,
    draw_network,
    expected,
    replace_pass,
    share_everything,
    view,
)

pytestmark = pytest.mark.cosim


def check_networks(rng: np.random.Generator, name: str, memory: str, count: int) -> None:
    target = Target.from_name(name)
    device = RtlDevice(target, memory=memory, timeout_cycles=20_000_000)
    for _ in range(count):
        seed = int(rng.integers(1 << 30))
        network = draw_network(seed)
        try:
            program = build(network, target)
        except BankCapacityError:
            continue  # a pooling window larger than so few banks
        segments = {r: np.zeros(max(n, 1), np.uint8) for r, n in program.plan.segment_bytes.items()}
        segments[0][: len(program.plan.blob)] = np.frombuffer(program.plan.blob, np.uint8)
        inputs = draw_inputs(network, seed)
        for key, values in inputs.items():
            view(program, segments, key)[...] = values
        device.run(Job(isa.encode(program.schedule.instructions), segments))
        wanted = expected(network, inputs)
        for key in network.outputs:
            np.testing.assert_array_equal(
                view(program, segments, key), wanted[key], err_msg=f"{key} of seed {seed}"
            )
    device.close()


def test_random_networks(rng: np.random.Generator) -> None:
    check_networks(rng, "B64", "stall:1", 15)


def test_random_networks_whose_layers_both_engines_share(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("balance", share_everything))
    check_networks(rng, "B64", "stall:1", 8)


def test_random_networks_whose_misc_engine_follows_the_array_by_channel_groups(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(misc, "SHORT_PASS", 1)
    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("balance", share_everything))
    check_networks(rng, "B64", "stall:3", 8)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["kv260", "stall:7"])
@pytest.mark.parametrize("name", ["B64", "B512", "B1152", "B4096"])
def test_many_random_networks(rng: np.random.Generator, name: str, memory: str) -> None:
    check_networks(rng, name, memory, 100)


@pytest.mark.slow
def test_the_array_is_kept_busy() -> None:
    """3x3, 64 to 64 channels, 56x56 on B4096: on chip 95 % of the cycles, from DDR 85 %."""
    target = Target.from_name("B4096")
    network = bench.make_network(56, 64, 3, 1, 0)
    for program, least in (
        (bench.on_chip_program(network, target, 3), 0.95),
        (build(network, target), 0.85),
    ):
        statistics = bench.measure(program, network, target, "rtl", "kv260", 0)
        assert statistics.busy_cycles["array"] >= least * statistics.cycles
