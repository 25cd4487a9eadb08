# SPDX-License-Identifier: Apache-2.0
"""The board's driver on the simulated DPU: programs, networks, faults."""

import pathlib
import tomllib

import numpy as np
import pytest

from opendpu import api
from opendpu.runtime import Runner
from opendpu.runtime.board import BoardDevice, LitexDevice
from opendpu.runtime.board.arena import Arena
from opendpu.runtime.device import Device, Job
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch import errors, isa
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice
from opendpu_sim.progen import random_program
from opendpu_sim.rtl.board import SimulatedBoard

pytestmark = pytest.mark.cosim
TARGET = Target.from_name("B64")
DIGITS = pathlib.Path(__file__).parents[2] / "scripts/demo/digits.onnx"


@pytest.fixture
def board():
    return SimulatedBoard(TARGET, memory="ideal")


@pytest.fixture
def device(board):
    made = BoardDevice(TARGET, transport=board)
    yield made
    made.close()


def both(device, code, segments):
    """Run a job on a device and on the functional simulator; return the segments of both."""
    expected = {reg_id: memory.copy() for reg_id, memory in segments.items()}
    IssDevice(TARGET).run(Job(code, expected))
    statistics = device.run(Job(code, segments))
    return segments, expected, statistics


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(device, seed):
    """Several on one device: each finds what it needs, whatever the one before left."""
    for engine in ("mixed", "conv", "save"):
        code, segments = random_program(engine, TARGET, seed)
        found, expected, statistics = both(device, code, segments)
        for reg_id in expected:
            assert np.array_equal(found[reg_id], expected[reg_id]), (engine, seed, reg_id)
        assert (statistics.device, statistics.cycles > 0) == ("board", True)
        assert statistics.instructions == sum(1 for _ in isa.iter_decode(code))


def test_is_a_device(device):
    assert isinstance(device, Device)


def test_the_network_of_the_demo(device, tmp_path):
    """A quantized and compiled network, image by image, as on the functional simulator."""
    rng = np.random.default_rng(5)
    images = rng.uniform(0, 1, (6, 1, 8, 8)).astype(np.float32)
    path = tmp_path / "digits.xmodel"
    api.compile_onnx(DIGITS, calibration={"image": images}, target=TARGET, output=path)
    [subgraph] = dpu_subgraphs(api.load(path))
    with Runner(subgraph, device=device) as runner, Runner(subgraph, device="iss") as iss:
        [name] = [tensor.name for tensor in runner.get_input_tensors()]
        for image in images[:3].reshape(-1, 1, 8, 8, 1):
            [found] = runner.run({name: image}).values()
            [expected] = iss.run({name: image}).values()
            assert np.array_equal(found, expected)


def test_constants_are_uploaded_once(device, board, monkeypatch):
    code, segments = random_program("mixed", TARGET, 7)
    content = segments[0].tobytes()
    stored = []
    store = board.memory.store
    monkeypatch.setattr(
        board.memory, "store", lambda at, data: (stored.append(data.size), store(at, data))
    )
    for run in range(3):
        stored.clear()
        fixed = {**segments, 0: np.frombuffer(content, np.uint8), 1: segments[1].copy()}
        both(device, code, fixed)
        constants = [len(code), len(content)] if run == 0 else []
        assert sorted(stored) == sorted([*constants, segments[1].size])


def test_arena_starts_anew_when_it_is_full(board):
    memory = board.memory
    arena = Arena(memory)
    codes = [np.full(memory.size // 2, n, np.uint8).tobytes() for n in range(3)]
    for n, code in enumerate(codes):
        segment = np.full(5000, n, np.uint8)
        place, offsets = arena.place(Job(code, {2: segment}))
        at = place.code - memory.address
        assert memory.content[at : at + len(code)].tobytes() == code
        assert place.bases[2] == memory.address + offsets[2]
        assert (memory.content[offsets[2] : offsets[2] + 5000] == n).all()
        assert offsets[2] % 4096 == 0


def test_a_job_that_does_not_fit(device, board):
    before = board.memory.content.copy()
    with pytest.raises(errors.DPUError, match=r"needs \d+ bytes .* which has 16777216"):
        device.run(Job(isa.encode([isa.End()]), {0: np.zeros(17 << 20, np.uint8)}))
    assert np.array_equal(before, board.memory.content)


def test_a_fault_is_raised_and_the_next_job_works(device):
    bad = isa.encode([isa.End()])[:-4] + (0x5000_0000).to_bytes(4, "little")
    with pytest.raises(errors.DecodeError, match=r"instruction 0 .*: unknown opcode 0x5"):
        device.run(Job(bad, {}))
    code, segments = random_program("mixed", TARGET, 1)
    found, expected, _ = both(device, code, segments)
    assert np.array_equal(found[1], expected[1])


def test_an_address_outside_its_segment(device):
    code, segments = random_program("load", TARGET, 3)
    segments[0] = segments[0][:8].copy()
    with pytest.raises(errors.AddressError, match="outside segment 0, which has 8 bytes"):
        device.run(Job(code, segments))


def test_another_fingerprint(board):
    wanted = Target.from_name("B512")
    with pytest.raises(
        errors.FingerprintError,
        match=rf"has DPU fingerprint {TARGET.fingerprint:#x}, but target {wanted.name} has",
    ):
        BoardDevice(wanted, transport=board)
    with pytest.raises(errors.ToolError, match="closed"):
        board.read(0)


def test_time_out_and_then_busy(board):
    code, segments = random_program("mixed", TARGET, 2)
    device = BoardDevice(TARGET, transport=board, timeout_seconds=1e-7)  # ten cycles
    with pytest.raises(errors.DPUTimeoutError, match="no interrupt after 1e-07 seconds"):
        device.run(Job(code, segments))
    with pytest.raises(errors.DPUError, match="still runs an earlier program"):
        device.run(Job(code, segments))


def test_entry_points():
    text = (pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["project"]["entry-points"]["opendpu.device"]
    assert entries["board"] == f"opendpu.runtime.board:{BoardDevice.__name__}"
    assert entries["litex"] == f"opendpu.runtime.board:{LitexDevice.__name__}"
