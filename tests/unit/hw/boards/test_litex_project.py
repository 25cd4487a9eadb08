# SPDX-License-Identifier: Apache-2.0
"""The LiteX project of a board without a processor."""

import json
import re
import sys

import pytest

from opendpu_hw.__main__ import main
from opendpu_hw.boards.catalog import BOARDS
from opendpu_hw.verilog import TOP


def generate(folder):
    return main(["--target", "B64", "--board", "ulx3s", "-o", str(folder)])


def test_without_litex(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "litex", None)
    assert generate(tmp_path / "new") == 1
    said = capsys.readouterr().err
    assert "need litex, which is not installed; try: pip install opendpu[boards]" in said
    assert not (tmp_path / "new").exists()


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    for package in ("litex", "litedram", "litex_boards"):
        pytest.importorskip(package, reason="needs the extra opendpu[boards]")
    folder = tmp_path_factory.mktemp("ulx3s")
    assert generate(folder) == 0
    return folder


def test_nothing_is_left_where_the_system_cannot_be_made(tmp_path, monkeypatch):
    for package in ("litex", "litedram", "litex_boards"):
        pytest.importorskip(package, reason="needs the extra opendpu[boards]")
    from opendpu_hw.boards import litex_project

    class Interrupted(Exception):
        """LiteX was at it."""

    def interrupt(*_):
        raise Interrupted

    monkeypatch.setattr(litex_project, "_board_soc", interrupt)
    with pytest.raises(Interrupted):
        generate(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_every_port_of_the_dpu_is_connected(project):
    text = (project / "ulx3s.v").read_text(encoding="utf-8")
    about = json.loads((project / "DPUCZDX8G_ISA1_B64.json").read_text(encoding="utf-8"))
    instance = text[text.index(f"{TOP} {TOP}") :]
    connected = set(re.findall(r"\.(\w+) +\(", instance[: instance.index(");")]))
    ports = {port["name"] for port in about["ports"]}
    assert ports - connected == {"interrupt", "events"}
    assert connected <= ports


def test_every_pin_has_a_site(project):
    text = (project / "ulx3s.v").read_text(encoding="utf-8")
    header = text[text.index("module ulx3s") : text.index(");")]
    pins = set(re.findall(r"(?:input|output|inout) +(?:wire|reg) +(?:\[\d+:0\] )?(\w+)", header))
    sites = set(re.findall(r'LOCATE COMP "(\w+)', (project / "ulx3s.lpf").read_text()))
    assert pins == sites
    assert {"clk25", "serial_tx", "serial_rx", "sdram_dq", "sdram_clock", "wifi_gpio0"} <= pins


def test_description(project):
    about = json.loads((project / "soc.json").read_text(encoding="utf-8"))
    board = BOARDS["ulx3s"]
    assert about["memory"] == {"address": 0x4000_0000, "size": board.memory_bytes}
    assert about["registers"] == 0x8000_0000
    registers = set(about["sdram"]["registers"])
    assert {step["register"] for step in about["sdram"]["sequence"]} <= registers
    # The last step loads the mode register (all of RAS, CAS, WE, CS): CL 2, bursts of one.
    last = about["sdram"]["sequence"][-1]
    assert (last["value"], last["address"]) == (0b1111, 2 << 4)
