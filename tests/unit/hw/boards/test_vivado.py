# SPDX-License-Identifier: Apache-2.0
"""The Vivado script, run by Tcl against a stand-in that knows which pins each cell has."""

import os
import pathlib
import shutil
import subprocess

import pytest

from opendpu_hw.boards import vivado
from opendpu_hw.boards.catalog import BOARDS, ZynqBoard

STAND_IN = pathlib.Path(__file__).with_name("vivado_stand_in.tcl")
ZYNQ = [board for board in BOARDS.values() if isinstance(board, ZynqBoard)]


def run(script, folder, *, board_files=1, progress="100%", slack="0.25", divide=12):
    """Return the exit status and what the stand-in printed, a list of lines."""
    if shutil.which("tclsh") is None:
        pytest.skip("there is no tclsh (apt install tcl)")
    path = folder / "vivado.tcl"
    path.write_text(script, encoding="utf-8")
    environment = {"BOARD_FILES": str(board_files), "PROGRESS": progress, "SLACK": slack}
    environment["DIVIDE"] = str(divide)
    done = subprocess.run(
        ["tclsh", str(STAND_IN), str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stdout.splitlines() + done.stderr.splitlines()


@pytest.mark.parametrize("board", ZYNQ, ids=lambda board: board.name)
def test_block_design(board, tmp_path):
    status, lines = run(vivado.script(board, 150), tmp_path)
    assert status == 0, lines
    used = {line.split()[1] for line in lines if line.startswith("has ")}
    ends = [end for line in lines if line.startswith("interface ") for end in line.split()[1:]]
    assert len(ends) == len(set(ends))
    for port in ("s_axi_control", "m_axi_instr", "m_axi_data0", "m_axi_data1"):
        assert f"dpu/{port}" in ends
    assert {end.split("/")[1] for end in ends if end.startswith("ps/")} == used
    assert len(used) == 4
    nets = [tuple(line.split()[1:]) for line in lines if line.startswith("net ")]
    sinks = [sink for _, sink in nets]
    assert len(sinks) == len(set(sinks))
    clocked = {sink for source, sink in nets if source == "ps/pl_clk0"}
    assert {"dpu/aclk", "reset/slowest_sync_clk", "ps/maxihpm0_fpd_aclk"} <= clocked
    assert sum("saxihp" in sink for sink in clocked) == 3
    assert ("reset/peripheral_aresetn", "dpu/aresetn") in nets
    assert ("dpu/interrupt", "ps/pl_ps_irq0") in nets
    assert "config ps PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ 150" in lines
    assert f"project -part {board.part}" in lines
    assert "property board_part vendor:board:part0:1.10 project" in lines  # the newest, by number
    assert lines[-1].startswith("wrote ") or "copy opendpu.hwh" in lines


def test_doubled_clock(tmp_path):
    """Both clocks come from one MMCM; the DPU's clocks all that has one."""
    board = BOARDS["kv260"]
    status, lines = run(vivado.script(board, 150, double_rate=True), tmp_path)
    assert status == 0, lines
    nets = [tuple(line.split()[1:]) for line in lines if line.startswith("net ")]
    assert len({sink for _, sink in nets}) == len(nets)
    made = {sink for source, sink in nets if source == "ps/pl_clk0"}
    assert made == {"clocks/clk_in1"}
    assert [sink for source, sink in nets if source == "clocks/dpu_2x_clk"] == ["dpu/dpu_2x_clk"]
    clocked = {sink for source, sink in nets if source == "clocks/aclk"}
    assert {"dpu/aclk", "reset/slowest_sync_clk", "ps/maxihpm0_fpd_aclk"} <= clocked
    assert ("clocks/locked", "reset/dcm_locked") in nets
    assert "config clocks CLKOUT1_REQUESTED_OUT_FREQ 300" in lines
    assert "config clocks CLKOUT2_REQUESTED_OUT_FREQ 150" in lines
    assert not any("dpu_2x_clk" in line for line in run(vivado.script(board, 150), tmp_path)[1])
    assert "none is excepted" in vivado.constraints(board, double_rate=True)


def test_doubled_clock_of_another_ratio(tmp_path):
    status, lines = run(vivado.script(BOARDS["kv260"], 150, double_rate=True), tmp_path, divide=13)
    assert status == 1
    assert lines[0].startswith("error dpu_2x_clk has to be twice aclk")


@pytest.mark.parametrize("board", ZYNQ, ids=lambda board: board.name)
def test_addresses(board, tmp_path):
    _, lines = run(vivado.script(board, 100), tmp_path)
    found = [line for line in lines if line.startswith("address ")]
    assert any("0xa0000000 -range 0x1000" in line and "ps/Data" in line for line in found)
    for master in ("m_axi_instr", "m_axi_data0", "m_axi_data1"):
        segments = [line for line in found if f"dpu/{master} " in line]
        assert len(segments) == (2 if board.memory_bytes > 2 << 30 else 1)


def test_without_board_files(tmp_path):
    status, lines = run(vivado.script(BOARDS["zcu104"], 100), tmp_path, board_files=0)
    assert status == 1
    assert lines[0].startswith("error Vivado has no board files xilinx.com:zcu104:part0")


def test_missed_clock_leaves_no_bitstream(tmp_path):
    status, lines = run(vivado.script(BOARDS["kv260"], 300), tmp_path, slack="-0.7")
    assert (status, len(lines)) == (1, 1)
    assert lines[0].startswith("error 300 MHz is missed by -0.7 ns")


def test_failed_run(tmp_path):
    status, lines = run(vivado.script(BOARDS["kv260"], 300), tmp_path, progress="40%")
    assert status == 1
    assert "implementation did not finish" in lines[0]


@pytest.mark.parametrize("board", ZYNQ, ids=lambda board: board.name)
def test_every_pin_has_site_and_standard(board, tmp_path):
    text = vivado.constraints(board)
    _, lines = run(vivado.script(board, 100), tmp_path)
    ports = {line.split("port/")[1] for line in lines if "port/" in line}
    assert ports == {pin.port for pin in board.pins}
    for pin in board.pins:
        assert f"PACKAGE_PIN {pin.site} [get_ports {pin.port}]" in text
        assert f"IOSTANDARD {pin.standard} [get_ports {pin.port}]" in text
