# SPDX-License-Identifier: Apache-2.0
"""``vaitrace``: programs are run, their DPU jobs and functions reported."""

import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import vaitrace.main
from opendpu_arch.target import Target

PROGRAM = """
import sys
import numpy as np
import vart, xir, worker

def jobs(path, count):
    parts = xir.Graph.deserialize(path).get_root_subgraph().toposort_child_subgraph()
    dpu = [part for part in parts if part.get_attr("device") == "DPU"]
    runner = vart.RunnerExt.create_runner(dpu[0], "run")
    for _ in range(count):
        inputs, outputs = runner.get_inputs(), runner.get_outputs()
        runner.wait(runner.execute_async(inputs, outputs))
        worker.after(outputs)

jobs(sys.argv[1], int(sys.argv[2]))
sys.exit(int(sys.argv[3]))
"""
WORKER = """
def after(outputs):
    return sum(int(output.sum()) for output in outputs)
"""


@pytest.fixture
def folder(copy_graph, tmp_path) -> pathlib.Path:
    """Return a folder with a model and a program that runs it."""
    (copy_graph.get_root_subgraph().get_children()[1]).set_attr("workload", 1_000_000)
    copy_graph.serialize(tmp_path / "copy.xmodel")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "worker.py").write_text(WORKER)
    return tmp_path


def trace(
    folder: pathlib.Path, *arguments: str, jobs: int = 3, code: int = 0, module: str = "vaitrace",
    device: str = "iss",
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    environment = dict(os.environ) | {"OPENDPU_DEVICE": device}
    line = [
        sys.executable, "-m", module, *arguments, "program.py", "copy.xmodel", str(jobs), str(code)
    ]  # fmt: skip
    return subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_a_table_of_subgraphs(folder):
    """It is what is given where both summaries are asked for, as in AMD's."""
    result = trace(folder, "-p", "--json_summary", "--txt", code=3)
    assert result.returncode == 3, result.stderr
    lines = result.stdout.splitlines()
    titles = [title.strip() for title in lines[2].split("|")]
    assert titles == ["DPU Id", "Bat", "DPU SubGraph", "WL", "SW_RT", "HW_RT", "Effic", "LdWB",
                      "LdFM", "StFM", "AvgBw"]  # fmt: skip
    values = [value.strip() for value in lines[4].split("|")]
    assert values[:4] == [Target.from_name("B64").name, "1", "subgraph_y", "0.001"]
    assert float(values[4]) > 0 and float(values[5]) == 0
    (said,) = result.stderr.splitlines()
    assert said == "vaitrace: warning: --json_summary has no effect beside --txt_summary"


def test_json_in_a_file(folder):
    assert trace(folder, "-p", "--json_summary", "-o", "out.json", jobs=5).stdout == ""
    (jobs,) = json.loads((folder / "out.json").read_text())["dpu"]["profiling"].values()
    (line,) = jobs
    assert line["subg_name"] == "subgraph_y"
    assert line["runs"] == 5
    assert line["min_time"] <= line["avg_time"] <= line["max_time"]
    assert line["read_feature_map_size"] == 24 / (1 << 20)


def test_files_for_vitis_analyzer(folder):
    result = trace(folder, module="vaitrace_py")
    assert result.returncode == 0, result.stderr
    rows = list(csv.reader((folder / "vart_trace.csv").read_text().splitlines()))
    assert rows[:3] == [["HEADER"], ["VTF File Version", "1.0"], ["VTF File Type", "0"]]
    events = rows[rows.index(["EVENTS"]) + 1 :]
    assert len(events) == 6
    for start, end in zip(events[::2], events[1::2], strict=True):
        assert end[1] == start[0] and float(end[2]) >= float(start[2])
    rows = list(csv.reader((folder / "profile_summary.csv").read_text().splitlines()))
    assert rows[0] == ["DPU Summary"]
    assert rows[2][:2] == ["subgraph_y", "3"]
    rows = list(csv.reader((folder / "vitis_ai_profile.csv").read_text().splitlines()))
    assert sum(int(row[1]) for row in rows[2:]) == 3


def test_functions_from_the_configuration_and_perfetto(folder):
    (folder / "cfg.json").write_text(
        json.dumps(
            {
                "trace": {"enable_trace_list": ["vart", "custom"]},
                "trace_custom": ["jobs", "worker.after"],
            }
        )
    )
    result = trace(folder, "-p", "--txt", "-c", "cfg.json", "--perfetto", "out.json")
    assert result.returncode == 0, result.stderr
    table = result.stdout[result.stdout.index("CPU Functions:") :]
    counts = {row.split("|")[0].strip(): row.split("|")[1].strip() for row in table.splitlines()
              if "|" in row}  # fmt: skip
    assert counts == {"Function": "Num", "__main__.jobs": "1", "worker.after": "3"}
    events = json.loads((folder / "out.json").read_text())["traceEvents"]
    assert [event["name"] for event in events].count("subgraph_y") == 3
    assert [event["name"] for event in events].count("worker.after") == 3


@pytest.mark.parametrize("form", [" ".join, list], ids=["text", "list"])
def test_the_program_of_the_configuration(folder, form):
    """As `vaitrace -c FILE`; its functions are traced in Python programs only."""
    command = [sys.executable, "program.py", "copy.xmodel", "2", "0"]
    config = {
        "options": {"runmode": "normal", "cmd": form(command), "output": "out.txt", "timeout": 900},
        "trace": {"enable_trace_list": ["vitis-ai-library", "vart", "custom"]},
        "trace_custom": ["TopK", "CPUCalcSoftmax"],
    }
    (folder / "cfg.json").write_text(json.dumps(config))
    line = [sys.executable, "-m", "vaitrace", "-c", "cfg.json", "--txt_summary"]
    environment = dict(os.environ) | {"OPENDPU_DEVICE": "iss"}
    result = subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == (
        "vaitrace: warning: TopK, CPUCalcSoftmax are not traced: only functions of Python programs "
        "are, with -p\n"
    )
    assert "subgraph_y" in (folder / "out.txt").read_text()


def test_only_the_first_seconds_are_traced(folder):
    result = trace(folder, "-p", "--json_summary", "-t", "0.001")
    assert result.returncode == 0
    assert json.loads(result.stdout)["dpu"]["profiling"] == {}


def test_the_version_and_no_program():
    result = CliRunner().invoke(vaitrace.main.app, ["-v", "./no-such-program"])
    assert (result.exit_code, result.output.split()[0]) == (0, "opendpu")


def test_bypass_and_debug(folder):
    result = trace(folder, "-p", "-b", "-d", "--txt", code=5)
    assert result.returncode == 5
    assert result.stdout == ""
    assert result.stderr.startswith("vaitrace: running ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "must be an object"),
        ('{"trace": {"enable_trace_list": ["gpu"]}}', "has 'gpu', but must be of"),
        ('{"trace_custom": "f"}', "must be a list of names"),
        ('{"options": {"timeout": 0}}', "must be seconds"),
        ('{"options": {"timeout": true}}', "must be seconds"),
        ('{"options": {"output": 1}}', "must be a file name"),
        ('{"options": {"cmd": 1}}', "cmd is 1, but must be a command"),
        ('{"options": {"cmd": "a \'b"}}', "but must be a command"),
    ],
)
def test_a_wrong_configuration(folder, text, message):
    (folder / "cfg.json").write_text(text)
    result = trace(folder, "-p", "-c", "cfg.json")
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("vaitrace: error: ") and message in line


