# SPDX-License-Identifier: Apache-2.0
"""Counting what Yosys made; AMD's published figures."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "synth"))

import ecp5
import measured
import synthesize
from cells import Resources, count, total
from ecp5 import PARTS, below, limits_of, measure
from paths import Path
from published import published
from synthesize import above, cells_of, limited_name, of_version, table

from opendpu_arch.errors import ToolError
from opendpu_arch.target import Target

REPORT = json.dumps(
    {
        "creator": "Yosys 0.70",
        "modules": {
            "\\lane": {
                "num_cells": 9,
                "num_cells_by_type": {"CARRY8": 1, "DSP48E2": 2, "FDRE": 3, "LUT2": 1, "LUT6": 2},
            },
            "\\top": {
                "num_cells": 7,
                "num_cells_by_type": {
                    "FDSE": 1, "RAM32M16": 1, "RAMB18E2": 1, "RAMB36E2": 1, "SRL16E": 1, "lane": 2,
                },
            },
        },
        "design": {"num_cells": 16},
    }
)  # fmt: skip


def test_cells_of_a_report():
    modules = cells_of(REPORT)
    assert set(modules) == {"lane", "top"}
    assert modules["lane"] == {"CARRY8": 1, "DSP48E2": 2, "FDRE": 3, "LUT2": 1, "LUT6": 2}
    assert modules["top"]["lane"] == 2


def test_cells_of_a_report_of_debians_yosys():
    """Yosys 0.23 writes the hierarchy as text into its JSON."""
    before, _, after = json.dumps(json.loads(REPORT), indent=3).rpartition('   "design"')
    assert cells_of(f'{before}     lane                 2\n\n   "design"{after}') == cells_of(
        REPORT
    )


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


SYNTH = pathlib.Path(synthesize.__file__).parent
LIMITS = json.loads((SYNTH / "limits.json").read_text())


def test_limits_are_those_of_one_version():
    limits = {"0.23": 1, "0.70": 2}
    assert of_version(limits, "Yosys 0.23 (git sha1 7ce5011c24b)") == 1
    assert of_version(limits, "Yosys 0.70+12 (git sha1 28ba3cb92)") == 2
    for other in ("Yosys 0.230 (git sha1 7ce5011c24b)", "something else"):
        with pytest.raises(ToolError, match=r"limits for versions 0\.23, 0\.70 only"):
            of_version(limits, other)


def test_what_setup_installs_has_limits(monkeypatch):
    """The versions of YoWASP that pyproject.toml allows: else the gate would compare nothing."""
    monkeypatch.setenv("OPENDPU_TOOLS", "yowasp")
    assert {"lut", "ff", "dsp", "bram36", "levels"} <= set(
        of_version(LIMITS["resources"], synthesize.yosys_version())["B64"]
    )
    assert set(limits_of(LIMITS, "B64")) == set(PARTS)


@pytest.mark.parametrize(("given", "used"), [(None, "yowasp"), ("", "")])
def test_make_compares_with_what_setup_installs(given, used, repository, tmp_path):
    """Debian's Yosys counts otherwise, so it is used only where somebody asks for it."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho tools=$OPENDPU_TOOLS $1\n", encoding="utf-8")
    python.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "OPENDPU_TOOLS"}
    if given is not None:
        environment["OPENDPU_TOOLS"] = given
    made = tmp_path / "made"
    made.touch()
    for target, script in (("synth-size", "synthesize.py"), ("synth-clocks", "ecp5.py")):
        command = ["make", "-s", "-C", str(repository), f"BIN={python.parent}", f"STAMP={made}"]
        done = subprocess.run(
            [*command, target], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [f"tools={used}", f"scripts/synth/{script}"]


def test_a_target_without_limits_is_an_error(monkeypatch):
    monkeypatch.setenv("OPENDPU_TOOLS", "yowasp")
    with pytest.raises(ToolError, match="B512 has no limits; there are some for B64"):
        limits_of(LIMITS, "B512")


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_b64_is_as_fast_as_agreed(part, monkeypatch, tmp_path):
    """``make synth-check`` places and routes those that do not take long."""
    monkeypatch.setenv("OPENDPU_TOOLS", "yowasp")
    least = limits_of(LIMITS, "B64")
    b64 = Target.from_name("B64")
    result = measure(b64, [part], tmp_path, estimate=0, seeds=3, least=least)
    fmax = {part: result["parts"][part]["fmax"]}
    assert below(fmax, least) == []


@pytest.mark.slow
def test_what_b64_takes_is_what_is_kept(monkeypatch):
    """``make synth-check`` takes the file's word for it."""
    monkeypatch.setenv("OPENDPU_TOOLS", "yowasp")
    kept = json.loads((SYNTH / "measured_resources.json").read_text(encoding="utf-8"))
    b64 = Target.from_name("B64")
    found = synthesize.measure(b64, {"vendor": "xilinx"}, paths=1)
    assert synthesize.counted(found) == kept["B64"]["figures"]


def test_a_part_that_is_slower_than_its_limit_is_named():
    assert below({"load": 70.0, "save": 65.0}, {"load": 70, "save": 65, "conv": 80}) == []
    assert below({"save": 64.94}, {"load": 70, "save": 65}) == [
        "save reaches 64.9 MHz, but 65 at least were agreed"
    ]


def test_figures_are_of_one_design(tmp_path):
    path = tmp_path / "measured.json"
    one, other = measured.digest("module", "Yosys 1"), measured.digest("module", "Yosys 2")
    assert measured.find(None, "B64", one) is None
    assert measured.find(path, "B64", one) is None
    measured.keep(path, {"B64": (one, {"lut": 3})})
    measured.keep(path, {"B512": (one, {"lut": 5})})
    assert measured.find(path, "B64", one) == {"lut": 3}
    assert measured.find(path, "B64", other) is None
    measured.keep(path, {"B64": (other, {"lut": 4})})
    assert measured.find(path, "B64", other) == {"lut": 4}
    assert measured.find(path, "B512", one) == {"lut": 5}
    assert one != measured.digest("moduleYosys 1") != measured.digest("module", "Yosys", " 1")


@pytest.mark.parametrize("script", [synthesize, ecp5])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--limits", "missing.json"], "missing.json cannot be read: No such file or directory"),
        (["--limits", "text.json"], "text.json is no JSON file: "),
        (["--limits", "list.json"], "list.json must have an object with "),
        (["--output", "text.json"], "text.json cannot be written: text.json is no folder"),
        (["--measured", "no/figures.json"], "no/figures.json cannot be written: there is no fold"),
    ],
)
def test_bad_files_are_told_before_anything_is_made(
    script, arguments, text, monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("text.json").write_text("LUTs", encoding="utf-8")
    pathlib.Path("list.json").write_text("[]", encoding="utf-8")
    monkeypatch.setattr(script.verilog, "elaborate", lambda *_, **__: pytest.fail("too late"))
    monkeypatch.setattr(sys, "argv", ["script", "B64", *arguments])
    assert script.main() == 1
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(("script", "option"), [(synthesize, "--paths"), (ecp5, "--estimate")])
def test_a_count_is_no_less_than_zero(script, option, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["script", "B64", option, "-1"])
    with pytest.raises(SystemExit):
        script.main()
    assert "'-1' is no count, which is 0 or more" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--output", "--limits", "--measured"])
@pytest.mark.parametrize("script", [synthesize, ecp5])
def test_an_empty_path_is_no_folder(script, option, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["script", "B64", option, ""])
    with pytest.raises(SystemExit):
        script.main()
    assert f"argument {option}: the path is empty" in capsys.readouterr().err


def test_paths_are_measured_though_figures_are_kept(monkeypatch, tmp_path, capsys):
    path, asked = tmp_path / "measured.json", []
    longest = Path(cost=7, begin="a", end="b", through=(), cells={})
    monkeypatch.setattr(synthesize, "yosys_version", lambda: "Yosys 1.0")
    monkeypatch.setattr(measured, "tool_version", lambda program: "1.0")
    monkeypatch.setattr(synthesize.verilog, "elaborate", lambda target, **options: "module a")

    def synthesized(*_, paths):
        asked.append(paths)
        return {"opendpu_top": {"LUT6": 9}}, [longest] * paths, {}

    monkeypatch.setattr(synthesize, "synthesize", synthesized)
    command = ["synthesize.py", "B64", f"--output={tmp_path}", f"--measured={path}", "--paths"]
    for wanted in ("2", "0", "2"):
        monkeypatch.setattr(sys, "argv", [*command, wanted])
        assert synthesize.main() == 0
    assert asked == [2, 0, 2]
    assert capsys.readouterr().out.count("levels 7") == 4


def test_a_design_is_measured_once(monkeypatch, tmp_path, capsys):
    """Nothing is synthesized of a design whose figures are known; limits hold for those too."""
    limits, path = tmp_path / "limits.json", tmp_path / "measured.json"
    limits.write_text(json.dumps({"resources": {"1.0": {"B64 vendor=none": {"lut": 10}}}}))
    monkeypatch.setattr(synthesize, "yosys_version", lambda: "Yosys 1.0")
    monkeypatch.setattr(measured, "tool_version", lambda program: "1.0")
    text, counts = ["module a"], [9, 11]
    monkeypatch.setattr(synthesize.verilog, "elaborate", lambda target, **options: text[0])
    monkeypatch.setattr(
        synthesize,
        "synthesize",
        lambda *_, **__: ({"opendpu_top": {"LUT6": counts.pop(0)}}, [], {}),
    )
    command = ["synthesize.py", "B64", "--vendor", "none", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [*command, f"--limits={limits}", f"--measured={path}"])
    assert [synthesize.main(), synthesize.main()] == [0, 0]
    assert "9 lut; the design is the one that Yosys 1.0 measured" in capsys.readouterr().out
    text[0] = "module b"
    assert [synthesize.main(), synthesize.main()] == [1, 1]
    assert not counts
    assert capsys.readouterr().err.count("has 11 lut by Yosys 1.0, but 10 at most were agreed") == 2


def test_parts_are_placed_once(monkeypatch, tmp_path, capsys):
    path, placed = tmp_path / "measured.json", []
    for name in ("yosys_version", "nextpnr_version"):
        monkeypatch.setattr(ecp5, name, lambda: "1.0")
    monkeypatch.setattr(measured, "tool_version", lambda program: "1.0")
    monkeypatch.setattr(ecp5.verilog, "elaborate", lambda target, **options: "module a")
    monkeypatch.setattr(ecp5, "netlist", lambda text, part, folder: placed.append(part))
    monkeypatch.setattr(ecp5, "route", lambda made, seed: 70.0 + seed)
    least = {"load": 72.0, "save": 71.0}

    def found():
        b64 = Target.from_name("B64")
        made = measure(b64, least, tmp_path, estimate=0, seeds=3, least=least, record=path)
        return {part: figures["fmax"] for part, figures in made["parts"].items()}

    assert found() == found() == {"load": 72, "save": 71}
    assert placed == ["load", "save"]
    assert "load: 72.0 MHz, as measured of this design" in capsys.readouterr().out
    least["save"] = 73.0  # more placements may be needed
    assert found() == {"load": 72, "save": 73}
    assert placed == ["load", "save", "save"]


def test_what_is_above_its_limit_is_named():
    result = {"target": "DPUCZDX8G_ISA1_B64", "options": {"vendor": "xilinx"}}
    result |= {"tool": "Yosys 0.70", "lut": 101, "dsp": 7}
    assert above(result, {"B64": {"lut": 101, "dsp": 7}}) == []
    assert above(result, {"B64": {"lut": 100, "dsp": 8}}) == [
        "B64 has 101 lut by Yosys 0.70, but 100 at most were agreed for this version"
    ]
    with pytest.raises(ToolError, match="B64 has no limits; there are some for B512"):
        above(result, {"B512": {}})


def test_limits_are_those_of_options_too():
    target, xilinx = Target.from_name("B512+table"), {"vendor": "xilinx"}
    assert limited_name(target, xilinx) == "B512+table"
    assert limited_name(target, {}) == "B512+table vendor=none"
    assert limited_name(target, xilinx | {"window": False}) == "B512+table window=False"
    three_taps = {"target": "DPUCZDX8G_ISA1_B512", "options": xilinx | {"window": False}, "lut": 9}
    with pytest.raises(ToolError, match="B512 window=False has no limits; there are some for B512"):
        above(three_taps, {"B512": {"lut": 10}})
