# SPDX-License-Identifier: Apache-2.0
"""From Verilog to a bitstream for ECP5, with a counter in the place of the DPU."""

import json

import pytest

from opendpu_arch import errors
from opendpu_hw.__main__ import main as write_project
from opendpu_hw.boards import ecp5
from opendpu_hw.tools import find

COUNTER = """\
module ulx3s(input clk25, output reg serial_tx);
  reg [23:0] count = 0;
  always @(posedge clk25) begin
    count <= count + 24'd1;
    serial_tx <= count[23];
  end
endmodule
"""
PINS = """\
LOCATE COMP "clk25" SITE "G2";
IOBUF PORT "clk25" IO_TYPE=LVCMOS33;
FREQUENCY PORT "clk25" {} MHz;
LOCATE COMP "serial_tx" SITE "L4";
IOBUF PORT "serial_tx" IO_TYPE=LVCMOS33;
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "ulx3s.v").write_text(COUNTER, encoding="utf-8")
    (tmp_path / "ulx3s.lpf").write_text(PINS.format(25), encoding="utf-8")
    files = ["ulx3s.v", "ulx3s.lpf"]
    (tmp_path / "soc.json").write_text(json.dumps({"board": "ulx3s", "files": files}))
    # What another target has left there.
    (tmp_path / "other.v").write_text(COUNTER, encoding="utf-8")
    return tmp_path


@pytest.fixture
def tools():
    try:
        for program in ("yosys", "nextpnr-ecp5", "ecppack"):
            find(program)
    except errors.ToolError as error:
        pytest.skip(str(error))


def test_bitstream(project, tools, capsys):
    before = {path.name for path in project.iterdir()}
    assert ecp5.main([str(project)]) == 0
    said = capsys.readouterr().out
    report = json.loads((project / "implementation.json").read_text(encoding="utf-8"))
    assert report["ff"] == {"used": 25, "there": 83640}
    assert report["block_ram"] == {"used": 0, "there": 208}
    [clock] = report["clocks"].values()
    assert clock["reached_mhz"] > clock["wanted_mhz"] == 25
    assert "25 asked for: met" in said
    content = (project / "ulx3s.bit").read_bytes()
    assert len(content) == report["bitstream_bytes"] > 10_000
    assert b"LFE5U-85F" in content[:200]
    after = {path.name for path in project.iterdir()}
    assert after - before == {"ulx3s.bit", "ulx3s.svf", "implementation.json"}


@pytest.mark.slow
def test_b64_fits_and_meets_its_clock(tmp_path, tools):
    """The whole system, routed to its end: a quarter of an hour of a processor."""
    pytest.importorskip("litedram")
    where = tmp_path / "ulx3s"
    assert write_project(["--target", "B64", "--board", "ulx3s", "-o", str(where)]) == 0
    assert ecp5.main([str(where)]) == 0
    report = json.loads((where / "implementation.json").read_text(encoding="utf-8"))
    for figure in ("lut", "ff", "dsp", "block_ram"):
        assert 0 < report[figure]["used"] < 0.6 * report[figure]["there"], figure
    assert all(c["reached_mhz"] >= c["wanted_mhz"] == 25 for c in report["clocks"].values())
    assert (where / "ulx3s.bit").stat().st_size == report["bitstream_bytes"] > 1_000_000


def test_a_missed_clock_is_said(project, tools, capsys):
    (project / "ulx3s.lpf").write_text(PINS.format(2000), encoding="utf-8")
    assert ecp5.main([str(project)]) == 2
    assert "2000 asked for: MISSED" in capsys.readouterr().out


def test_a_tool_fails(project, tools, capsys):
    (project / "ulx3s.v").write_text("module ulx3s(input clk25; endmodule\n", encoding="utf-8")
    before = {path.name for path in project.iterdir()}
    assert ecp5.main([str(project)]) == 1
    assert "yosys failed with status 1:" in capsys.readouterr().err
    assert {path.name for path in project.iterdir()} == before


def test_no_project(tmp_path, capsys):
    assert ecp5.main([str(tmp_path)]) == 1
    assert "holds no LiteX project" in capsys.readouterr().err


def test_another_family(tmp_path):
    (tmp_path / "soc.json").write_text('{"board": "kv260", "files": []}', encoding="utf-8")
    with pytest.raises(errors.ModelFormatError, match="is for AMD Kria KV260, which has no ECP5"):
        ecp5.implement(tmp_path)
