# SPDX-License-Identifier: Apache-2.0
"""Start from nothing in Icarus Verilog, whose registers and memories begin unknown."""

import pathlib
import re
import shutil
import subprocess

import pytest

from opendpu_arch import isa
from opendpu_arch.target import Target
from opendpu_hw import verilog

pytestmark = pytest.mark.cosim
BENCH = pathlib.Path(__file__).parent / "startup_bench.v"
_FILL = re.compile(
    r"^  initial begin : opendpu_fill_\d+\n    integer i;\n    for .*\n.*\n  end\n", re.M
)
_REGISTER = re.compile(r"^  initial \S+ += \d+'[bhd][0-9a-f]+;\n", re.M)


def without_initial_values(text):
    """Return Verilog whose registers and zeroed memories begin unknown; tables keep their words."""
    text, memories = _FILL.subn("", text)
    text, registers = _REGISTER.subn("", text)
    assert memories > 20 and registers > 500
    return text


def start(folder, text):
    """Return what the bench prints about a DPU."""
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus Verilog is not installed (apt install iverilog)")
    load, save = (1 << e for e in (isa.Engine.LOAD, isa.Engine.SAVE))
    code = isa.encode(
        [
            isa.Load(channel=4, reg_id=1, dpdby=save),
            isa.Save(channel=4, ddr_addr=64, reg_id=1, dpdon=load),
            isa.End(),
        ]
    )
    words = [code[i : i + 4][::-1].hex() for i in range(0, len(code), 4)]
    (folder / "code.hex").write_text("\n".join([*words, *["00000000"] * (64 - len(words))]) + "\n")
    (folder / "dpu.v").write_text(text, encoding="utf-8")
    build = ["iverilog", "-g2001", "-s", "startup_bench", "-o", "bench", "dpu.v", str(BENCH)]
    subprocess.run(build, cwd=folder, check=True)
    ran = subprocess.run(
        ["vvp", "bench"], cwd=folder, capture_output=True, text=True, check=True, timeout=300
    )
    return ran.stdout


def test_outputs_are_known_after_reset(tmp_path):
    text = without_initial_values(verilog.elaborate(Target.from_name("B64")))
    assert "PASS" in start(tmp_path, text)


def test_a_register_without_reset_is_found(tmp_path):
    """The bench sees an output that depends on a register that no reset reaches."""
    text = without_initial_values(verilog.elaborate(Target.from_name("B64")))
    mutant = text.replace("  assign interrupt = ", "  reg lost; assign interrupt = lost ^ ", 1)
    assert mutant != text
    assert "FAIL: control is unknown" in start(tmp_path, mutant)
