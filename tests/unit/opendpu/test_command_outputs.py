# SPDX-License-Identifier: Apache-2.0
"""What commands refuse before long work, and that nothing is lost or left behind."""

import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner, Result

import xir
from opendpu import api, compile_model
from opendpu.cli.app import app
from opendpu.cli.vai_c import app as vai_c
from opendpu_arch import cache
from opendpu_arch.errors import ToolError


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(result: Result) -> str:
    """Return the one line that a failing command prints to stderr."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line.partition(": error: ")[2]


@pytest.fixture
def folder(tmp_path, copy_graph, image) -> pathlib.Path:
    """Return a folder with a float model, samples, a compiled model and its input."""
    helper = onnx.helper
    weights = np.random.default_rng(1).normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], name="c")],
        "conv",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 4, 8, 8))],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), tmp_path / "m.onnx")
    np.savez(tmp_path / "calib.npz", x=np.ones((4, 3, 8, 8), np.float32))
    copy_graph.serialize(tmp_path / "c.xmodel")
    np.savez(tmp_path / "in.npz", x=image)
    (tmp_path / "dir").mkdir()
    return tmp_path


def compile_float(folder: pathlib.Path, output: object, *more: object) -> Result:
    return call(
        "compile", folder / "m.onnx", "--calib", folder / "calib.npz", "--target", "b64",
        "-o", output, *more,
    )  # fmt: skip


def run(folder: pathlib.Path, output: object, *more: object) -> Result:
    return call("run", folder / "c.xmodel", "-i", folder / "in.npz", "-o", output, *more)


def test_compile_refuses_outputs_before_it_quantizes(folder, monkeypatch):
    monkeypatch.setattr(
        compile_model, "load_for_quantizing", lambda *_, **__: pytest.fail("the model was read")
    )
    before = sorted(folder.rglob("*"))
    bytes_before = [path.read_bytes() for path in before if path.is_file()]
    assert refused(compile_float(folder, folder / "dir")).endswith(
        "dir cannot be written: it is a directory"
    )
    assert "there is no folder" in refused(compile_float(folder, folder / "no" / "o.xmodel"))
    for name in ("m.onnx", "calib.npz"):
        assert refused(compile_float(folder, folder / name)).endswith(
            f"{name} cannot be written: it is the input {folder / name}"
        )
    told = refused(compile_float(folder, folder / "o", "--dump-after", "all", "--dump-dir",
                                 folder / "m.onnx" / "dump"))  # fmt: skip
    assert told.endswith(("m.onnx is no folder", "Not a directory"))
    assert sorted(folder.rglob("*")) == before
    assert [path.read_bytes() for path in before if path.is_file()] == bytes_before


def test_a_directory_is_no_model(folder):
    told = refused(call("compile", folder / "dir", "--target", "B64", "-o", folder / "o.xmodel"))
    assert told == f"{folder}/dir is a directory, but must be a model file"
    assert "dir: cannot be read: Is a directory" in refused(
        call("run", folder / "dir", "-i", folder / "in.npz", "-o", folder / "o.npz")
    )


def test_run_and_profile_refuse_outputs_before_they_run(folder, monkeypatch):
    monkeypatch.setattr(api, "load", lambda *_: pytest.fail("the model was read"))
    for name in ("c.xmodel", "in.npz"):
        assert f"{name} cannot be written: it is the input" in refused(run(folder, folder / name))
    assert "it is a directory" in refused(run(folder, folder / "dir"))
    profile = ["profile", folder / "c.xmodel", "--device", "cycle"]
    for option in ("--trace", "--csv"):
        assert "it is the input" in refused(call(*profile, option, folder / "c.xmodel"))
    assert "is written to the same file" in refused(
        call(*profile, "--trace", folder / "a", "--csv", folder / "a")
    )


def test_a_missing_png_writer_is_told_before_the_run(folder, monkeypatch):
    monkeypatch.setattr(api, "profile", lambda *_, **__: pytest.fail("the model was run"))
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "a PNG picture needs the package Pillow" in refused(
        call("profile", folder / "c.xmodel", "--roofline", folder / "r.png")
    )


def test_vai_c_refuses_outputs_before_it_compiles(folder, monkeypatch):
    monkeypatch.setattr(api, "compile_xmodel", lambda *_, **__: pytest.fail("it was compiled"))
    (folder / "out" / "md5sum.txt").mkdir(parents=True)
    result = CliRunner().invoke(
        vai_c, ["-x", str(folder / "c.xmodel"), "-a", "B64", "-o", str(folder / "out")]
    )
    assert refused(result).endswith("md5sum.txt cannot be written: it is a directory")


@pytest.mark.parametrize("name", ["", "..", "../out", "a/b"])
def test_vai_c_takes_names_of_files_only(folder, name):
    given = ["-x", folder / "c.xmodel", "-a", "B64", "-o", folder / "out", "-n", name]
    told = refused(CliRunner().invoke(vai_c, [str(argument) for argument in given]))
    assert told == f"--net_name is {name!r}, but must be a file's name"
    assert not (folder / "out").exists()


def test_vai_c_leaves_no_folder_behind(folder):
    """Where nothing came of it; one that was there stays."""
    (folder / "there").mkdir()
    for place, kept in (("new/deep", False), ("there", True), ("there/new", False)):
        given = ["-x", folder / "c.xmodel", "-a", "B64", "-o", folder / place]
        told = refused(CliRunner().invoke(vai_c, [str(argument) for argument in given]))
        assert "is compiled already" in told
        assert (folder / place).exists() == kept
    assert not (folder / "new").exists()
    assert (folder / "there").is_dir()


def test_devices_and_pipes_are_written_through(folder):
    (folder / "null").symlink_to("/dev/null")
    for output in ("/dev/null", folder / "null"):
        assert run(folder, output).exit_code == 0
        assert compile_float(folder, output).exit_code == 0
    assert stat.S_ISCHR(pathlib.Path("/dev/null").stat().st_mode)
    assert (folder / "null").is_symlink()
    os.mkfifo(folder / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((folder / "pipe").read_bytes()))
    reader.start()
    assert compile_float(folder, folder / "pipe").exit_code == 0
    reader.join()
    assert compile_float(folder, folder / "o.xmodel").exit_code == 0
    assert got == [(folder / "o.xmodel").read_bytes()]
    told = refused(run(folder, "/dev/full"))
    assert told == "/dev/full cannot be written: No space left on device"


def test_a_model_on_standard_output_is_nothing_but_the_model(folder):
    program = pathlib.Path(sys.executable).with_name("opendpu")
    done = subprocess.run(
        [program, "run", folder / "c.xmodel", "-i", folder / "in.npz", "-o", "/dev/stdout"],
        capture_output=True, check=True,
    )  # fmt: skip
    (folder / "got.npz").write_bytes(done.stdout)
    assert run(folder, folder / "o.npz").exit_code == 0
    with np.load(folder / "got.npz") as got, np.load(folder / "o.npz") as expected:
        assert (got["z"] == expected["z"]).all()
    assert b"1 job(s)" in done.stderr


def test_missing_programs_are_told_at_once(folder, monkeypatch):
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(api, "load", lambda *_: pytest.fail("the model was read"))
    for device in ("rtl", "cycle"):
        assert "'g++' is not on the PATH, but is needed" in refused(
            run(folder, folder / "o.npz", "--device", device)
        )
    assert "'g++' is not on the PATH" in refused(call("profile", folder / "c.xmodel"))


def test_what_goes_wrong_in_counting_loses_nothing(folder, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        assert (folder / "o.xmodel").is_file()
        raise ToolError("no compiler")

    monkeypatch.setattr(compile_model, "profile", fail)
    assert compile_float(folder, folder / "o.xmodel").exit_code == 0
    (folder / "o.xmodel").unlink()

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compile_model, "profile", interrupt)
    assert compile_float(folder, folder / "o.xmodel").exit_code != 0
    assert xir.Graph.deserialize(folder / "o.xmodel").get_ops()


def test_a_cache_that_cannot_be_used_is_one_warning(folder, monkeypatch):
    monkeypatch.setenv(cache.ENVIRONMENT, str(folder / "in.npz"))
    monkeypatch.setattr(cache, "_unstored", {})
    from opendpu_sim.cycle import library

    library._load.cache_clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            result = compile_float(folder, folder / "o.xmodel")
    finally:
        library._load.cache_clear()
    assert result.exit_code == 0, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"opendpu: warning: the cache {folder}/in.npz cannot be used (")
    assert "cycles" in result.stdout


def test_too_little_memory_is_one_line(folder, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 298. GiB for an array")

    monkeypatch.setattr("opendpu.requantization.load_model", fail)
    told = refused(compile_float(folder, folder / "o.xmodel"))
    assert told == "not enough memory: Unable to allocate 298. GiB for an array"


def test_run_takes_npy_onnx_layout_and_floats(folder, image):
    assert run(folder, folder / "a.npz").exit_code == 0
    np.save(folder / "in.npy", image)
    onnx_layout = np.moveaxis(image, -1, 1)
    np.savez(folder / "nchw.npz", x=onnx_layout.astype(np.float64) / 4)
    found = {}
    for name, options in {
        "in.npy": (),
        "nchw.npz": ("--layout", "NCHW"),
        "in.npz": ("--subgraph", 0, "--float"),
    }.items():
        result = call(
            "run", folder / "c.xmodel", "-i", folder / name, "-o", folder / "o.npz", *options
        )
        assert result.exit_code == 0, result.output
        with np.load(folder / "o.npz") as outputs:
            (found[name],) = outputs.values()
    expected = image.astype(np.float32) / 4
    assert (found["in.npy"] == expected).all()
    assert found["nchw.npz"].shape == (1, 4, 2, 3)
    assert (found["nchw.npz"] == np.moveaxis(expected, -1, 1)).all()
    assert found["in.npz"].dtype == np.float32
    assert (found["in.npz"] == expected).all()
    command = ["run", folder / "c.xmodel", "-i", folder / "nchw.npz", "-o", folder / "o.npz"]
    report = json.loads(call(*command, "--json", "--layout", "nchw").stdout)
    assert report["outputs"] == {"z": [1, 4, 2, 3]}


def wait_for(note: pathlib.Path, process: subprocess.Popen[str]) -> None:
    """Wait until a process has written a file."""
    while not note.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def interrupt(folder: pathlib.Path, number: int, code: str, arguments: list[object]) -> None:
    """Send a signal to a command once it works; check that it leaves nothing in the folder."""
    before = sorted(folder.iterdir())
    note = folder.parent / f"{folder.name}-begun"
    process = subprocess.Popen(
        [sys.executable, "-c", code, note, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(note, process)
    process.send_signal(number)
    printed, told = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert printed == ""
    assert "Traceback" not in told
    assert sorted(folder.iterdir()) == before


SLOW_DEVICE = """
import pathlib, sys, time
from opendpu.cli.main import main
from opendpu.runtime import runner

