# SPDX-License-Identifier: Apache-2.0
"""Whole networks: compiled with every pass dumped, then profiled by the cycle model."""

import pathlib

import numpy as np
import pytest

import xir
from opendpu import api
from opendpu.compiler.passes import PASSES
from opendpu.frontend import load_onnx
from opendpu.profile.tables import text
from opendpu.quantize import quantize
from opendpu_arch.target import Target
from opendpu_sim.cycle.device import CycleDevice

pytestmark = [pytest.mark.system, pytest.mark.cosim]

NETWORKS = {"ic": ("ic_resnet8.onnx", 255.0), "vww": ("vww_mobilenetv1_025.onnx", 1.0)}
"""File and range of the input."""


@pytest.mark.parametrize("target", ["B512", "B4096"])
@pytest.mark.parametrize("name", NETWORKS)
def test_network(
    models: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    target: str,
) -> None:
    file, largest = NETWORKS[name]
    graph = load_onnx(models / "mlperf_tiny" / file)
    (head,) = (node for node in graph if node.kind == "data")
    shape = head.shape[1:]
    samples = np.random.default_rng(0).random((4, *shape), np.float32) * largest
    options = api.Options(dump=frozenset(p.name for p in PASSES), dump_dir=str(tmp_path / "dump"))
    quantized = quantize(graph, {head.name: samples})
    api.compile_graph(quantized, target=target, options=options).graph.serialize(
        tmp_path / "n.xmodel"
    )
    assert {path.name.split(".")[0] for path in (tmp_path / "dump").iterdir()} == {
        f"{number:02}-{one.name}" for number, one in enumerate(PASSES)
    }
    monkeypatch.setattr(
        "opendpu.profile.measure.open_device",
        lambda name, target, memory, **options: CycleDevice(target, **options),
    )
    found = api.profile(tmp_path / "n.xmodel", device="cycle")
    peak = Target.from_name(target).macs_per_cycle
    (run,) = found.runs
    total = run.account.total()
    assert sum(total.values()) == run.statistics.cycles
    assert total["useful"] + total["lanes"] == run.statistics.busy_cycles["array"]
    for row in found.rows():
        assert sum(row.reasons.values()) == row.cycles
        assert 0 <= row.utilization(peak) <= 1
    ops = {op.get_name() for op in xir.Graph.deserialize(tmp_path / "n.xmodel").get_ops()}
    assert {row.layer for row in found.rows()[:-1]} <= ops
    assert f"| {found.rows()[0].layer} " in text(found)
