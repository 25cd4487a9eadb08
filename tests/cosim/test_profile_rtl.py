# SPDX-License-Identifier: Apache-2.0
"""Profiles of compiled models on the RTL: every step of the array and every cycle has a place."""

import json
import pathlib
import sys

import pytest
from typer.testing import CliRunner

import xir
from opendpu import api
from opendpu.cli.app import app
from opendpu.compiler.pipeline import compile_with_report
from opendpu.ir import QuantizedGraph
from opendpu.profile import Profile
from opendpu_arch.target import Target
from opendpu_sim.cycle.device import CycleDevice

sys.path.append(str(pathlib.Path(__file__).parents[1] / "unit" / "opendpu" / "compiler"))

from graph_draws import Quantized

pytestmark = pytest.mark.cosim

TARGET = Target.from_name("B64")


def quantized() -> QuantizedGraph:
    """Return strides, residuals, depthwise and pooling layers, and an op for the CPU."""
    q = Quantized()
    x = q.conv(q.data(20, 18, 3), "stem", 16, stride=2, pad=1, act="relu")
    y = q.conv(q.conv(x, "dw", 0, pad=1, kind="depthwise-conv2d"), "pw", 16, kernel=1)
    x = q.add([x, y], "sum", act="relu")
    q.op("soft", "softmax", (10, 9, 16), [x], axis=-1)
    z = q.pool(q.fix("soft", 6), "pool", "maxpool2d", 2, 2)
    return q.done(q.conv(z, "last", 24))


@pytest.fixture(scope="module")
def compiled() -> xir.Graph:
    return compile_with_report(quantized(), TARGET).graph


@pytest.fixture(scope="module", params=["ideal", "kv260", "stall:7"])
def found(request: pytest.FixtureRequest, compiled: xir.Graph) -> Profile:
    return api.profile(compiled, device="rtl", memory=request.param)


def test_every_cycle_has_a_place(found: Profile) -> None:
    for run in found.runs:
        total = run.account.total()
        assert sum(total.values()) == run.statistics.cycles
        assert min(total.values()) >= 0


def test_every_step_of_the_array_has_a_place(found: Profile) -> None:
    for run in found.runs:
        total = run.account.total()
        assert total["useful"] + total["lanes"] == run.statistics.busy_cycles["array"]


def test_bytes_are_those_of_the_ports(found: Profile) -> None:
    """Beats have 16 bytes; instructions name only those they need."""
    for run in found.runs:
        rows = run.rows()
        code = sum(4 * i.WORDS for i in run.view.instructions)
        loaded = sum(row.weight_bytes + row.load_bytes for row in rows)
        assert loaded <= run.statistics.bytes_read - code
        assert sum(row.save_bytes for row in rows) == run.statistics.bytes_written


def test_convolutions_are_no_faster_than_the_array(found: Profile) -> None:
    names = {row.layer: row for row in found.rows()}
    assert {"stem", "dw", "pool", "last"} <= set(names)
    for row in found.rows():
        assert 0 <= row.utilization(TARGET.macs_per_cycle) <= 1


def test_the_cycle_model_gives_the_same_profile(
    compiled: xir.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = api.profile(compiled, device="rtl", memory="ideal")
    monkeypatch.setattr(
        "opendpu.profile.measure.open_device",
        lambda name, target, memory, **options: CycleDevice(target, memory=memory, **options),
    )
    predicted = api.profile(compiled, device="cycle", memory="ideal")
    assert predicted.device == "cycle"
    assert [run.account for run in predicted.runs] == [run.account for run in measured.runs]
    assert predicted.rows() == measured.rows()


def test_command(compiled: xir.Graph, tmp_path: pathlib.Path) -> None:
    compiled.serialize(tmp_path / "m.xmodel")
    result = CliRunner().invoke(
        app, ["profile", str(tmp_path / "m.xmodel"), "--device", "rtl", "--json"]
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["memory"] == "kv260"
    assert sum(row["cycles"] for row in report["layers"]) == pytest.approx(
        sum(run["cycles"] for run in report["runs"])
    )