class Slow:
    name, cancelled = "slow", False
    def __init__(self, target, **_): self.target = target
    def run(self, job):
        pathlib.Path(sys.argv[0]).write_text("begun")
        while not self.cancelled: time.sleep(0.01)
        raise SystemExit("cancelled")
    def cancel(self): self.cancelled = True
    def close(self): pass

runner.open_device = lambda name, target, memory, **_: Slow(target)
sys.argv[:2] = [sys.argv[1]]
main()
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_interrupted_runs_end_and_leave_nothing(folder, image, number):
    """The job that runs is ended, those that wait are dropped, no trace of either."""
    np.savez(folder / "in.npz", x=np.stack([image] * 20))
    arguments = ["run", folder / "c.xmodel", "-i", folder / "in.npz", "-o", folder / "out.npz"]
    interrupt(folder, number, SLOW_DEVICE, arguments)


SLOW_QUANTIZER = """
import pathlib, sys, time
from opendpu import compile_model
from opendpu.cli.main import main

def quantize(*_, **__):
    pathlib.Path(sys.argv[0]).write_text("begun")
    time.sleep(600)

compile_model.quantize_with_report = quantize
sys.argv[:2] = [sys.argv[1]]
main()
"""


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM]
)
def test_interrupted_compilations_leave_nothing(folder, number):
    (folder / "out.xmodel").write_bytes(b"before")
    arguments = [
        "compile", folder / "m.onnx", "--calib", folder / "calib.npz", "--target", "B64",
        "-o", folder / "out.xmodel",
    ]  # fmt: skip
    interrupt(folder, number, SLOW_QUANTIZER, arguments)
    assert (folder / "out.xmodel").read_bytes() == b"before"
