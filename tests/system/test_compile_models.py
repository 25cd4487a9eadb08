# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny networks from ONNX to results: the compiled programs against the reference."""

import functools
import pathlib

import numpy as np
import pytest
from oracle import evaluate_quantized, floating
from typer.testing import CliRunner

import xir
from opendpu import api
from opendpu.cli.app import app
from opendpu.frontend import load_onnx
from opendpu.ir import QuantizedGraph
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner, cpu
from opendpu_arch import numerics
from opendpu_arch.errors import TensorError, UnsupportedError
from opendpu_arch.target import Target

pytestmark = pytest.mark.system

NETWORKS = {
    "kws": ("kws_dscnn.onnx", 4.0),
    "ic": ("ic_resnet8.onnx", 255.0),
    "vww": ("vww_mobilenetv1_025.onnx", 1.0),
    "ad": ("ad01.onnx", 4.0),
}
"""File and range of the input."""
TARGETS = ("B64", "B512", "B1152", "B4096")
CLIPS = 1000
LEAST_ACCURACY = 0.891
"""One point below the float network."""


def clips(models: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the keyword-spotting evaluation set: float inputs and labels."""
    data = np.load(models / "mlperf_tiny" / "kws01.npz")
    values = (data["x"].astype(np.float32) - data["zero_point"]) * data["scale"]
    return values.astype(np.float32), data["y"]


@functools.cache
def quantized(models: pathlib.Path, name: str) -> QuantizedGraph:
    file, largest = NETWORKS[name]
    graph = load_onnx(models / "mlperf_tiny" / file)
    (head,) = (node for node in graph if node.kind == "data")
    shape = head.shape[1:]
    samples = np.random.default_rng(0).random((20, *shape), np.float32) * largest
    if name == "kws":
        samples = clips(models)[0][:100]
    return quantize(graph, {head.name: samples})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NETWORKS)
def test_network_is_bit_exact(models: pathlib.Path, name: str, target: str) -> None:
    graph = quantized(models, name)
    compiled = api.compile_graph(graph, target=target)
    assert set(compiled.report.on_cpu.values()) <= {
        "the DPU has no softmax (XCOM_OPERATOR_UNUPPORT)"
    }
    random_bytes = np.random.default_rng(1)
    with GraphRunner(compiled.graph, device="iss", check=True, schedule_seed=1) as runner:
        (head,) = runner.get_input_tensors()
        given = {head.name: random_bytes.integers(-128, 128, head.dims, np.int8)}
        found = runner.run(given)
        (last,) = (s for s in compiled.report.subgraphs if s.device == "DPU")
        wanted = evaluate_quantized(graph, given)
    for key, values in wanted.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-5, atol=1e-6)
    assert last.instructions["END"] == 1


@pytest.mark.slow
def test_keyword_spotting_accuracy(models: pathlib.Path) -> None:
    """The whole evaluation set on the functional simulator."""
    values, labels = clips(models)
    compiled = api.compile_graph(quantized(models, "kws"), target="B4096")
    with api.create_runner(compiled.graph, device="iss") as runner:
        (head,) = runner.get_input_tensors()
        # Rounded here; a runner that is given floats cuts them off, as VART does.
        given = numerics.quantize(values[:CLIPS], head.get_attr("fix_point")).astype(np.int8)
        outputs, _ = api.run_batch(runner, {head.name: given})
        (scores,) = outputs.values()
        right = int((scores.reshape(CLIPS, -1).argmax(axis=1) == labels[:CLIPS]).sum())
    assert right / CLIPS >= LEAST_ACCURACY


def test_command_line(models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    calibration, output = tmp_path / "calib.npz", tmp_path / "kws.xmodel"
    np.savez(calibration, input_1=clips(models)[0][:20])
    file = models / "mlperf_tiny" / "kws_dscnn.onnx"
    result = CliRunner().invoke(
        app,
        ["compile", str(file), "--calib", str(calibration), "--target", "B512", "-o", str(output)],
    )
    assert result.exit_code == 0, result.output
    assert (
        "op Identity has been assigned to CPU: [the DPU has no softmax (XCOM_OPERATOR_UNUPPORT)]."
        in result.output
    )
    (dpu,) = api.dpu_subgraphs(api.load(output))
    assert dpu.get_attr("dpu_fingerprint") == Target.from_name("B512").fingerprint


def test_nothing_is_written_when_compiling_fails(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    output = tmp_path / "kws.xmodel"
    file = models / "mlperf_tiny" / "kws_dscnn.onnx"
    with pytest.raises(TensorError, match="input_1"):
        api.compile_onnx(
            file, calibration={"input_1": np.zeros((2, 3))}, target="B512", output=output
        )
    with pytest.raises(UnsupportedError, match="best"):
        api.compile_onnx(
            file, calibration={"input_1": clips(models)[0][:2]}, target="B512", output=output,
            method="best",
        )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_quantized_model_of_amd(models: pathlib.Path) -> None:
    """PointPillars as AMD's PyTorch quantizer wrote it, with a custom op in the middle."""
    graph = xir.Graph.deserialize(models / "amd_compiled" / "VoxelNet_int.xmodel")
    compiled = api.compile_graph(graph, target="B4096")
    devices = [s.device for s in compiled.report.subgraphs if s.device != "USER"]
    assert devices == ["DPU", "CPU", "DPU"], "all but the custom op and what stands around it"
    assert "the DPU has no PPScatterV2 (XCOM_OPERATOR_UNUPPORT)" in compiled.report.on_cpu.values()
    (custom,) = (op for op in compiled.graph.get_ops() if op.get_type() == "PPScatterV2")
    assert custom.get_output_tensor().dims == [1, 64, 496, 432]


def scattered(features: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
    """Put pillars [1, 64, n, 1] at the rows and columns that [1, n, 4] ends with: NCHW."""
    result = np.zeros((1, 64, 496, 432), np.float32)
    rows, columns = coordinates[0, :, 2:].astype(int).T
    result[0, :, rows, columns] = features[0, :, :, 0].T
    return result


@pytest.mark.slow
def test_quantized_model_of_amd_is_bit_exact(
    models: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same network on the functional simulator, with an op of our own in the middle."""
    graph = xir.Graph.deserialize(models / "amd_compiled" / "VoxelNet_int.xmodel")
    noise = np.random.default_rng(6)
    places = noise.permutation(496 * 432)[:12000]
    coordinates = np.zeros((1, 12000, 4), np.float32)
    coordinates[0, :, 2], coordinates[0, :, 3] = places // 432, places % 432
    given = {
        "VoxelNet__input_0": noise.integers(-128, 128, (1, 12000, 100, 4), np.int8),
        "VoxelNet__input_1": coordinates,
    }
    monkeypatch.setitem(floating.KERNELS, "PPScatterV2", lambda _, i: scattered(*i["input"]))
    wanted = evaluate_quantized(graph, given)
    cpu.register("PPScatterV2")(lambda _, inputs: scattered(*inputs))
    try:
        compiled = api.compile_graph(graph, target="B4096")
        with GraphRunner(compiled.graph, device="iss") as runner:
            found = runner.run(given)
    finally:
        cpu.unregister("PPScatterV2")
    assert len(wanted) == 3
    for key, values in wanted.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-5, atol=1e-6)
        assert np.unique(values).size > 50
