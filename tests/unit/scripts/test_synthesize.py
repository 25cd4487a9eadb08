# SPDX-License-Identifier: Apache-2.0
"""Counting what Yosys made; AMD's published figures."""

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "synth"))

from cells import Resources, count, total
from published import published
from synthesize import above, cells_of, is_of, table

from opendpu_arch.errors import ToolError

REPORT = """
5. Printing statistics.

=== lane ===

   Number of wires:                 12
   Number of cells:                  9
     CARRY8                          1
     DSP48E2                         2
     FDRE                            3
     LUT2                            1
     LUT6                            2

=== \\top ===

   Number of wires:                  4
   Number of cells:                  7
     FDSE                            1
     RAM32M16                        1
     RAMB18E2                        1
     RAMB36E2                        1
     SRL16E                          1
     lane                            2

=== design hierarchy ===

   top                               1
     lane                            2

   Number of cells:                 16
     LUT2                            2
"""


def test_cells_of_a_report():
    modules = cells_of(REPORT)
    assert set(modules) == {"lane", "top"}
    assert modules["lane"] == {"CARRY8": 1, "DSP48E2": 2, "FDRE": 3, "LUT2": 1, "LUT6": 2}
    assert modules["top"]["lane"] == 2


def test_resources_go_up_the_hierarchy():
    instances, own, together = total(cells_of(REPORT), "top")
    assert instances == {"lane": 2, "top": 1}
    assert own["lane"] == Resources(lut=3, ff=3, dsp=2)
    assert own["top"] == Resources(lut=9, ff=1, bram36=1.5)
    assert together == Resources(lut=15, ff=7, dsp=4, bram36=1.5)


def test_memories_of_luts_count_as_the_luts_they_take():
    assert count({"RAM32M": 1, "RAM64M8": 2, "SRLC32E": 3}).lut == 4 + 16 + 3


def test_both_forms_of_an_ultra_ram_count():
    assert count({"URAM288": 1, "URAM288_BASE": 2}) == Resources(uram=3)


def test_published_figures_include_our_options():
    assert published("B512") == Resources(lut=22798, ff=31782, dsp=110, bram36=73.5)
    assert published("B4096") == Resources(lut=51388, ff=98525, dsp=710, bram36=255)
    assert published("B64") is None


def test_the_table_has_a_line_a_module_and_the_ratio():
    instances, own, together = total(cells_of(REPORT), "top")
    modules = {n: {"instances": instances[n], **vars(r)} for n, r in own.items()}
    result = {"modules": modules, **vars(together), "amd": vars(Resources(lut=10, dsp=2))}
    lines = {line.split()[0]: line.split() for line in table(result).splitlines()}
    assert lines["lane"] == ["lane", "2", "6", "6", "4", "0", "0"]
    assert lines["in"][2:] == ["15", "7", "4", "1.5", "0"]
    assert lines["ratio"][1:] == ["1.50x", "2.00x"]


def test_limits_are_those_of_one_version():
    assert is_of("Yosys 0.23 (git sha1 7ce5011c24b)", "0.23")
    assert is_of("Yosys 0.23+12 (git sha1 7ce5011c24b)", "0.23")
    assert not is_of("Yosys 0.230 (git sha1 7ce5011c24b)", "0.23")
    assert not is_of("something else", "0.23")


def test_what_is_above_its_limit_is_named():
    result = {"target": "DPUCZDX8G_ISA1_B64", "lut": 101, "dsp": 7}
    assert above(result, {"B64": {"lut": 101, "dsp": 7}}) == []
    assert above(result, {"B64": {"lut": 100, "dsp": 8}}) == [
        "B64 has 101 lut, but 100 at most were agreed"
    ]
    with pytest.raises(ToolError, match="B64 has no limits; there are some for B512"):
        above(result, {"B512": {}})
