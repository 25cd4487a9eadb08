# SPDX-License-Identifier: Apache-2.0
"""The trace of the RTL: when each instruction left its queue and gave its tokens."""

import collections
import os

import numpy as np
import pytest

from opendpu.runtime.device import Job
from opendpu_arch import isa
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target
from opendpu_sim.progen import ENGINES, random_program
from opendpu_sim.rtl.device import RtlDevice

pytestmark = pytest.mark.cosim

SEED = int(os.environ.get("OPENDPU_SEED", 0))


@pytest.fixture(scope="module", params=["ideal", "kv260", "stall:3"])
def device(request):
    return RtlDevice(Target.from_name("B64"), memory=request.param, trace=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_instructions_keep_their_order_and_wait_for_their_tokens(device, engine):
    for seed in range(SEED, SEED + 3):
        code, segments = random_program(engine, device.target, seed)
        statistics = device.run(Job(code, segments))
        start, end = statistics.timeline.start, statistics.timeline.end
        program = isa.decode(code)
        program = program[: next(i for i, x in enumerate(program) if isinstance(x, isa.End)) + 1]
        assert len(program) == len(start) == len(end) == statistics.instructions, seed
        assert (start >= 0).all() and (end >= start).all() and end.max() < statistics.cycles, seed
        given = collections.defaultdict(list)  # ends of those that gave tokens, by pair of engines
        for e in Engine:
            mine = [i for i, x in enumerate(program) if e == x.ENGINE]
            assert (np.diff(start[mine]) > 0).all() and (np.diff(end[mine]) > 0).all(), (seed, e)
            for i in mine:
                for to in program[i].signals():
                    given[e, to].append(end[i])
        taken = collections.Counter()
        for i, instruction in enumerate(program):
            e = instruction.ENGINE
            for source in instruction.waits_for():
                if source != e:
                    assert start[i] > given[source, e][taken[source, e]], (seed, i)
                    taken[source, e] += 1


def test_a_job_takes_the_same_cycles_each_time(device):
    code, segments = random_program("mixed", device.target, SEED)
    runs = [
        device.run(Job(code, {reg: content.copy() for reg, content in segments.items()}))
        for _ in range(3)
    ]
    for run in runs[1:]:
        assert run.cycles == runs[0].cycles
        assert np.array_equal(run.timeline.start, runs[0].timeline.start)
        assert np.array_equal(run.timeline.end, runs[0].timeline.end)


def test_no_timeline_without_trace():
    target = Target.from_name("B64")
    code, segments = random_program("load", target, SEED)
    copies = [{reg: content.copy() for reg, content in segments.items()} for _ in range(2)]
    plain = RtlDevice(target, memory="ideal").run(Job(code, copies[0]))
    traced = RtlDevice(target, memory="ideal", trace=True).run(Job(code, copies[1]))
    assert plain.timeline is None
    assert "timeline" not in traced.as_dict()
    assert plain.cycles == traced.cycles
