# SPDX-License-Identifier: Apache-2.0
"""Generated Verilog through Verilator's lint, every rule on but those waived with a reason."""

import importlib.resources
import re

import pytest

from opendpu_arch.errors import ToolError
from opendpu_hw.__main__ import main
from opendpu_hw.verilog import TOP
from opendpu_sim.rtl.tools import run_verilator

pytestmark = pytest.mark.cosim
WAIVERS = importlib.resources.files("opendpu_hw") / "lint.vlt"


def lint(source, waivers=str(WAIVERS)):
    """Return what lint says; a warning is an error."""
    command = ["--lint-only", "-Wall", "--top-module", TOP, waivers, source]
    said = run_verilator(command, cwd=source.parent)
    return [line for line in said.splitlines() if line.startswith("%")]


def generate(target, folder):
    assert main(["--target", target, "-o", str(folder)]) == 0
    (source,) = folder.glob("*.v")
    return source


def test_small_target(tmp_path):
    assert lint(generate("B64", tmp_path)) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["B512", "B1600", "B2304", "B4096"])
def test_other_targets(target, tmp_path):
    assert lint(generate(target, tmp_path)) == []


def test_plain_verilog(tmp_path):
    """No SystemVerilog, no vendor primitives, no source locations."""
    text = generate("B64", tmp_path).read_text(encoding="utf-8")
    defined = set(re.findall(r"^module (\\?\S+?) ?\(", text, re.M))
    used = set(re.findall(r"^  (\\?opendpu_top\S*) +\\?\w+ \($", text, re.M))
    assert used <= defined
    assert not re.search(r"\b(always_ff|always_comb|logic|interface|typedef|import)\b", text)
    assert "(* src" not in text


def test_lint_would_find_a_fault(tmp_path):
    source = tmp_path / "bad.v"
    source.write_text(f"module {TOP}(input a, output b, output c);\n  assign b = a;\nendmodule\n")
    with pytest.raises(ToolError, match="UNDRIVEN"):
        lint(source)


def test_every_waiver_has_a_reason():
    paragraphs = WAIVERS.read_text(encoding="utf-8").split("\n\n")
    with_rules = [p for p in paragraphs if "lint_off" in p]
    assert with_rules
    assert all(p.startswith("// ") for p in with_rules)
