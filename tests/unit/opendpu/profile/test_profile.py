# SPDX-License-Identifier: Apache-2.0
"""A compiled model to rows, tables, pictures and traces, on a device that makes up its times."""

import csv
import io
import itertools
import json
import pathlib
import random
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

import numpy as np
import pytest
from graph_draws import Quantized
from timelines import possible
from typer.testing import CliRunner

import xir
from opendpu import api
from opendpu.cli.app import app
from opendpu.ir import QuantizedGraph, to_xir
from opendpu.profile import CATEGORIES, Profile
from opendpu.profile.measure import REST
from opendpu.profile.program import ProgramView
from opendpu.profile.roofline import roofline
from opendpu.profile.tables import csv_text, json_text, text
from opendpu.profile.trace import trace_json
from opendpu.runtime.device import Job, JobStatistics
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch import isa
from opendpu_arch.errors import ModelFormatError, ToolError, UnsupportedError
from opendpu_arch.target import Target

TARGET = Target.from_name("B64")
MIB = 1 << 20


class TimedDevice:
    """Takes a random time for every instruction."""

    name = "timed"

    def __init__(
        self, target: Target, memory: str = "ideal", trace: bool = False, results: bool = True
    ) -> None:
        self.target = target
        self.memory = memory
        self.trace = trace
        self.results = results
        self.closed = False

    def run(self, job: Job) -> JobStatistics:
        program = list(isa.decode(job.code))
        timeline, cycles = possible(program, random.Random(5))
        return JobStatistics(
            device=self.name, memory=self.memory, cycles=cycles, instructions=len(program),
            busy_cycles={"conv": cycles / 2},
            timeline=timeline if self.trace else None,
        )  # fmt: skip

    def close(self) -> None:
        self.closed = True


def quantized() -> QuantizedGraph:
    q = Quantized()
    x = q.conv(q.data(12, 12, 5), "a", 24, pad=1, act="relu")
    y = q.conv(x, "dw", 0, pad=1, kind="depthwise-conv2d")
    q.op("soft", "softmax", (12, 12, 24), [y], axis=-1)
    z = q.conv(q.fix("soft", 6), "b", 24)
    return q.done(q.add([z, q.conv(x, "c", 24)], "sum"))


@pytest.fixture(scope="module")
def compiled() -> xir.Graph:
    return api.compile_graph(quantized(), target=TARGET).graph


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[TimedDevice]]:
    made: list[TimedDevice] = []

    def open_timed(name: str, target: Target, memory: str | None, **options) -> TimedDevice:
        made.append(TimedDevice(target, memory or "kv260", **options))
        return made[-1]

    monkeypatch.setattr("opendpu.profile.measure.open_device", open_timed)
    monkeypatch.setattr("opendpu.api.check_device", lambda name: None)
    yield made
    assert all(device.closed for device in made)


@pytest.fixture
def profiled(compiled: xir.Graph, devices: list[TimedDevice]) -> Profile:
    return api.profile(compiled, device="timed")


def test_our_files_say_the_layer_of_every_instruction(compiled: xir.Graph) -> None:
    again = xir.Graph.from_bytes(compiled.to_bytes())
    views = [ProgramView.from_subgraph(s) for s in dpu_subgraphs(again)]
    assert set(views[0].layers) >= {"a", "dw"}
    assert set(views[1].layers) <= {"b", "sum"}
    for view in views:
        assert len(view.layer_of) == len(view.instructions)
        assert view.layer_of[-1] == -1
        assert set(view.layer_of[:-1]) == set(range(len(view.layers)))
    macs = {n: w.macs for v in views for n, w in zip(v.layers, v.work, strict=True)}
    assert macs["a"] == 12 * 12 * 24 * 9 * 5
    assert macs["dw"] == 12 * 12 * 24 * 9
    array = {n: w.array_macs for v in views for n, w in zip(v.layers, v.work, strict=True)}
    assert array["dw"] == 0
    total = sum(w.operations for v in views for w in v.work)
    assert total == again.get_root_subgraph().get_attr("workload")


