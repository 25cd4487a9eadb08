# SPDX-License-Identifier: Apache-2.0
"""What passes made, as files: complete ones only."""

import pathlib
import xml.etree.ElementTree as ElementTree

import pytest
from graph_draws import Quantized

import xir
from opendpu.compiler.dump import Dumper
from opendpu.compiler.passes import EACH, PASSES, chosen
from opendpu.compiler.pipeline import compile_with_report
from opendpu.ir import QuantizedGraph
from opendpu_arch.errors import GraphError, OutputError, UnsupportedError
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")


def graph() -> QuantizedGraph:
    q = Quantized()
    x = q.conv(q.data(8, 8, 5), "a", 9, pad=1, act="relu")
    q.op("soft", "softmax", (8, 8, 9), [x], axis=-1)
    y = q.conv(q.fix("soft", 6), "b", 3)
    left = q.conv(x, "c", 3)
    return q.done(q.add([y, left], "sum"), q.pool(left, "pool", "maxpool2d", 2))


def test_every_pass(tmp_path: pathlib.Path) -> None:
    with Dumper(tmp_path / "dump", chosen(["all"])) as dump:
        compile_with_report(graph(), TARGET, passed=dump)
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    stems = {name.rsplit(".", 1)[0] for name in names}
    wanted = set()
    for number, one in enumerate(PASSES):
        wanted |= {
            f"{number:02}-{one.name}{p}" for p in ((".0", ".1") if one.name in EACH else ("",))
        }
    assert stems == wanted
    for stem in stems:
        assert (tmp_path / "dump" / f"{stem}.txt").read_text().endswith("\n")
        root = ElementTree.parse(tmp_path / "dump" / f"{stem}.svg").getroot()
        assert root.findall("{http://www.w3.org/2000/svg}text"), stem
    graphs = {name for name in names if name.endswith(".xmodel")}
    assert graphs == {f"{s}.xmodel" for s in wanted if s[3:] in (
        "fold", "legalize", "partition", "assemble",
    )}  # fmt: skip


def test_graphs_can_be_read_again(tmp_path: pathlib.Path) -> None:
    with Dumper(tmp_path, chosen(["fold", "partition", "assemble"])) as dump:
        compiled = compile_with_report(graph(), TARGET, passed=dump).graph
    again = xir.Graph.deserialize(tmp_path / "00-fold.xmodel")
    assert compile_with_report(again, TARGET).graph.to_bytes() == compiled.to_bytes()
    parts = xir.Graph.deserialize(tmp_path / "02-partition.xmodel").get_root_subgraph()
    devices = [str(s.get_attr("device")) for s in parts.toposort_child_subgraph()]
    assert devices == ["USER", "DPU", "CPU", "DPU"]
    assert (tmp_path / "26-assemble.xmodel").read_bytes() == compiled.to_bytes()


def test_text_says_what_was_decided(tmp_path: pathlib.Path) -> None:
    with Dumper(tmp_path, chosen(["partition", "tile", "emit", "schedule"])) as dump:
        compile_with_report(graph(), TARGET, passed=dump)
    partition = (tmp_path / "02-partition.txt").read_text()
    assert "part 2 CPU" in partition
    assert "    on the CPU: the DPU has no softmax" in partition
    assert " fix_point=4 tensor=a_relu_fix\n" in partition
    assert "  nest: loops columns=" in (tmp_path / "22-tile.0.txt").read_text()
    assert " a 1 cycles [] CONVINIT" in (tmp_path / "24-emit.0.txt").read_text().replace("  ", " ")
    schedule = (tmp_path / "25-schedule.0.txt").read_text().splitlines()
    assert schedule[0].startswith("# about ")
    assert " - END dpdon=" in schedule[-1]


def test_what_was_made_before_an_error_is_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object) -> None:
        raise GraphError("asked for")

    monkeypatch.setattr("opendpu.compiler.passes.lower", fail)
    with (
        pytest.raises(GraphError, match="asked for"),
        Dumper(tmp_path, chosen(["all"])) as dump,
    ):
        compile_with_report(graph(), TARGET, passed=dump)
    stems = {path.stem for path in tmp_path.iterdir()}
    assert stems == {"00-fold", "01-legalize", "02-partition"}


def test_a_file_that_cannot_be_written_is_not_half_there(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
        raise OSError(28, "No space left on device")

    (tmp_path / "00-fold.txt").write_text("before")
    monkeypatch.setattr(pathlib.Path, "replace", fail)
    with (
        pytest.raises(OutputError, match=r"00-fold.txt cannot be written: No space left"),
        Dumper(tmp_path, chosen(["fold"])) as dump,
    ):
        compile_with_report(graph(), TARGET, passed=dump)
    assert [path.name for path in tmp_path.iterdir()] == ["00-fold.txt"]
    assert (tmp_path / "00-fold.txt").read_text() == "before"


def test_unknown_passes_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"\[XCOM_PASS_MISS\] no pass is called 'no'; known"):
        chosen(["tile", "no"])
    assert chosen(["tile", " emit"]) == {"tile", "emit"}
