# SPDX-License-Identifier: Apache-2.0
"""``opendpu evaluate``: the digits, interrupted, with workers that die, on processes and Ray."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from opendpu.cli import app
from opendpu.data_sets import evaluate, pools
from opendpu.data_sets.progress_file import ProgressFile
from opendpu.data_sets.work import Task
from opendpu_arch.errors import DPUError, TensorError

TARGET = "DPUCZDX8G_ISA1_B512"


@pytest.fixture
def digits(tmp_path, monkeypatch, repository):
    """Return the network of the demo and 48 digits."""
    monkeypatch.chdir(tmp_path)
    found = load_digits()
    images = (found.images[:48, None] / 16).astype(np.float32)
    np.savez("digits.npz", x=images, labels=found.target[:48])
    return repository / "scripts/demo/digits.onnx"


def test_float_quantized_and_hardware_next_to_each_other(digits):
    found = CliRunner().invoke(
        app,
        ["evaluate", str(digits), "--data", "digits.npz", "--target", TARGET, "--rtl", "2",
         "--hardware", "iss", "--workers", "1", "--json"],
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    assert report["samples"] == {"float": 48, "quantized": 48, "iss": 2}
    assert report["figures"]["float"] > 0.9
    assert report["figures"]["quantized"] == pytest.approx(report["figures"]["float"], abs=0.05)
    assert not list(digits.parent.glob("*.evaluation.jsonl"))


def test_an_interrupted_run_goes_on(digits, monkeypatch):
    before = pools.in_processes
    done = []

    def interrupted(tasks, *args, **kwargs):
        for number, found in enumerate(before(tasks, *args, **kwargs)):
            if number == 2:
                raise KeyboardInterrupt
            done.append(found)
            yield found

    module = sys.modules["opendpu.data_sets.evaluate"]
    monkeypatch.setattr(module, "in_processes", interrupted)
    settings = {"target": TARGET, "workers": 1, "progress": "progress.jsonl"}
    with pytest.raises(KeyboardInterrupt):
        evaluate(digits, "digits.npz", **settings)
    assert len(done) == 2
    with Path("progress.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"task": [0, 3')  # torn
    monkeypatch.setattr(module, "in_processes", before)
    found = evaluate(digits, "digits.npz", **settings)
    assert found.resumed == 32
    assert found.samples == {"float": 48, "quantized": 48}
    whole = evaluate(digits, "digits.npz", **settings)
    assert whole.resumed == 0
    assert whole.figures == found.figures


def test_a_worker_that_dies_is_replaced(digits, monkeypatch):
    monkeypatch.setenv(
        "PYTHONPATH",
        os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    )
    settings = {"target": TARGET, "workers": 2, "metric": "custom",
                "function": "dying:dies_once"}  # fmt: skip
    monkeypatch.syspath_prepend(folder)
    found = evaluate(digits, "digits.npz", **settings)
    assert Path("died").exists()
    assert found.samples == {"float": 48, "quantized": 48}
    plain = evaluate(digits, "digits.npz", target=TARGET, workers=1)
    assert found.figures == plain.figures


def test_ray_gives_the_same_though_a_worker_is_killed(digits, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed (opendpu[ray])")
    folder = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(folder)
    died = str(Path("died").resolve())
    monkeypatch.setenv("DIED", died)
    found = evaluate(digits, "digits.npz", target=TARGET, ray="local", metric="custom",
                     function="dying:dies_once")  # fmt: skip
    assert Path(died).exists()
    assert found.samples == {"float": 48, "quantized": 48}
    assert found.figures == evaluate(digits, "digits.npz", target=TARGET, workers=1).figures


def test_a_task_counts_once(tmp_path):
    task = Task(0, 0, 16)
    with ProgressFile(tmp_path / "p", "digest") as file:
        file.add(task, {"right": 3})
        file.add(task, {"right": 4})
        assert file.counts == {task: {"right": 3}}
    with ProgressFile(tmp_path / "p", "digest") as file:
        assert file.waiting([task, Task(0, 16, 32)]) == [Task(0, 16, 32)]
    with ProgressFile(tmp_path / "p", "other") as file:
        assert file.waiting([task]) == [task], "of another evaluation"


def test_errors(digits):
    with pytest.raises(TensorError, match="has no array 'labels', which says what is right"):
        np.savez("plain.npz", x=np.zeros((2, 1, 8, 8), np.float32))
        evaluate(digits, "plain.npz", target=TARGET)
    with pytest.raises(TensorError, match=r"samples of shape \[1, 7, 7\], but must have \[8, 8,"):
        np.savez("small.npz", x=np.zeros((2, 1, 7, 7), np.float32), labels=np.zeros(2))
        evaluate(digits, "small.npz", target=TARGET)
    with pytest.raises(TensorError, match=r"have \[2, 3\] samples"):
        np.savez("odd.npz", x=np.zeros((2, 1, 8, 8), np.float32), labels=np.zeros(3))
        evaluate(digits, "odd.npz", target=TARGET)
    with pytest.raises(DPUError):
        evaluate(digits, "digits.npz", target=TARGET, device="nothing")
