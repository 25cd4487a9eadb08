# SPDX-License-Identifier: Apache-2.0
"""``opendpu compile --activation-substitution``: what it changes, and what the report says."""

import json
import pathlib

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner, Result

from opendpu.cli.app import app

PROPOSAL = (
    "sigmoid and swish split the network between DPU and CPU (1 ops); activation "
    "substitution 'hard' would put them on the DPU"
)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a folder with a model of two convolutions and a SiLU between them, and samples."""
    random, helper = np.random.default_rng(1), onnx.helper
    weights = [random.normal(0, 0.3, (8, size, 3, 3)).astype(np.float32) for size in (3, 8)]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1], name="a"),
        helper.make_node("Sigmoid", ["a"], ["s"], name="s"),
        helper.make_node("Mul", ["a", "s"], ["m"], name="m"),
        helper.make_node("Conv", ["m", "w1"], ["y"], pads=[1, 1, 1, 1], name="y"),
    ]
    graph = helper.make_graph(
        nodes, "silu",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(w, f"w{n}") for n, w in enumerate(weights)],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "m.onnx")
    np.savez(tmp_path / "calib.npz", x=random.normal(0, 1, (16, 3, 8, 8)).astype(np.float32))
    return tmp_path


def compiled(folder: pathlib.Path, *more: str) -> Result:
    command = [
        "compile", str(folder / "m.onnx"), "--calib", str(folder / "calib.npz"), "--target",
        "B512", "-o", str(folder / "out.xmodel"), "--no-count", *more,
    ]  # fmt: skip
    return CliRunner().invoke(app, command)


def test_none_splits_the_network_and_proposes_hard(folder: pathlib.Path) -> None:
    found = compiled(folder)
    assert found.exit_code == 0, found.output
    assert f"note: {PROPOSAL}" in found.stdout.splitlines()
    report = json.loads(compiled(folder, "--json").stdout)
    assert report["quantization"]["notes"] == [PROPOSAL]
    assert "the DPU has no" in " ".join(report["on_cpu"].values())


def test_hard_makes_one_subgraph_and_says_what_it_cost(folder: pathlib.Path) -> None:
    report = json.loads(compiled(folder, "--activation-substitution", "hard", "--json").stdout)
    assert report["on_cpu"] == {}
    assert [part["device"] for part in report["subgraphs"] if part["device"] != "USER"] == ["DPU"]
    found = report["quantization"]
    assert len(found["substituted"]) == 1
    (ratio,) = found["substitution_sqnr"].values()
    assert 5 < ratio < 60
    text = compiled(folder, "--activation-substitution", "hard").stdout.splitlines()
    assert "activations replaced by hard ones: 1; signal to noise of that:" in text
    assert f"  output y: {ratio:.1f} dB" in text


def test_an_unknown_word_is_refused_before_work(folder: pathlib.Path) -> None:
    found = compiled(folder, "--activation-substitution", "soft")
    assert found.exit_code == 1
    assert found.stderr == (
        "opendpu: error: activation substitution 'soft' is unknown; choose one of none, hard\n"
    )
    assert not (folder / "out.xmodel").exists()
