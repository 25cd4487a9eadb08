# SPDX-License-Identifier: Apache-2.0
"""From the events of the engines to a timeline in the order of the program."""

import numpy as np

from opendpu_arch import isa
from opendpu_arch.isa import Engine
from opendpu_sim.rtl.recorder import Recorder

PROGRAM = [isa.Load(), isa.Save(), isa.Load(), isa.ConvInit(), isa.End()]


def test_what_follows_end_does_not_count() -> None:
    code = isa.encode([*PROGRAM, isa.Load(), isa.Elew()])
    counts = Recorder(code).counts
    assert counts == [2, 2, 1, 0]  # END takes its turn at SAVE
    assert len(counts) == len(Engine)


def test_a_word_that_is_no_instruction_ends_the_program() -> None:
    assert Recorder(isa.encode(PROGRAM[:2]) + b"\0\0\0\x30" + isa.encode(PROGRAM)).counts == [
        1, 1, 0, 0,
    ]  # fmt: skip


def test_every_instruction_gets_the_times_of_its_turn() -> None:
    times = [([1, 5], [4, 9]), ([2, 10], [8, 11]), ([6], [7]), ([], [])]
    stamps = [tuple(np.array(part, np.int64) for part in pair) for pair in times]
    timeline = Recorder(isa.encode(PROGRAM)).timeline(stamps)
    assert timeline.start.tolist() == [1, 2, 5, 6, 10]
    assert timeline.end.tolist() == [4, 8, 9, 7, 11]
