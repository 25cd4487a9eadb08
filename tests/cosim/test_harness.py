# SPDX-License-Identifier: Apache-2.0
"""The harness by itself, around a toy that copies beats from data0 to data1."""

import numpy as np
import pytest

from opendpu.runtime.device import Device, Job
from opendpu_arch import errors
from opendpu_arch.target import Target
from opendpu_hw.verilog import to_verilog
from opendpu_sim.rtl.build import build
from opendpu_sim.rtl.device import BusFault, RtlDevice
from opendpu_sim.rtl.memory import memory_model
from opendpu_sim.rtl.verilated import Verilated
from opendpu_sim.tb.standin import COPY, CROSS_PAGE, DROP_VALID, END, LOOP, WRONG_LAST, StandIn

pytestmark = pytest.mark.cosim
TARGET = Target.from_name("B64")


def program(*words):
    return np.array(words, "<u4").tobytes()


def copy(beats, source, sink):
    return COPY << 28 | beats, source, sink


def job(code, size=1 << 16, seed=0):
    rng = np.random.default_rng(seed)
    return Job(code, {0: rng.integers(0, 256, size, np.uint8), 1: np.zeros(size, np.uint8)})


@pytest.fixture(scope="module")
def simulator():
    return build(to_verilog(StandIn()), what="stand-in")


def device(simulator, **options):
    return RtlDevice(TARGET, simulator=simulator, **options)


@pytest.mark.parametrize("memory", ["kv260", "ideal", *(f"stall:{n}" for n in range(8))])
def test_copies(simulator, memory):
    dpu = device(simulator, memory=memory)
    assert isinstance(dpu, Device)
    for seed in range(3):  # the same device, again
        n, source, sink = 300 + seed, 48 + 16 * seed, 4096 * seed + 16
        this = job(program(*copy(n, source, sink), *copy(2, 0, 0), END << 28), seed=seed)
        statistics = dpu.run(this)
        expected = np.zeros_like(this.segments[1])
        expected[sink : sink + 16 * n] = this.segments[0][source : source + 16 * n]
        expected[:32] = this.segments[0][:32]
        assert np.array_equal(this.segments[1], expected)
        assert statistics.device == "rtl"
        assert statistics.memory == memory
        assert statistics.instructions == 3
        assert statistics.bytes_read == 16 * (n + 2) + 4 * 7
        assert statistics.bytes_written == 16 * (n + 2)
        assert statistics.cycles > n


def test_latency_is_cycles_from_address_to_first_beat(simulator):
    cycles = {}
    for memory in ("ideal", "kv260"):
        cycles[memory] = device(simulator, memory=memory).run(
            job(program(*copy(160, 0, 0), END << 28))
        )
    # Ten bursts wait for a first beat and for a response, four words are fetched one by one.
    assert cycles["kv260"].cycles - cycles["ideal"].cycles == (64 - 1) * (10 + 10 + 4)


@pytest.mark.parametrize("memory", ["ideal", "stall:3"])
def test_same_cycles_every_time(simulator, memory):
    code = program(*copy(500, 16, 32), END << 28)
    first, second = (device(simulator, memory=memory).run(job(code)).cycles for _ in range(2))
    assert first == second


def test_seeds_differ(simulator):
    code = program(*copy(500, 16, 32), END << 28)
    cycles = {device(simulator, memory=f"stall:{n}").run(job(code)).cycles for n in range(5)}
    assert len(cycles) == 5


def test_partial_beat_at_the_end_of_a_segment_reads_zeros(simulator):
    this = job(program(*copy(1, 0x20, 0), END << 28), size=0x25)
    this = Job(this.code, {0: this.segments[0], 1: np.full(64, 9, np.uint8)})
    device(simulator).run(this)
    assert np.array_equal(this.segments[1][:5], this.segments[0][0x20:])
    assert not this.segments[1][5:16].any()
    assert (this.segments[1][16:] == 9).all()


def test_write_beyond_a_segment_is_refused(simulator):
    memory = np.arange(64, dtype=np.uint8)
    backing = np.zeros(64, np.uint8)
    dpu = device(simulator)
    with pytest.raises(errors.BusError, match="write at byte 0x20 of segment 1"):
        dpu.run(Job(program(*copy(1, 0, 0x20), END << 28), {0: memory, 1: backing[:0x25]}))
    assert not backing.any()


def test_read_only_segment_is_not_written(simulator):
    this = job(program(*copy(1, 0, 0), END << 28))
    this.segments[1].flags.writeable = False
    with pytest.raises(errors.BusError, match="write at byte 0x0 of segment 1"):
        device(simulator).run(this)
    assert not this.segments[1].any()


