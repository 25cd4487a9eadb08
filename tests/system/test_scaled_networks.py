# SPDX-License-Identifier: Apache-2.0
"""The int8 files of MLPerf Tiny on targets with ``scaled``: LiteRT's bytes on the functional
simulator, and on the RTL those of that in the cycles of the cycle model."""

import pathlib
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")

import xir
from opendpu import api

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "bench"))

import bench_scaled

pytestmark = pytest.mark.system

EXTENDED = "B64+table+channel+scaled"
"""What other tests build too."""
INPUTS = 2


def file_of(models: pathlib.Path, name: str) -> pathlib.Path:
    return models / "mlperf_tiny" / "int8" / f"{name}_int8.tflite"


def compiled(models: pathlib.Path, name: str, target: str, folder: pathlib.Path) -> xir.Graph:
    output = folder / f"{name}.xmodel"
    api.compile_onnx(file_of(models, name), target=target, output=output)
    return api.load(output)


def run(graph: xir.Graph, device: str, count: int) -> tuple[dict[str, Any], list[Any]]:
    """Return the outputs of the DPU subgraph on random bytes, and its statistics."""
    with api.create_runner(graph, subgraph=0, device=device, memory="kv260") as runner:
        random = np.random.default_rng(bench_scaled.SEED)
        given = {
            tensor.name: random.integers(-128, 128, (count, *tensor.dims[1:])).astype(np.int8)
            for tensor in runner.get_input_tensors()
        }
        results, statistics = api.run_batch(runner, given)
    return results, [one for job in statistics for one in job.values()]


@pytest.mark.parametrize("name", bench_scaled.NETWORKS)
def test_iss_equals_litert(models: pathlib.Path, name: str, rng: np.random.Generator) -> None:
    path = file_of(models, name)
    samples = bench_scaled.random_samples(path, INPUTS, rng)
    found = bench_scaled.on_device(path, samples, "iss", "B4096+scaled")
    np.testing.assert_array_equal(found, bench_scaled.reference(path, samples))


@pytest.mark.cosim
@pytest.mark.parametrize(
    "name, target",
    [
        ("ad01", EXTENDED),
        *(
            pytest.param(name, target, marks=pytest.mark.slow)
            for name in bench_scaled.NETWORKS
            for target in (EXTENDED, "B512+scaled", "B4096+scaled")
            if (name, target) != ("ad01", EXTENDED)
        ),
    ],
)
def test_rtl_equals_iss_in_the_predicted_cycles(
    models: pathlib.Path, name: str, target: str, tmp_path: pathlib.Path
) -> None:
    graph = compiled(models, name, target, tmp_path)
    wanted, _ = run(graph, "iss", 1)
    found, (measured,) = run(graph, "rtl", 1)
    _, (predicted,) = run(graph, "cycle", 1)
    assert wanted.keys() == found.keys()
    for key, values in wanted.items():
        assert len(np.unique(values)) > 1
        np.testing.assert_array_equal(found[key], values)
    assert measured["cycles"] == predicted["cycles"]