def test_reports_take_their_cycles_from_the_cycle_model(
    devices: list[TimedDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opendpu.compile_model.known_devices", lambda: ["cycle", "iss"])
    found = api.compile_graph(quantized(), target=TARGET, count=True)
    cycles = [s.counted_cycles for s in found.report.subgraphs if s.device == "DPU"]
    again = api.profile(found.graph, device="cycle")
    assert cycles == [run.statistics.cycles for run in again.runs]
    assert found.report.memory == "kv260"
    assert [device.results for device in devices] == [False, False], "nothing is computed"


@pytest.mark.parametrize("known", [["iss"], ["cycle", "iss"]])
def test_without_a_cycle_model_the_cost_model_has_to_do(
    known: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given, **_more):
        raise ToolError("there is no C++ compiler")

    monkeypatch.setattr("opendpu.compile_model.known_devices", lambda: known)
    monkeypatch.setattr("opendpu.profile.measure.open_device", fail)
    report = api.compile_graph(quantized(), target=TARGET, count=True).report
    assert not any(s.counted_cycles for s in report.subgraphs)
    assert "cycles expected for" in str(report)


def test_rows_add_up(profiled: Profile) -> None:
    rows, total = profiled.rows(), profiled.total()
    cycles = sum(run.statistics.cycles for run in profiled.runs)
    assert sum(row.cycles for row in rows) == total.cycles == cycles == total.span
    for row in (*rows, total):
        assert sum(row.reasons.values()) == row.cycles
        assert 0 <= row.utilization(TARGET.macs_per_cycle) <= 1
    loads = [
        i for run in profiled.runs for i in run.view.instructions if isinstance(i, isa.Load)
    ]  # fmt: skip
    assert total.weight_bytes + total.load_bytes == sum(i.length * i.channel for i in loads)
    saves = [
        i for run in profiled.runs for i in run.view.instructions if isinstance(i, isa.Save)
    ]  # fmt: skip
    assert total.save_bytes == sum(i.length * i.channel for i in saves)
    weights = sum(row.weight_bytes for row in rows if row.layer == "a")
    assert weights >= 24 * 9 * 5 + 24


def test_text_has_the_columns_of_the_guide(profiled: Profile) -> None:
    lines = text(profiled).splitlines()
    assert lines[0] == f"test on {TARGET.name}, device timed, memory kv260"
    assert lines[1].startswith(f"{int(profiled.total().cycles):,} cycles, utilization ")
    shares = [float(part.split()[-1].rstrip("%")) for part in lines[1].split(": ")[1].split(", ")]
    assert sum(shares) == pytest.approx(100, abs=0.5)
    head = next(line for line in lines if line.startswith("DPU Id"))
    assert [cell.strip() for cell in head.split("|")] == [
        "DPU Id", "Bat", "SubGraph", "WL", "RT", "Perf", "LdWB", "LdFM", "StFM", "AvgBw", "Util",
        "Cycles", "useful", "lanes", "load", "save", "misc", "issue", "fill",
    ]  # fmt: skip
    row = next(line for line in lines if line.startswith("DPUCZDX8G_1 | 1   | a "))
    cells = [cell.strip() for cell in row.split("|")]
    (wanted,) = [r for r in profiled.rows() if r.layer == "a"]
    assert cells[3] == "~0"
    assert float(cells[4]) == pytest.approx(float(wanted.cycles) / 300e3, abs=5e-4)
    assert int(cells[11]) == wanted.cycles
    (engines,) = (n for n, line in enumerate(lines) if line.startswith("Engines (cycles with"))
    cells = [cell.strip() for cell in lines[engines + 4].split("|")]
    run = profiled.runs[0]
    assert cells[:3] == [run.view.name, str(len(run.view.instructions)), str(run.statistics.cycles)]
    assert cells[3:] == ["50.0%"]
    assert "CPU Tasks in Graph (not timed):" in lines
    assert any("softmax" in line for line in lines)


def test_csv_and_json(profiled: Profile) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(profiled))))
    assert [row["layer"] for row in rows] == [*(r.layer for r in profiled.rows()), "total"]
    for row in rows:
        assert sum(float(row[key]) for key in CATEGORIES) == pytest.approx(float(row["cycles"]))
    found = json.loads(json_text(profiled))
    assert found["target"] == TARGET.name
    assert [row["layer"] for row in found["layers"]] == [row["layer"] for row in rows[:-1]]
    assert found["total"]["cycles"] == float(rows[-1]["cycles"])
    assert found["cpu"][0]["ops"] == ["fix2float", "softmax", "float2fix"]
    moved = found["total"]["ldwb_mb"] + found["total"]["ldfm_mb"] + found["total"]["stfm_mb"]
    seconds = found["total"]["cycles"] / 300e6
    assert found["total"]["avgbw_mb_s"] == pytest.approx(moved / seconds)


