# SPDX-License-Identifier: Apache-2.0
"""``python -m opendpu_hw --board``: which files there are, and what it refuses."""

import collections
import dataclasses
import functools
import pathlib
import re
import shutil
import subprocess

import pytest

from opendpu_arch.target import Target, registered
from opendpu_hw import options
from opendpu_hw.__main__ import main
from opendpu_hw.boards import device_tree, files, fit
from opendpu_hw.boards.catalog import BOARDS


def generate(folder, *arguments):
    return main(["--target", "B64", "--board", "kv260", "-o", str(folder), *arguments])


def test_files_of_a_zynq_board(tmp_path, capsys):
    assert generate(tmp_path) == 0
    named = {
        str(pathlib.Path(line).relative_to(tmp_path)) for line in capsys.readouterr().out.split()
    }
    there = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert (
        named
        == there
        == {
            "ip/DPUCZDX8G_ISA1_B64.v",
            "ip/DPUCZDX8G_ISA1_B64.json",
            "ip/component.xml",
            "vivado.tcl",
            "opendpu.xdc",
            "opendpu.dtso",
        }
    )
    source = (tmp_path / "ip/DPUCZDX8G_ISA1_B64.v").read_text(encoding="utf-8")
    assert "DSP48E2" in source
    assert "DPUCZDX8G_ISA1_B64.v<" in (tmp_path / "ip/component.xml").read_text(encoding="utf-8")


def test_plain_multiplications_on_request(tmp_path):
    assert generate(tmp_path, "--vendor", "none") == 0
    source = (tmp_path / "ip/DPUCZDX8G_ISA1_B64.v").read_text(encoding="utf-8")
    assert "DSP48E2" not in source


@pytest.mark.slow
def test_doubled_clock_on_request(tmp_path):
    options = ["--target", "B128", "--option", "dsp_double_rate=True"]
    assert generate(tmp_path, *options) == 0
    source = (tmp_path / "ip/DPUCZDX8G_ISA1_B128.v").read_text(encoding="utf-8")
    assert "  input dpu_2x_clk;" in source
    assert ">dpu_2x_clk<" in (tmp_path / "ip/component.xml").read_text(encoding="utf-8")
    assert "dpu/dpu_2x_clk" in (tmp_path / "vivado.tcl").read_text(encoding="utf-8")


def test_options_of_a_size_of_a_board(tmp_path, monkeypatch):
    """What is asked for is more than what the board has."""
    board = dataclasses.replace(BOARDS["kv260"], options={"B64": {"ultra_ram": 4}})
    asked = []

    class Asked(Exception):
        """Verilog would be made now."""

    def ask(target, where, **given):
        asked.append((given["vendor"], given["ultra_ram"]))
        raise Asked

    monkeypatch.setattr(files.verilog, "write", ask)
    for given in ({}, {"ultra_ram": 0}):
        with pytest.raises(Asked):
            files.write(board, Target.from_name("B64"), tmp_path, **given)
    assert asked == [("xilinx", 4), ("xilinx", 0)]


def test_options_of_boards_are_options():
    """And what they are for is not refused for its size."""
    sizes = {f"B{target.peak}": target for target in map(Target.from_name, registered())}
    for board in BOARDS.values():
        for size, given in board.options.items():
            options.check(sizes[size], **given)
            fit.check(board, sizes[size], {"vendor": board.vendor} | given)


def test_plain_verilog_is_refused_for_no_size():
    fit.check(BOARDS["ultra96v2"], Target.from_name("B4096"), {"vendor": None})


def primitives(text, module):
    """Return how often each module without a body is in a module of Verilog, and in all below."""
    bodies = dict(re.findall(r"^module (\w+)\((.*?)^endmodule", text, re.M | re.S))

    @functools.cache
    def inside(name):
        found = collections.Counter()
        for kind in re.findall(r"^  (\w+) (?:#\(|\\?\S+ \()$", bodies[name], re.M):
            found += inside(kind) if kind in bodies else collections.Counter([kind])
        return found

    return inside(module)


