# SPDX-License-Identifier: Apache-2.0
"""Generated Verilog through linters, every rule on but those waived with a reason."""

import importlib.resources
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from opendpu_arch.errors import ToolError
from opendpu_hw import tools
from opendpu_hw.__main__ import main
from opendpu_hw.datapath.requantize import Requantizer
from opendpu_hw.verilog import TOP, to_verilog
from opendpu_sim.rtl.tools import run_verilator

pytestmark = pytest.mark.cosim
DSP48E2 = pathlib.Path(__file__).with_name("dsp48e2.v")
WAIVERS = importlib.resources.files("opendpu_hw") / "lint.vlt"


def lint(source, waivers=str(WAIVERS)):
    """Return what lint says; a warning is an error."""
    command = ["--lint-only", "-Wall", "--top-module", TOP, waivers, source]
    said = run_verilator(command, cwd=source.parent)
    return [line for line in said.splitlines() if line.startswith("%")]


def generate(target, folder, *options):
    assert main(["--target", target, "-o", str(folder), *options]) == 0
    (source,) = folder.glob("*.v")
    return source


def of_blocks(target, folder, *options):
    """Return Verilog with DSP blocks in it, and a model of theirs behind it."""
    source = generate(target, folder, "--vendor", "xilinx", *options)
    text = source.read_text(encoding="utf-8")
    source.write_text(text + silenced(DSP48E2), encoding="utf-8")
    return source


def silenced(model):
    """Return a model of a primitive, which has but what tests need, without its warnings."""
    rules = ("UNUSEDPARAM", "UNUSEDSIGNAL", "WIDTHEXPAND")
    off = "".join(f"/* verilator lint_off {rule} */\n" for rule in rules)
    return off + model.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def two_clocks(tmp_path_factory):
    """Return Verilog whose DSP blocks have a clock of their own."""
    folder = tmp_path_factory.mktemp("two_clocks")
    return of_blocks("B128", folder, "--option", "dsp_double_rate=True")


def test_small_target(tmp_path):
    assert lint(generate("B64", tmp_path)) == []


@pytest.mark.slow
def test_two_clocks(two_clocks):
    assert lint(two_clocks) == []
    assert yosys(two_clocks) == []
    assert slang(two_clocks) <= SLANG_WAIVED
    icarus(two_clocks)


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["B64", "B64+scaled", "B1600", "B512+table+channel", "B4096+table+channel+scaled"]
)
def test_blocks(target, tmp_path):
    """What boards get."""
    source = of_blocks(target, tmp_path)
    assert lint(source) == []
    icarus(source)


def test_leaky_blocks(tmp_path):
    """What larger targets have instead of adders."""
    source = tmp_path / "requantizer.v"
    text = to_verilog(Requantizer(leaky=True, block=True, vendor="xilinx"), TOP)
    source.write_text(text + silenced(DSP48E2), encoding="utf-8")
    assert lint(source) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["B64+table", "B64+scaled", "B64+table+channel+scaled"])
def test_extensions(target, tmp_path):
    source = generate(target, tmp_path)
    assert lint(source) == []
    icarus(source)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["B512", "B1600", "B2304", "B4096"])
def test_other_targets(target, tmp_path):
    source = generate(target, tmp_path)
    assert lint(source) == []
    assert source.stat().st_size < 2_000_000


def test_plain_verilog(tmp_path):
    """No SystemVerilog, no vendor primitives, no source locations."""
    text = generate("B64", tmp_path).read_text(encoding="utf-8")
    defined = set(re.findall(r"^module (\\?\S+?) ?\(", text, re.M))
    used = set(re.findall(r"^  (opendpu_\w+) +\\?\S+ +\($", text, re.M))
    assert used == defined - {TOP}
    code = re.sub(r'"[^"]*"', "", text)
    assert not re.search(r"\b(always_ff|always_comb|logic|interface|typedef|import)\b", code)
    assert "(* src" not in text


def test_every_signal_has_a_name_of_the_source(tmp_path):
    """Amaranth calls what it finds no name for ``$signal``, and what is like that ``$like``."""
    text = generate("B64", tmp_path).read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"\\\$\S*", text))) == []


#: What slang may say: Yosys writes sums and products with the bits that they need and counts on
#: Verilog's truncation.
SLANG_WAIVED = {"width-trunc"}


