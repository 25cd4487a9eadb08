# SPDX-License-Identifier: Apache-2.0
"""The guide's crosscheck, from quantizer to board tool: golden results, dumps, log."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest

pytestmark = pytest.mark.system


def command(folder: pathlib.Path, *words: str, **variables: str) -> str:
    """Run a command of ours in a folder; return what it writes to stderr."""
    path = pathlib.Path(sys.executable).parent / words[0]
    done = subprocess.run(
        [str(path), *words[1:]],
        cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_golden_results_of_the_quantizer(tmp_path, rng):
    """Two convolutions that run chained, so the feature map between them is never in memory."""
    helper = onnx.helper
    weights = {
        "w": rng.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32),
        "v": rng.normal(0, 0.3, (4, 4, 3, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="c"),
        helper.make_node("Relu", ["c"], ["r"], name="r"),
        helper.make_node("Conv", ["r", "v"], ["y"], name="y"),
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 4, 6, 6))],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), tmp_path / "m.onnx")
    samples = rng.normal(0, 1, (8, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "c.npz", x=samples)
    quantize = ["quantize", "m.onnx", "--calib", "c.npz", "-o", "q.xmodel", "--dump", "golden"]
    command(tmp_path, "opendpu", *quantize)
    command(tmp_path, "opendpu", "compile", "q.xmodel", "--target", "B512", "-o", "net.xmodel")
    golden = tmp_path / "golden" / "dump_results_0"
    check(tmp_path, golden, broken=False)
    content = np.fromfile(golden / "quant_r.bin", np.int8)
    (content ^ 1).tofile(golden / "quant_r.bin")
    check(tmp_path, golden, broken=True)


def check(folder: pathlib.Path, golden: pathlib.Path, *, broken: bool) -> None:
    """Run the network with golden results, of which those of one layer may be wrong."""
    log = command(
        folder, "xdputil", "run", "net.xmodel", str(golden / "quant_x.bin"),
        XLNX_ENABLE_DUMP="1", XLNX_ENABLE_DEBUG_MODE="1", XLNX_GOLDEN_DIR=str(golden),
    )  # fmt: skip
    compared = [line for line in log.splitlines() if "XLNX_GOLDEN_DIR" in line]
    failed = {line.split("layer_name ")[1].split()[0] for line in compared if "fail !" in line}
    good = {line.split("layer_name ")[1].split()[0] for line in compared if "success !" in line}
    assert any(name.startswith("x") for name in good)
    assert "y_fix" in good
    assert failed == ({"r_fix"} if broken else set())
    assert ("r_fix" in good) != broken
    dumped = {path.name for path in (folder / "dump").rglob("*.bin")}
    assert {"0.r_fix.bin", "0.y_fix.bin"} <= dumped
    assert "gives other results" not in log
