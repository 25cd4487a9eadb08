# SPDX-License-Identifier: Apache-2.0
"""How the DDR model shares its bandwidth.

The harness of the RTL and the cycle model both rest on it, so comparing those two cannot find a
fault in it.
"""

import pathlib

import pytest

from opendpu_sim.rtl import tools
from opendpu_sim.rtl.build import headers

pytestmark = pytest.mark.cosim
SOURCE = pathlib.Path(__file__).with_name("ddr_shares.cpp")
WINDOW = 256
"""Cycles of a window, as ``rtl.memory`` documents it."""


@pytest.fixture(scope="module")
def shares(tmp_path_factory):
    """A function that runs ``ddr_shares.cpp`` and returns what it prints."""
    program = tmp_path_factory.mktemp("ddr") / "shares"
    (header,) = (h for h in headers() if h.name == "ddr_timing.h")
    command = [tools.compiler(), "-std=c++17", "-O1", f"-I{header.parent}", SOURCE, "-o", program]
    tools.run(command, cwd=program.parent)

    def run(limit, *, before, counted, first_cycles):
        streams = [str(n) for pair in first_cycles.items() for n in pair]
        said = tools.run(
            [program, *map(str, (limit, before, counted)), *streams], cwd=program.parent
        )
        *moved, most = map(int, said.split())
        return moved, most

    return run


READ_1, READ_2, WRITE_1, WRITE_2, NO_DATA_1, NO_DATA_2 = range(6)


@pytest.mark.parametrize("early", range(2))
@pytest.mark.parametrize("streams", [(READ_1, READ_2), (WRITE_1, WRITE_2)])
def test_a_port_that_comes_later_gets_its_half(shares, streams, early):
    """One port alone takes all there is, a beat a cycle; then the other one wants as much."""
    first_cycles = {s: 0 if i == early else 2 * WINDOW for i, s in enumerate(streams)}
    moved, most = shares(WINDOW, before=3 * WINDOW, counted=8 * WINDOW, first_cycles=first_cycles)
    assert [moved[s] for s in streams] == [4 * WINDOW, 4 * WINDOW]
    assert most == WINDOW


@pytest.mark.parametrize("alone", range(4))
def test_both_ports_get_the_same_of_reads_and_of_writes(shares, alone):
    """Two beats a cycle for two reads and two writes, whichever came first; none starves."""
    first_cycles = {s: 0 if s == alone else 2 * WINDOW for s in range(4)}
    moved, most = shares(
        2 * WINDOW, before=8 * WINDOW, counted=8 * WINDOW, first_cycles=first_cycles
    )
    assert sum(moved) == 8 * 2 * WINDOW
    assert abs(moved[READ_1] - moved[READ_2]) <= 16
    assert abs(moved[WRITE_1] - moved[WRITE_2]) <= 16
    assert min(moved) >= sum(moved) // 8
    assert most == 2 * WINDOW


@pytest.mark.parametrize("idle", [NO_DATA_1, NO_DATA_2])
def test_a_port_without_data_leaves_its_share_to_others(shares, idle):
    moved, most = shares(
        2 * WINDOW,
        before=4 * WINDOW,
        counted=8 * WINDOW,
        first_cycles={READ_1: 0, READ_2: 0, idle: 0},
    )
    assert min(moved[:2]) >= 8 * WINDOW - 16
    assert most <= 2 * WINDOW


@pytest.mark.parametrize("limit", [0, 4 * WINDOW])
def test_nobody_waits_where_there_is_enough(shares, limit):
    first_cycles = {READ_1: 0, WRITE_1: 0, READ_2: 0, WRITE_2: 0}
    moved, most = shares(limit, before=0, counted=2000, first_cycles=first_cycles)
    assert len(set(moved)) == 2  # reads and writes differ in when the first beat is due
    assert min(moved) >= 1990
    assert most >= 4 * WINDOW - 8