def slang(source):
    """Return the kinds of warnings of slang, every one it has switched on."""
    code = (
        "import sys; from pyslang.driver import Driver; d = Driver(); d.addStandardArgs(); "
        "assert d.parseCommandLine(sys.argv[1]) and d.processOptions() and d.parseAllSources(); "
        "c = d.createCompilation(); d.reportCompilation(c, False); d.runAnalysis(c); "
        "sys.exit(not d.reportDiagnostics(False))"
    )
    command = f"slang -Wextra --std 1364-2005 {source}"
    done = subprocess.run(
        [sys.executable, "-c", code, command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return set(re.findall(r"warning: .*\[-W([\w-]+)\]$", done.stdout + done.stderr, re.M))


def test_slang(tmp_path):
    assert slang(generate("B64", tmp_path)) <= SLANG_WAIVED


def test_slang_would_find_a_fault(tmp_path):
    source = tmp_path / "bad.v"
    source.write_text(
        "module m(input [1:0] s, output reg q);\n  always @* casez (s)\n"
        "    2'b?1: q = 1;\n    2'b1?: q = 0;\n    default: q = 0;\n  endcase\nendmodule\n"
    )
    assert "case-overlap" in slang(source)


def test_icarus(tmp_path):
    """Icarus Verilog reads the file as Verilog-2001 and has nothing to say."""
    icarus(generate("B64", tmp_path))


def icarus(source):
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus Verilog is not installed (apt install iverilog)")
    command = ["iverilog", "-g2001", "-Wall", "-t", "null", "-s", TOP, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def yosys(source):
    """Return the warnings of Yosys, from reading to the check of the netlist."""
    try:
        program = tools.find("yosys")
    except ToolError as error:
        pytest.skip(str(error))
    script = f"read_verilog {source.name}; hierarchy -check -top {TOP}; proc; opt_clean; check"
    done = subprocess.run(
        [program, "-p", script], cwd=source.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return re.findall(r"^Warning: .*", done.stdout + done.stderr, re.M)


def test_yosys(tmp_path):
    assert yosys(generate("B64", tmp_path)) == []


def test_yosys_would_find_a_fault(tmp_path):
    source = tmp_path / "bad.v"
    source.write_text(
        f"module {TOP}(input a, output b);\n  wire c;\n  assign b = a ^ c;\nendmodule\n"
    )
    assert any("used but has no driver" in warning for warning in yosys(source))


def test_lint_would_find_a_fault(tmp_path):
    source = tmp_path / "bad.v"
    source.write_text(f"module {TOP}(input a, output b, output c);\n  assign b = a;\nendmodule\n")
    with pytest.raises(ToolError, match="UNDRIVEN"):
        lint(source)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("  wire lost;\n  assign lost = a[0];\n  assign b = a;", "UNUSEDSIGNAL"),
        ("  assign b = a + a[1:0];", "WIDTHEXPAND"),
        ("  wire [7:0] c;\n  assign c = {a, a};\n  assign b = c;", "WIDTHTRUNC"),
        ("  assign b = {4{a >= 4'd0}};", "UNSIGNED"),
        ("  reg [3:0] c = 0;\n  always @(posedge a[0]) c <= a;\n  assign b = c;", "PROCASSINIT"),
    ],
)
def test_new_warnings_are_not_waived(tmp_path, body, rule):
    """Patterns of waivers are those of generated text: a warning of the same rule is still one."""
    source = tmp_path / "bad.v"
    source.write_text(f"module {TOP}(input [3:0] a, output [3:0] b);\n{body}\nendmodule\n")
    with pytest.raises(ToolError, match=rule):
        lint(source)


def test_no_class_of_warnings_is_waived():
    """Each waiver has a pattern; only one file for all modules has none."""
    rules = [r for r in WAIVERS.read_text(encoding="utf-8").splitlines() if "lint_off" in r]
    assert [r for r in rules if "-match" not in r] == ["lint_off -rule DECLFILENAME"]


def test_every_waiver_has_a_reason():
    paragraphs = WAIVERS.read_text(encoding="utf-8").split("\n\n")
    with_rules = [p for p in paragraphs if "lint_off" in p]
    assert with_rules
    assert all(p.startswith("// ") for p in with_rules)
