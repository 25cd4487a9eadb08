# SPDX-License-Identifier: Apache-2.0
"""``opendpu evaluate``: the digits, interrupted, with workers that die, on processes and Ray."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from PIL import Image
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from opendpu.calibration import Preprocessing
from opendpu.calibration.images import Folder
from opendpu.cli.app import app
from opendpu.data_sets import pools
from opendpu.data_sets.evaluate import evaluate
from opendpu.data_sets.metrics import metric_of
from opendpu.data_sets.progress_file import ProgressFile
from opendpu.data_sets.samples import read_data
from opendpu.data_sets.work import Task
from opendpu.frontend import load_onnx
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


@pytest.mark.parametrize("target", ["B512", "B512+scaled"])
def test_a_file_of_another_quantizer(digits, target):
    """Its scales change with samples, but where the target computes with them."""

    class Samples(CalibrationDataReader):
        def __init__(self):
            with np.load("digits.npz") as data:
                self.left = iter([{"x": image[None]} for image in data["x"][:16]])

        def get_next(self):
            return next(self.left, None)

    model = onnx.load(digits)
    (name,) = (item.name for item in model.graph.input)
    for node in model.graph.node:
        node.input[:] = ["x" if one == name else one for one in node.input]
    model.graph.input[0].name = "x"
    onnx.save(model, "named.onnx")
    quantize_static("named.onnx", "other.onnx", Samples())
    found = CliRunner().invoke(
        app,
        ["evaluate", "other.onnx", "--data", "digits.npz", "--target", target, "--workers", "1",
         "--json"],
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    figures = json.loads(found.stdout)["figures"]
    assert set(figures) == ({"quantized"} if "scaled" in target else {"float", "quantized"})
    assert figures["quantized"] > 0.9


def test_inputs_that_are_open_or_always_the_same(digits):
    """A rate beside the image, and a free batch; the figures are those of the plain network."""
    model = onnx.load(digits)
    (result,) = model.graph.output
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    model.graph.input.append(onnx.helper.make_tensor_value_info("rate", 1, []))
    model.graph.node.append(onnx.helper.make_node("Div", [result.name, "rate"], ["rated"]))
    result.name = "rated"
    onnx.save(model, "rated.onnx")
    with np.load("digits.npz") as data:
        np.savez("digits.npz", **{model.graph.input[0].name: data["x"], "labels": data["labels"]})
    command = ["--data", "digits.npz", "--target", TARGET, "--workers", "1", "--json"]
    figures = [
        json.loads(CliRunner().invoke(app, ["evaluate", *more, *command]).stdout)["figures"]
        for more in (
            [str(digits)], ["rated.onnx", "--input-value", "rate=0.5", "--input-shape", "batch=1"],
        )
    ]  # fmt: skip
    assert figures[0]["float"] == figures[1]["float"] > 0.9
    assert figures[1]["quantized"] == pytest.approx(figures[0]["quantized"], abs=0.05)


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
    folder = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]))
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
    with pytest.raises(TensorError, match=r"samples of shape \[7, 7, 1\], but must have \[8, 8,"):
        np.savez("small.npz", x=np.zeros((2, 1, 7, 7), np.float32), labels=np.zeros(2))
        evaluate(digits, "small.npz", target=TARGET)
    with pytest.raises(TensorError, match=r"have \[2, 3\] samples"):
        np.savez("odd.npz", x=np.zeros((2, 1, 8, 8), np.float32), labels=np.zeros(3))
        evaluate(digits, "odd.npz", target=TARGET)
    with pytest.raises(DPUError):
        evaluate(digits, "digits.npz", target=TARGET, device="nothing")


def test_labels_of_any_name_and_form(digits):
    with np.load("digits.npz") as file:
        x, labels = file["x"], file["labels"]
    graph = load_onnx(digits)
    metric = metric_of("top1")
    scores = [np.eye(10)[np.arange(16) // 2]]
    wanted, given = read_data("digits.npz", graph, "labels").part(0, 16)
    for arrays in (
        {"x": x, "targets": labels}, {"images": x.transpose(0, 2, 3, 1), "y": labels[:, None]},
        {"x": x, "labels": np.eye(10)[labels], "ids": np.arange(48)},
        {"x": x, "labels": labels.astype(np.float64)},
    ):  # fmt: skip
        np.savez("other.npz", **arrays)
        found, taken = read_data("other.npz", graph, "labels").part(0, 16)
        np.testing.assert_array_equal(found["image"], wanted["image"], str(list(arrays)))
        assert metric.count(scores, taken) == metric.count(scores, given), list(arrays)
    assert 0 < metric.figure([metric.count(scores, given)]) < 1
    np.savez("other.npz", x=x, one=labels, other=labels)
    with pytest.raises(TensorError, match=r"it has 'x' \[48, 1, 8, 8\], 'one' \[48\], 'other'"):
        read_data("other.npz", graph, "labels")
    np.savez("other.npz", x=x, labels=np.array(["zero"] * 48))
    with pytest.raises(TensorError, match="must be the number of a class for each sample, or one"):
        evaluate(digits, "other.npz", target=TARGET, workers=1)


def test_images_in_folders_and_in_a_table(digits, tmp_path):
    """Ten classes, so that a folder that is none would show in all numbers behind it."""
    with np.load("digits.npz") as file:
        x, labels = file["x"][:, 0] * 255, file["labels"]
    lines = ["file,class"]
    for number, (pixels, label) in enumerate(zip(x, labels, strict=True)):
        image = Image.fromarray(pixels.astype(np.uint8))
        kind = (("L", "png"), ("RGB", "PNG"), ("CMYK", "tif"), ("I;16", "png"))[number % 4]
        if kind[0] == "I;16":
            image = Image.fromarray(pixels.astype(np.uint16) * 257)
        for folder in (tmp_path / "classes" / str(label) / "nested", tmp_path / "all"):
            folder.mkdir(parents=True, exist_ok=True)
            image = image if kind[0] == "I;16" else image.convert(kind[0])
            image.save(folder / f"{number}.{kind[1]}")
        lines.append(f"{number}.{kind[1]}, {label}")
    (tmp_path / "classes" / ".cache").mkdir()
    (tmp_path / "classes" / "__MACOSX").mkdir()
    settings = {
        "target": TARGET, "workers": 1, "preprocessing": Preprocessing(scale=(1 / 255,)),
    }  # fmt: skip
    wanted = evaluate(digits, "digits.npz", target=TARGET, workers=1).figures["float"]
    assert evaluate(digits, "classes", **settings).figures["float"] == pytest.approx(wanted)
    with pytest.raises(TensorError, match=r"all has no folders, .* or a \.csv table"):
        evaluate(digits, "all", **settings)
    table = tmp_path / "all" / "labels.csv"
    table.write_text("\n".join(lines))
    assert evaluate(digits, "all", **settings).figures["float"] == pytest.approx(wanted)
    table.write_text("\n".join(lines[1:]).replace(", ", ",digit "))  # names, no heading
    found = evaluate(digits, "all", limit=20, **settings)
    assert found.figures["float"] > 0.8
    assert found.samples["float"] == 20
    table.write_text("0.png,1\nno.png,2")
    with pytest.raises(TensorError, match=r"'no\.png,2' must be a file beside it, and a class"):
        evaluate(digits, "all", **settings)


def test_images_are_read_when_they_are_needed(digits, tmp_path, monkeypatch):
    """A data set is as large as its disk, not as memory."""
    for number in range(12):
        folder = tmp_path / "classes" / str(number % 3)
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), number * 20).save(folder / f"{number}.png")
    seen, sample = [], Folder.sample

    def counted(self, file):
        seen.append(file.name)
        return sample(self, file)

    monkeypatch.setattr(Folder, "sample", counted)
    data = read_data("classes", load_onnx(digits), "", None)
    assert len(data) == 12
    assert seen == []
    inputs, labels = data.part(3, 6)
    assert seen == ["9.png", "1.png", "10.png"]
    assert labels.tolist() == [0, 1, 1]
    (pixels,) = inputs.values()
    np.testing.assert_array_equal(pixels[:, 0, 0, 0], [180, 20, 200])
    before = b"".join(data.identity())
    os.utime(tmp_path / "classes" / "0" / "0.png", (1, 1))
    assert b"".join(data.identity()) != before
    (tmp_path / "classes" / "1" / "4.png").write_bytes(b"no image")
    with pytest.raises(TensorError, match=r"4\.png cannot be read as an image"):
        data.part(4, 8)


def test_control_c_stops_all_processes_and_says_how_to_go_on(digits):
    """A process group as a terminal has it: everybody gets the signal."""
    with np.load("digits.npz") as file:
        many = {name: np.tile(array, (30, 1, 1, 1)[: array.ndim]) for name, array in file.items()}
    np.savez("many.npz", **many)
    command = [
        sys.executable, "-c", "from opendpu.cli.main import main; main()"
    ]  # fmt: skip
    settings = ["--data", "many.npz", "--target", TARGET, "--workers", "2", "--progress", "p.jsonl"]
    with subprocess.Popen(
        [*command, "evaluate", str(digits), *settings], stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            file = Path("p.jsonl")
            while process.poll() is None and not (
                file.exists() and file.read_text().count("\n") > 3
            ):
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGINT)
            _, said = process.communicate(timeout=60)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 130
    assert "interrupted: the same command goes on with what p.jsonl has" in said
    assert "Traceback" not in said
    with contextlib.suppress(ProcessLookupError):  # the group is empty, soon
        for _ in range(600):
            os.killpg(process.pid, 0)
            time.sleep(0.1)
        pytest.fail("processes go on")
    again = subprocess.run(
        [*command, "evaluate", str(digits), *settings, "--json"], capture_output=True, text=True,
        check=True, timeout=300,
    )  # fmt: skip
    found = json.loads(again.stdout)
    assert found["resumed"] > 0
    assert found["samples"]["float"] == 48 * 30


def test_a_script_without_a_guard_is_not_run_again_by_workers(digits):
    Path("script.py").write_text(
        "from opendpu.data_sets.evaluate import evaluate\n"
        f"found = evaluate({str(digits)!r}, 'digits.npz', target={TARGET!r}, workers=1)\n"
        "print('samples', found.samples['quantized'])\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["samples", "48"]