@pytest.mark.parametrize("memory", ["ideal", "kv260", "stall:5"])
@pytest.mark.parametrize("response", [2, 3])
@pytest.mark.parametrize(
    ("port", "write", "text"),
    [
        ("data0", False, "read at byte 0x.* of segment 0"),
        ("data1", True, "write at byte 0x.* of segment 1"),
        ("instr", False, "answered its fetch"),
    ],
)
def test_injected_error_and_then_a_good_job(simulator, memory, response, port, write, text):
    dpu = device(simulator, memory=memory)
    segment = {"data0": 0, "data1": 1, "instr": -1}[port]
    offset = 12 if port == "instr" else 0x135
    dpu.bus_faults = [
        BusFault(port=port, write=write, segment=segment, offset=offset, response=response)
    ]
    code = program(*copy(64, 0, 0), END << 28)
    with pytest.raises(errors.BusError, match=text):
        dpu.run(job(code))
    dpu.bus_faults = []
    good = job(code)
    dpu.run(good)
    assert np.array_equal(good.segments[0][:1024], good.segments[1][:1024])


def test_unmapped_address_is_a_decode_error(simulator):
    dpu = device(simulator)
    with pytest.raises(errors.BusError, match="read at byte 0x10000 of segment 0"):
        dpu.run(job(program(*copy(4, 1 << 16, 0), END << 28)))


def test_program_without_end(simulator):
    with pytest.raises(errors.ProgramError, match="program of 12 bytes has no END"):
        device(simulator).run(job(program(*copy(1, 0, 0))))


def test_unknown_opcode(simulator):
    with pytest.raises(errors.DecodeError, match="unknown opcode 0x5"):
        device(simulator).run(job(program(0x5 << 28)))


@pytest.mark.parametrize("code", [b"", b"abc"])
def test_malformed_code(simulator, code):
    with pytest.raises(errors.ProgramError, match=f"machine code is {len(code)} bytes"):
        device(simulator).run(job(code))


def test_wrong_segments(simulator):
    dpu = device(simulator)
    with pytest.raises(errors.TensorError, match="segment 0 is int8"):
        dpu.run(Job(program(END << 28), {0: np.zeros(4, np.int8)}))  # type: ignore[dict-item]
    with pytest.raises(errors.TensorError, match=r"strides \(2,\)"):
        dpu.run(Job(program(END << 28), {0: np.zeros(8, np.uint8)[::2]}))
    with pytest.raises(errors.ProgramError, match=r"reg_id is 8, but must be in 0\.\.7"):
        dpu.run(Job(program(END << 28), {8: np.zeros(8, np.uint8)}))


def test_endless_program_times_out_and_the_next_works(simulator):
    dpu = device(simulator, timeout_cycles=120_000)
    with pytest.raises(errors.DPUTimeoutError, match="no interrupt after 120000 cycles"):
        dpu.run(job(program(LOOP << 28)))
    good = job(program(*copy(1, 0, 0), END << 28))
    dpu.run(good)
    assert np.array_equal(good.segments[0][:16], good.segments[1][:16])


def test_timeout_from_the_environment(simulator, monkeypatch):
    monkeypatch.setenv("OPENDPU_TIMEOUT_CYCLES", "1000")
    with pytest.raises(errors.DPUTimeoutError, match="no interrupt after 1000 cycles"):
        device(simulator).run(job(program(LOOP << 28)))
    monkeypatch.setenv("OPENDPU_TIMEOUT_CYCLES", "soon")
    with pytest.raises(errors.DPUTimeoutError, match="OPENDPU_TIMEOUT_CYCLES is 'soon'"):
        device(simulator)


@pytest.mark.parametrize(
    ("fault", "memory", "text"),
    [
        (DROP_VALID, "stall:0", "m_axi_data0: arvalid was dropped before arready"),
        (CROSS_PAGE, "ideal", "m_axi_data0: ar burst .* crosses a 4 KiB border"),
        (WRONG_LAST, "ideal", "m_axi_data1: wlast is 1 in beat 1 of 16"),
    ],
)
def test_broken_rules_are_named(simulator, fault, memory, text):
    dpu = device(simulator, memory=memory)
    with pytest.raises(errors.BusError, match=text):  # over the first border, not one of 8 KiB
        dpu.run(job(program(*copy(fault | 304, 16, 16), END << 28)))


@pytest.mark.slow
def test_waveform_only_on_request(simulator, tmp_path):
    dpu = Verilated(simulator)
    with pytest.raises(errors.ToolError, match="cannot be written by this build"):
        dpu.trace(tmp_path / "no.fst")
    traced = build(to_verilog(StandIn()), trace=True, what="stand-in")
    path = tmp_path / "wave.fst"
    dpu = device(traced, waveform=path, memory="ideal")
    with_wave = dpu.run(job(program(*copy(20, 0, 0), END << 28))).cycles
    dpu.close()
    assert path.stat().st_size > 1000
    plain = device(simulator, memory="ideal").run(job(program(*copy(20, 0, 0), END << 28)))
    assert plain.cycles == with_wave


def test_closed_device_says_so(simulator):
    dpu = device(simulator)
    dpu.close()
    with pytest.raises(errors.ToolError, match="closed"):
        dpu.run(job(program(END << 28)))


def test_model_is_part_of_the_settings(simulator):
    dpu = Verilated(simulator)
    dpu.configure(memory_model("stall:1"))
    dpu.reset()
    assert dpu.read(0) == 4  # idle