def test_what_has_no_effect_is_told(folder):
    (folder / "cfg.json").write_text(
        '{"trace": {"enable_trace_list": ["custom"]}, "trace_custom": ["nowhere.f", "no_such"]}'
    )
    result = trace(folder, "-p", "-c", "cfg.json", "-o", "summary.txt")
    said = result.stderr.splitlines()
    assert (
        "vaitrace: warning: summary.txt is not written: -o is for --txt_summary and --json_summary"
    ) in said
    assert ("vaitrace: warning: never called as module.function: nowhere.f, no_such") in said
    assert not (folder / "summary.txt").exists()


def test_wrong_calls(folder):
    assert "cannot work together" in trace(folder, "-p", "--va", "--txt").stderr
    assert "cannot be read" in trace(folder, "-p", "-c", "none.json").stderr
    (folder / "cfg.json").write_text("{}")
    line = [sys.executable, "-m", "vaitrace", "-c", "cfg.json"]
    result = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "there is no command, neither after the options nor as options.cmd" in result.stderr
    line = [sys.executable, "-m", "vaitrace", "./no-such-program"]
    result = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "'./no-such-program' is not found" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "none.py"], "'none.py' is no file, but with -p must be a Python program"),
        (["-p", "."], "'.' is no file, but with -p must be a Python program"),
        (["./program.py"], "'./program.py' is not found, or cannot be run; with -p it is run by"),
        (["--xat", "true"], "--xat is not there"),
        (["--fine_grained", "-p", "program.py"], "--fine_grained is not there: -d keeps the raw"),
    ],
)
def test_programs_and_options_that_are_refused(folder, arguments, message):
    """In a line, not in Python's report of where it was raised."""
    line = [sys.executable, "-m", "vaitrace", *arguments]
    result = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    (said,) = result.stderr.splitlines()
    assert said.startswith(f"vaitrace: error: {message}")