@pytest.mark.slow
def test_b4096_fits_kv260(tmp_path):
    """Blocks and UltraRAMs are counted; block RAMs, 7.5 a bank, and LUTs only by synthesis."""
    assert main(["--target", "B4096", "--board", "kv260", "-o", str(tmp_path)]) == 0
    text = (tmp_path / "ip/DPUCZDX8G_ISA1_B4096.v").read_text(encoding="utf-8")
    found, there = primitives(text, "opendpu_top"), BOARDS["kv260"].resources
    assert 1024 < found["DSP48E2"] <= 1170 - 5 < there.dsp  # five address products besides
    assert found["URAM288_BASE"] == 48 <= there.ultra_ram
    assert len(text) < 2_000_000


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--board", "zybo"], "no board is called 'zybo'; known: kv260, zcu104, ultra96v2, ulx3s"),
        (["--board", ""], "no board is called ''; known: kv260"),
        (
            ["--target", "B4096", "--board", "ultra96v2"],
            "DPUCZDX8G_ISA1_B4096 does not fit ultra96v2: with these options it takes 1024 DSP "
            "blocks for CONV's array alone, and the xczu3eg-sbva484-1-i has 360",
        ),
        (
            ["--target", "B4096", "--option", "ultra_ram=0"],
            "B4096 does not fit kv260: with these options it takes 242 block RAMs for banks",
        ),
        (
            ["--target", "B512", "--board", "ultra96v2", "--option", "ultra_ram=2"],
            "B512 does not fit ultra96v2: with these options it takes 2 UltraRAMs for banks",
        ),
        (
            ["--target", "B512", "--board", "ulx3s"],
            "takes 256 DSP blocks for CONV's array alone, and the LFE5U-85F-6BG381C has 156",
        ),
        (
            ["--vendor", "none", "--option", "vendor=xilinx"],
            "option vendor is said to be 'xilinx' and None; say it once",
        ),
        (
            ["--option", "window=True", "--option", "window=False"],
            "option window is said to be True and False; say it once",
        ),
        (["--option", "window=no"], "option window is 'no', but must be True or False"),
        (["--clock-mhz", "0.2"], "clock of kv260 is 0.2 MHz, but must be in 1..400"),
        (["--clock-mhz", "nan"], "clock of kv260 is nan MHz, but must be in 1..400"),
        (
            ["--board", "ulx3s", "--clock-mhz", "134"],
            "clock of ulx3s is 134 MHz, but must be in 13..133",
        ),
        (
            ["--board", "ulx3s", "--vendor", "xilinx"],
            "vendor is xilinx, but the LFE5U-85F-6BG381C of ulx3s has no such primitives; "
            "allowed with it: ecp5 or none",
        ),
        (["--vendor", "ecp5"], "of kv260 has no such primitives; allowed with it: xilinx or none"),
        (["--option", "dsp_double_rate=True"], "has 2 pixels, but four share a DSP block"),
        (
            ["--option", "dsp_double_rate=True", "--vendor", "none"],
            "dsp_double_rate is for DSP48E2, but vendor is None; allowed with it: xilinx",
        ),
    ],
)
def test_refused(tmp_path, capsys, arguments, text):
    folder = tmp_path / "new"
    assert generate(folder, *arguments) == 1
    assert text in capsys.readouterr().err
    assert not folder.exists()


def test_clock_without_board(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--target", "B64", "-o", str(tmp_path), "--clock-mhz", "50"])
    assert "--clock-mhz is of a board" in capsys.readouterr().err


def test_a_file_that_cannot_be_replaced(tmp_path, capsys):
    (tmp_path / "vivado.tcl").mkdir()
    assert generate(tmp_path) == 1
    assert "vivado.tcl cannot be written: it is a directory" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["vivado.tcl"]


def test_overlay_compiles(tmp_path):
    if shutil.which("dtc") is None:
        pytest.skip("there is no dtc (apt install device-tree-compiler)")
    source = tmp_path / "opendpu.dtso"
    text = device_tree.overlay(BOARDS["kv260"], bitstream="opendpu.bit.bin", clock_mhz=150)
    source.write_text(text, encoding="utf-8")
    command = ["dtc", "-@", "-I", "dts", "-O", "dtb", "-o", str(tmp_path / "o.dtbo"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    back = subprocess.run(
        ["dtc", "-I", "dtb", "-O", "dts", str(tmp_path / "o.dtbo")],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert "assigned-clock-rates = <0x8f0d180>;" in back  # 150 MHz
    assert 'compatible = "generic-uio"' in back
    assert "sync-mode = <0x02>;" in back
