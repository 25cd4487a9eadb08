# SPDX-License-Identifier: Apache-2.0
"""``opendpu inspect``: what it prints and writes, wrong arguments, missing and damaged files."""

import json
import pathlib

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from typer.testing import CliRunner, Result

from opendpu.cli.app import app

STEM = "inspect_DPUCZDX8G_ISA1_B512"


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a convolution and a softmax, with an open height."""
    kind = onnx.TensorProto.FLOAT
    weights = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Softmax", ["c"], ["y"], "soft", axis=1),
    ]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", kind, [1, 3, "height", 8])],
        [helper.make_tensor_value_info("y", kind, None)], [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=9)
    onnx.save(made, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def inspected(model: pathlib.Path, *more: str) -> Result:
    target = [] if "--target" in more else ["--target", "B512"]
    command = ["inspect", str(model), "--input-shape", "height=8", *target, *more]
    return CliRunner().invoke(app, command)


def test_what_is_on_the_cpu_is_printed(model: pathlib.Path) -> None:
    found = inspected(model)
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines() == [
        "1 of 2 operators are assigned to the DPU, 1 to the CPU:",
        "",
        "node name  op Type  hardware constraints",
        "soft       Softmax  the DPU has no softmax (XCOM_OPERATOR_UNUPPORT)",
    ]


def test_an_input_that_always_has_one_value(model: pathlib.Path) -> None:
    made = onnx.load(model)
    made.graph.input.append(helper.make_tensor_value_info("gain", onnx.TensorProto.FLOAT, []))
    made.graph.node[1].input[0] = "g"
    made.graph.node.insert(1, helper.make_node("Mul", ["c", "gain"], ["g"], "gained"))
    onnx.save(made, model)
    lines = [
        inspected(model, "--json", "--all", *more)
        for more in ([], ["--input-value", "gain=0.5"])
    ]  # fmt: skip
    devices = [
        {node["name"]: node["device"] for node in json.loads(found.stdout)["nodes"]}
        for found in lines
    ]
    assert [one["conv"] for one in devices] == ["DPU", "DPU"]
    assert devices[0]["gained"] == "CPU"
    assert devices[1].get("gained", "DPU") == "DPU"
    refused = inspected(model, "--input-value", "rain=1")
    assert refused.exit_code == 1
    assert "has input 'rain', but the inputs are: x" in refused.stderr


def test_files_are_written_and_named(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "out"
    found = inspected(model, "--all", "-o", str(folder), "--format", "svg")
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[4:6] == ["conv       Conv     DPU     -", lines[5]]
    assert lines[-3:] == [f"written: {folder / STEM}.{e}" for e in ("txt", "gv", "svg")]
    assert "Inspection Summary" in (folder / f"{STEM}.txt").read_text()


def test_json(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = json.loads(inspected(model, "--json", "-o", str(tmp_path)).stdout)
    assert found["files"] == [f"{tmp_path / STEM}.txt"]
    assert [(n["name"], n["device"]) for n in found["nodes"]] == [
        ("x", "USER"), ("conv", "DPU"), ("soft", "CPU"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--format", "gif", "-o", "."), "image format 'gif' is unknown; choose one of svg, png"),
        (("--format", "svg"), "--format draws into a folder: say which (--output DIR)"),
        (("--activation-substitution", "x"), "activation substitution 'x' is unknown"),
        (("--target", "B7"), "no target is called 'B7'"),
        (("--input-shape", "depth=3"), "depth"),
    ],
)
def test_wrong_arguments(model: pathlib.Path, more: tuple[str, ...], text: str) -> None:
    found = inspected(model, *more)
    assert found.exit_code == 1
    assert found.stderr.startswith("opendpu: error: ")
    assert text in found.stderr


def test_missing_and_damaged_files(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    missing = inspected(tmp_path / "none.onnx")
    assert (missing.exit_code, "no such file" in missing.stderr) == (1, True)
    damaged = tmp_path / "bad.onnx"
    damaged.write_bytes(model.read_bytes()[:-40])
    assert inspected(damaged).exit_code == 1
    damaged.rename(tmp_path / "bad.xmodel")
    found = inspected(tmp_path / "bad.xmodel")
    assert (found.exit_code, "bad.xmodel" in found.stderr) == (1, True)