def test_the_trace_keeps_the_format(profiled: Profile) -> None:
    found = json.loads(trace_json(profiled))
    events = found["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    count = sum(len(run.view.instructions) for run in profiled.runs)
    assert len(spans) == count
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in spans:
        assert set(event) == {"ph", "pid", "tid", "cat", "name", "ts", "dur", "args"}
        assert event["dur"] >= 0
        tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    for track in tracks.values():
        for (ts, dur), (following, _) in itertools.pairwise(track):
            assert ts + dur <= following + 1e-6, "events of a track do not overlap"
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert set(named.values()) == {"LOAD", "SAVE", "CONV", "MISC"}
    assert set(tracks) <= set(named)
    begins = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert begins
    assert set(begins) == set(ends)
    for key, event in begins.items():
        assert event["ts"] < ends[key]["ts"]
        assert event["tid"] != ends[key]["tid"]
        assert ends[key]["bp"] == "e"
    last = max(e["ts"] + e["dur"] for e in spans)
    assert last <= float(profiled.total().cycles) / 300 + 1e-6
    plain = json.loads(trace_json(profiled, tokens=False))["traceEvents"]
    assert {e["ph"] for e in plain} == {"M", "X"}


def test_the_roofline_is_above_every_layer(profiled: Profile) -> None:
    root = ElementTree.fromstring(roofline(profiled).svg())
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    titles = [c.findtext("{http://www.w3.org/2000/svg}title") for c in circles]
    worked = [row.layer for row in profiled.rows() if row.work.operations and row.span]
    assert sorted(str(t).split(":")[0] for t in titles) == sorted(worked)
    texts = {t.text for t in root.findall("{http://www.w3.org/2000/svg}text")}
    assert {"19 GOP/s", "14.4 GB/s", "operations a byte of DDR"} <= texts


def test_files_of_amds_compiler_have_a_row_a_subgraph(
    models: pathlib.Path, devices: list[TimedDevice]
) -> None:
    graph = api.load(models / "amd_compiled" / "dpu_mnist_classifier.xmodel")
    found = api.profile(graph, device="timed")
    names = [s.get_name() for s in dpu_subgraphs(graph)]
    assert [row.layer for row in found.rows()] == [*names, REST]
    row = found.rows()[0]
    assert row.work.array_macs > 0
    assert row.work.operations == dpu_subgraphs(graph)[0].get_attr("workload")
    assert row.work.array_macs == 26 * 26 * 32 * 9 + 13 * 13 * 32 * 128 + 128 * 10
    assert found.total().cycles == found.runs[0].statistics.cycles


def test_devices_without_times(
    compiled: xir.Graph, devices: list[TimedDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = TimedDevice.run
    monkeypatch.setattr(
        TimedDevice, "run",
        lambda self, job: (setattr(self, "trace", False), real(self, job))[1],
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="'timed' does not tell when instructions run"):
        api.profile(compiled, device="timed")


def test_iss_has_no_times(compiled: xir.Graph) -> None:
    with pytest.raises(UnsupportedError, match="'iss' does not tell when instructions run, but mu"):
        api.profile(compiled, device="iss")


def test_models_that_are_not_compiled() -> None:
    with pytest.raises(ModelFormatError, match="graph 'test' has no DPU subgraph; is the model co"):
        api.profile(to_xir(quantized()), device="rtl")


def test_layer_attributes_that_do_not_fit(compiled: xir.Graph) -> None:
    broken = xir.Graph.from_bytes(compiled.to_bytes())
    (first, *_) = dpu_subgraphs(broken)
    first.set_attr("opendpu_layer_of_instruction", [0, 1])
    with pytest.raises(ModelFormatError, match=r"has 2 numbers of . layers, but there are"):
        ProgramView.from_subgraph(first)
    first.remove_attr("mc_code")
    with pytest.raises(ModelFormatError, match="has no attribute 'mc_code'; is the model compil"):
        ProgramView.from_subgraph(first)


def test_command(compiled: xir.Graph, devices: list[TimedDevice], tmp_path: pathlib.Path) -> None:
    compiled.serialize(tmp_path / "m.xmodel")
    command = ["profile", str(tmp_path / "m.xmodel"), "--device", "timed", "--memory", "ideal"]
    files = {
        "--trace": "t.json", "--roofline": "r.svg", "--csv": "t.csv",
    }  # fmt: skip
    options = [part for flag, name in files.items() for part in (flag, str(tmp_path / name))]
    result = CliRunner().invoke(app, [*command, *options])
    assert result.exit_code == 0, result.output
    assert "device timed, memory ideal" in result.stdout
    assert result.stderr == ""
    assert {p.name for p in tmp_path.iterdir()} == {"m.xmodel", *files.values()}
    assert json.loads((tmp_path / "t.json").read_text())["otherData"]["clock_mhz"] == 300
    result = CliRunner().invoke(app, [*command, "--json", "--clock", "150"])
    assert json.loads(result.stdout)["clock_mhz"] == 150
    result = CliRunner().invoke(app, [*command, "--roofline", str(tmp_path / "r.jpg")])
    assert result.exit_code == 1
    assert "r.jpg, but must end in .svg or .png" in result.stderr
    result = CliRunner().invoke(app, [*command, "--csv", str(tmp_path / "no" / "t.csv")])
    assert f"t.csv cannot be written: there is no folder {tmp_path}/no" in result.stderr


def test_idle_engines_have_no_step(profiled: Profile) -> None:
    for run in profiled.runs:
        steps = np.array(run.view.steps)
        engines = np.array([i.ENGINE for i in run.view.instructions])
        assert (steps[engines != isa.Engine.CONV] == 0).all()
