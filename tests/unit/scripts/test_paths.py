# SPDX-License-Identifier: Apache-2.0
"""The longest paths of netlists of a few cells."""

import json
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "synth"))

from ecp5 import below, between_registers
from paths import ECP5, XCUP, Netlist
from synthesize import by_clocks

from opendpu_arch.errors import ToolError
from opendpu_hw import tools


def cell(kind, parameters=None, **connections):
    """A cell; ports in capitals that begin with O, Q, P or CO are outputs."""
    outputs = ("O", "Q", "P", "CO", "DOUT")
    return {
        "type": kind,
        "parameters": parameters or {},
        "port_directions": {
            port: "output" if port.startswith(outputs) else "input" for port in connections
        },
        "connections": connections,
    }


def netlist(cells, names, technology=XCUP):
    nets = {name: {"hide_name": 0, "bits": bits} for name, bits in names.items()}
    return Netlist({"modules": {"m": {"cells": cells, "netnames": nets}}}, "m", technology)


def register(d, q):
    return cell("FDRE", C=[2], D=[d], Q=[q])


def test_luts_count_a_level_each_and_the_longest_way_is_taken():
    made = netlist(
        {
            "from": register(90, 10),
            "other": register(91, 11),
            "near": cell("LUT2", I0=[10], I1=[11], O=[20]),
            "far": cell("LUT1", I0=[20], O=[21]),
            "both": cell("LUT3", I0=[21], I1=[11], I2=["0"], O=[22]),
            "slow": register(22, 12),
            "fast": register(20, 13),
        },
        {"a": [10, 11], "between": [21], "sum": [12], "quick": [13], "$made": [22]},
    )
    slow, fast = made.longest(5)
    assert (slow.cost, slow.end, dict(slow.cells)) == (3, "sum", {"LUT1": 1, "LUT2": 1, "LUT3": 1})
    assert slow.begin in ("a[0]", "a[1]") and slow.through == ("between",)
    assert (fast.cost, fast.end) == (1, "quick")
    assert made.longest(1) == [slow]
    assert str(fast) == f"1: {fast.begin} to quick (1 LUT2)"


def test_paths_by_clock():
    """From the slow clock's register two levels to itself, one to the fast one; none back."""
    made = netlist(
        {
            "slow": register(22, 10),
            "near": cell("LUT1", I0=[10], O=[20]),
            "far": cell("LUT2", I0=[20], I1=[13], O=[22]),
            "fast": cell("FDRE", C=[3], D=[20], Q=[11]),
            "faster": cell("FDRE", C=[3], D=[11], Q=[12]),
            "back": register(11, 13),
        },
        {"clk": [2], "dpu_2x_clk": [3], "a": [10], "b": [11], "c": [12], "d": [13]},
    )
    assert made.clocks() == ["clk", "dpu_2x_clk"]
    found = {pair: (path.cost, path.begin, path.end) for pair, path in by_clocks(made).items()}
    assert found == {
        "clk to clk": (2, "a", "a"),
        "clk to dpu_2x_clk": (1, "a", "b"),
        "dpu_2x_clk to clk": (0, "b", "d"),
        "dpu_2x_clk to dpu_2x_clk": (0, "b", "c"),
    }


def test_a_carry_chain_is_one_level_however_long():
    cells = {"from": register(90, 10), "to": register(31, 12)}
    cells["first"] = cell("CARRY8", CI=["0"], S=[10], DI=["0"], O=[19], CO=[20])
    cells["second"] = cell("CARRY8", CI=[20], S=["0"], DI=["0"], O=[30], CO=[21])
    cells["lut"] = cell("LUT1", I0=[30], O=[31])
    (path,) = netlist(cells, {"sum": [12]}).longest(3)
    assert path.cost == 2


@pytest.mark.parametrize(
    ("registers", "cost"), [({}, 4), ({"PREG": "1"}, 1), ({"MREG": "1", "AREG": "0"}, 1)]
)
def test_a_dsp_block_ends_paths_only_with_its_registers(registers, cost):
    cells = {
        "from": register(90, 10),
        "lut": cell("LUT1", I0=[10], O=[11]),
        "product": cell("DSP48E2", registers, A=[11], P=[20]),
        "to": register(20, 12),
    }
    assert netlist(cells, {"sum": [12]}).longest(1)[0].cost == cost


def test_block_ram_answers_late_on_ecp5():
    cells = {
        "ram": cell("DP16KD", ADA0=[9], DOUT=[10]),
        "from": cell("TRELLIS_FF", DI=[8], Q=[11]),
        "lut": cell("LUT4", A=[10], B=[11], Z=[20]),
        "to": cell("TRELLIS_FF", DI=[20], Q=[12]),
    }
    cells["lut"]["port_directions"]["Z"] = "output"
    (path,) = netlist(cells, {"word": [10], "bit": [11], "sum": [12]}, ECP5).longest(1)
    assert path.begin == "word" and path.cost > 8000


def test_a_loop_is_named():
    cells = {
        "one": cell("LUT2", I0=[11], I1=["1"], O=[10]),
        "two": cell("LUT1", I0=[10], O=[11]),
    }
    with pytest.raises(ValueError, match="round depends on itself"):
        netlist(cells, {"round": [10, 11][:1], "trip": [11]})


VERILOG = """
module opendpu_part(clk, rst, a, \\begin );
  input clk;
  input rst;
  input [3:0] a;
  output [1:0] \\begin ;
  assign \\begin = a[1:0] & a[3:2];
endmodule
"""


def test_a_part_is_put_between_registers(tmp_path):
    text = between_registers(VERILOG, "opendpu_part", "bench")
    assert "input [3:0] p_a; reg [3:0] r_a;" in text
    assert "always @(posedge clk) r_begin <= w_begin;" in text
    (tmp_path / "bench.v").write_text(VERILOG + text)
    script = "read_verilog bench.v; synth_ecp5 -top bench -json bench.json"
    tools.run(tmp_path, "yosys", "-q", "-p", script)
    (path,) = Netlist(json.loads((tmp_path / "bench.json").read_text()), "bench", ECP5).longest(5)
    assert path.cells == {"LUT4": 1} and path.end.endswith("begin")
    with pytest.raises(ToolError, match="the Verilog has no module opendpu_other"):
        between_registers(VERILOG, "opendpu_other", "bench")


def test_slower_than_agreed():
    assert below({"load": 79.96, "save": 80}, {"load": 80, "save": 80, "conv": 99}) == [
        "load reaches 80.0 MHz, but 80 at least were agreed"
    ]
