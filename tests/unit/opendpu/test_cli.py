# SPDX-License-Identifier: Apache-2.0
"""The command line: what each command prints, writes and refuses."""

import importlib
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

import xir
from opendpu.cli import caffe
from opendpu.cli.app import app
from opendpu.cli.commands import COMMANDS
from opendpu_arch import asm, isa
from opendpu_arch.errors import ModelFormatError
from opendpu_arch.target import Target, registered


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    """Return the one line that a failing command prints to stderr."""
    result = call(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("opendpu: error: ")
    return line.removeprefix("opendpu: error: ")


@pytest.fixture
def model(copy_graph, tmp_path) -> pathlib.Path:
    copy_graph.serialize(tmp_path / "copy.xmodel")
    return tmp_path / "copy.xmodel"


@pytest.fixture
def given(tmp_path, image) -> pathlib.Path:
    np.savez(tmp_path / "in.npz", x=image)
    return tmp_path / "in.npz"


def test_version_and_help():
    assert call("--version").stdout.startswith("opendpu 0.")
    assert "disasm" in call("--help").stdout
    assert call("run").exit_code == 2


def test_the_help_of_all_is_that_of_each():
    for name in COMMANDS:
        importlib.import_module(f"opendpu.cli.{name}")
    assert {name: command.help for name, command in get_command(app).commands.items()} == COMMANDS
    assert re.findall(r"^│ ([a-z]+) ", call("--help").stdout, re.MULTILINE) == [*COMMANDS]


def test_a_command_that_is_none_is_told_what_was_meant():
    result = call("compil", "net.onnx")
    assert result.exit_code == 2
    assert "No such command 'compil'. Did you mean 'compile'?" in result.stderr


@pytest.mark.parametrize(
    "command",
    [[pathlib.Path(sys.executable).with_name("opendpu")], [sys.executable, "-m", "opendpu"]],
    ids=["script", "module"],
)
def test_the_installed_command(command):
    result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("opendpu 0.")


def test_a_package_that_is_too_old_is_one_line(tmp_path):
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "__init__.py").write_text("__version__ = '1.2.0'\n")
    command = [sys.executable, "-m", "opendpu", "info", "x.onnx"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert re.match(r"opendpu: error: opendpu needs onnx \S+ or newer, but 1\.2\.0 is", line)


def test_a_shell_completes_commands():
    program = pathlib.Path(sys.executable).with_name("opendpu")
    asked = {"_OPENDPU_COMPLETE": "complete_bash", "COMP_WORDS": "opendpu in", "COMP_CWORD": "1"}
    result = subprocess.run(
        [program], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["info", "inspect"]


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (["--help"], ["numpy", "onnx", "opendpu.api"]),
        (["targets"], ["numpy", "onnx", "opendpu.api"]),
        (["info", "--help"], ["tflite", "opendpu.frontend.tensorflow", "opendpu.frontend.caffe"]),
        (["compile", "--help"], ["tflite", "opendpu.frontend.tensorflow"]),
    ],
    ids=" ".join,
)
def test_a_command_starts_without_what_others_need(words, others):
    program = (
        "import sys\n"
        "from opendpu.cli.app import app\n"
        f"app({words}, standalone_mode=False)\n"
        f"print([name for name in {others} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_run_a_graph(model, given, image, tmp_path):
    result = call("run", model, "--input", given, "--output", tmp_path / "out.npz")
    assert result.exit_code == 0, result.output
    assert "1 job(s)" in result.stdout
    assert "subgraph_y: iss, 5 instructions, 24 bytes read, 24 written" in result.stdout
    with np.load(tmp_path / "out.npz") as outputs:
        assert outputs.files == ["z"]
        assert (outputs["z"] == image / 4).all()


def test_run_prints_statistics(model, tmp_path, image):
    np.savez(tmp_path / "in.npz", x=np.stack([image] * 3))
    result = call(
        "run", model, "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz", "--json",
        "--device", "iss", "--memory", "ideal", "--target", "B64",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["jobs"] == 3
    assert report["outputs"] == {"z": [3, 1, 2, 3, 4]}
    assert [job["subgraph_y"]["instructions"] for job in report["statistics"]] == [5, 5, 5]
    assert report["statistics"][0]["subgraph_y"]["memory"] == "ideal"
    assert report["total"]["instructions"] == 15
    assert report["total"]["bytes_written"] == 72
    assert report["total"]["busy_cycles"] == {}


def test_the_names_of_the_inputs_choose_a_subgraph(model, tmp_path, image):
    np.savez(tmp_path / "in.npz", x_upload=image)
    assert call("run", model, "-i", tmp_path / "in.npz", "-o", tmp_path / "o.npz").exit_code == 0
    with np.load(tmp_path / "o.npz") as outputs:
        assert outputs.files == ["y"]
        assert (outputs["y"] == image).all()
    np.savez(tmp_path / "in.npz", x=image)
    arguments = ["run", model, "-i", tmp_path / "in.npz", "-o", tmp_path / "o.npz"]
    assert call(*arguments, "--subgraph", "0").exit_code == 0
    with np.load(tmp_path / "o.npz") as outputs:
        assert outputs.files == ["y"]
    message = refused(*arguments, "--subgraph", "1")
    assert message == (
        "[VART_OUT_OF_RANGE] DPU subgraph 1 was asked for, but graph 'copy' has 1: subgraph_y"
    )


def test_refused_runs_leave_no_output(model, given, tmp_path, image):
    output = tmp_path / "out.npz"
    run = ["run", model, "--input", given, "--output", output]
    assert refused("run", tmp_path / "no.xmodel", *run[2:]).endswith(
        "no.xmodel: cannot be read: No such file or directory"
    )
    text = "[VART_OPEN_DEVICE_FAIL] no device is called 'foo'; known: "
    assert refused(*run, "--device", "foo").startswith(text)
    assert "CHECK fingerprint fail! model_fingerprint 0x10100005601010b is un-matched with" in (
        refused(*run, "--target", "B512")
    )
    assert refused(*run, "--target", "B5").startswith(
        "[TARGET_FACTORY_UNREGISTERED_TARGET] no target is called 'B5'; known: DPUCZ"
    )
    (tmp_path / "cut.xmodel").write_bytes(model.read_bytes()[:700])
    assert "cut.xmodel: not an .xmodel, or truncated" in refused(
        "run", tmp_path / "cut.xmodel", *run[2:]
    )
    for arrays, message in (
        ({"x": image.astype(np.int16)}, "input 'x' has dtype int16, but must be int8 or float32"),
        ({"x": image[0, 0]}, "input 'x' has shape (3, 4), but must be (1, 2, 3, 4)"),
        ({"foo": image}, "unknown input 'foo'; needed: x"),
        ({}, "input 'x' is missing; needed: x"),
    ):
        np.savez(given, **arrays)
        assert refused(*run).endswith(message)
    given.write_bytes(b"hello")
    assert refused(*run).endswith("in.npz cannot be read as .npz: File is not a zip file")
    assert not output.exists()
    assert {path.suffix for path in tmp_path.iterdir()} == {".xmodel", ".npz"}


def test_debug_shows_where_an_error_comes_from(tmp_path):
    result = call("--debug", "disasm", tmp_path / "none.xmodel")
    assert isinstance(result.exception, ModelFormatError)


def test_disasm_has_a_block_for_each_subgraph(model):
    result = call("disasm", model)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "# subgraph_y: DPUCZDX8G_ISA1_B64 (0x10100005601010b), 5 instructions, 84 bytes"
    )
    assert [line.split()[:2] for line in lines[1:]] == [
        ["0", "LOAD"],
        ["1", "LOAD"],
        ["2", "SAVE"],
        ["3", "SAVE"],
        ["4", "END"],
    ]


def test_disasm_of_amds_files(models):
    result = call("disasm", models / "amd_compiled/tf2_custom_op.xmodel")
    heads = [line for line in result.stdout.splitlines() if line.startswith("#")]
    assert [head.split(", ")[1] for head in heads] == ["185 instructions", "19 instructions"]
    assert result.stdout.count(" END ") == 2


def test_listings_can_be_assembled_again(copy_subgraph, tmp_path):
    code = copy_subgraph.get_attr("mc_code")
    (tmp_path / "code.bin").write_bytes(code)
    listing = call("disasm", tmp_path / "code.bin", "--no-numbers").stdout
    assert listing.startswith("# code.bin: 5 instructions, 84 bytes\nLOAD ")
    assert asm.assemble(listing) == code


def test_disasm_of_what_is_no_program(tmp_path, copy_graph, models):
    (tmp_path / "a.bin").write_bytes(isa.encode([isa.End(dpdon=0, dpdby=0)]) + b"\xf0" * 4)
    message = refused("disasm", tmp_path / "a.bin")
    assert message.startswith("a.bin: instruction 1 at byte 0x4: unknown opcode 0xf (known: LOAD")
    (tmp_path / "b.mc").write_bytes(b"abc")
    assert "b.mc: machine code is 3 bytes, but must be" in refused("disasm", tmp_path / "b.mc")
    assert "cannot be read: No such file" in refused("disasm", tmp_path / "c.bin")
    plain = xir.Graph("plain")
    plain.create_op("x", "data", {"shape": [1], "data_type": "FLOAT32"})
    plain.serialize(tmp_path / "plain.xmodel")
    assert "no DPU subgraph with machine code; is it compiled?" in refused(
        "disasm", tmp_path / "plain.xmodel"
    )


def test_targets():
    assert "DPUCZDX8G_ISA1_B4096" in call("targets").stdout
    entries = json.loads(call("targets", "--json").stdout)
    assert {entry["name"]: int(entry["fingerprint"], 16) for entry in entries} == registered()
    (b512,) = (entry for entry in entries if entry["name"].endswith("B512"))
    assert (b512["macs_per_cycle"], b512["pixel_parallel"], b512["channel_parallel"]) == (256, 4, 8)


def convolution(path: pathlib.Path, rng: np.random.Generator) -> None:
    """Write a float model: one 3x3 convolution with ReLU, NCHW as ONNX has it."""
    weights = rng.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    helper = onnx.helper
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "conv",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 4, 8, 8))],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


@pytest.mark.parametrize("form", ["name", "fingerprint", "arch.json"])
def test_compile_then_run(rng, tmp_path, form):
    convolution(tmp_path / "m.onnx", rng)
    np.savez(tmp_path / "calib.npz", x=rng.normal(0, 1, (16, 3, 8, 8)).astype(np.float32))
    b64 = Target.from_name("B64")
    (tmp_path / "arch.json").write_text(json.dumps({"fingerprint": f"{b64.fingerprint:#x}"}))
    target = {
        "name": "B64",
        "fingerprint": f"{b64.fingerprint:#x}",
        "arch.json": tmp_path / "arch.json",
    }[form]
    result = call(
        "compile", tmp_path / "m.onnx", "--calib", tmp_path / "calib.npz", "--target", target,
        "-o", tmp_path / "m.xmodel",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "target DPUCZDX8G_ISA1_B64" in result.stdout
    graph = xir.Graph.deserialize(tmp_path / "m.xmodel")
    dpu = [s for s in graph.get_root_subgraph().get_children() if s.get_attr("device") == "DPU"]
    assert [s.get_attr("dpu_fingerprint") for s in dpu] == [b64.fingerprint]
    source = next(op for op in graph.get_ops() if op.get_type() in ("data", "data-fix"))
    shape = source.get_output_tensor().dims
    np.savez(
        tmp_path / "in.npz",
        **{source.get_output_tensor().name: rng.normal(0, 1, shape).astype(np.float32)},
    )
    result = call("run", tmp_path / "m.xmodel", "-i", tmp_path / "in.npz", "-o", tmp_path / "o.npz")
    assert result.exit_code == 0, result.output
    with np.load(tmp_path / "o.npz") as outputs:
        (array,) = outputs.values()
        assert array.any()


def test_refused_compilations_leave_no_output(rng, tmp_path):
    convolution(tmp_path / "m.onnx", rng)
    np.savez(tmp_path / "calib.npz", x=rng.normal(0, 1, (4, 3, 8, 8)).astype(np.float32))
    output = tmp_path / "m.xmodel"

    def compilation(model="m.onnx", calib="calib.npz", target="B64") -> str:
        return refused(
            "compile", tmp_path / model, "--calib", tmp_path / calib, "--target", target,
            "-o", output,
        )  # fmt: skip

    assert "no target is called 'B9'" in compilation(target="B9")
    assert "arch.json" in compilation(target=tmp_path / "arch.json")
    assert "no.npz: there is no such calibration data" in compilation(calib="no.npz")
    assert "no.onnx" in compilation(model="no.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"hello")
    assert "bad.onnx" in compilation(model="bad.onnx")
    assert not output.exists()


def test_info(model):
    lines = call("info", model).stdout.splitlines()
    assert lines[0].startswith("copy: compiled, 5 ops (")
    assert "input x [1, 2, 3, 4] xint8, fix_point 2" in lines
    assert "output z [1, 2, 3, 4] float32" in lines
    (dpu,) = [line for line in lines if line.startswith("subgraph 1")]
    assert dpu.startswith("subgraph 1 subgraph_y: DPU, DPUCZDX8G_ISA1_B64")
    found = json.loads(call("info", model, "--json").stdout)
    assert [part["device"] for part in found["subgraphs"]] == ["USER", "DPU", "CPU"]
    assert found["ops"]["upload"] == 1


def test_info_of_models_that_are_quantized_with_any_scale(tmp_path):
    """The stage, and the scales of inputs and outputs, as the file says them."""
    make, tensor = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    numbers = {
        "s": np.float32(0.03), "z": np.uint8(100), "t": np.float32(0.25), "n": np.int8(0),
        "w": np.full((2, 3, 1, 1), 5, np.int8),
    }  # fmt: skip
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["q"]),
        make("DequantizeLinear", ["q", "s", "z"], ["d"]),
        make("DequantizeLinear", ["w", "s", "n"], ["v"]), make("Conv", ["d", "v"], ["c"]),
        make("QuantizeLinear", ["c", "t", "n"], ["p"]),
        make("DequantizeLinear", ["p", "t", "n"], ["y"]),
    ]  # fmt: skip
    graph = onnx.helper.make_graph(
        nodes, "quantized", [tensor("x", onnx.TensorProto.FLOAT, (1, 3, 4, 4))],
        [tensor("y", onnx.TensorProto.FLOAT, (1, 2, 4, 4))],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in numbers.items()],
    )  # fmt: skip
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), tmp_path / "m")
    lines = call("info", tmp_path / "m").stdout.splitlines()
    assert lines[0].startswith("quantized: quantized, ")
    assert lines[1].endswith("float32, quantized to int8: scale 0.03, zero point -28")
    assert lines[2].endswith("float32, quantized to int8: scale 0.25, zero point 0")
    found = json.loads(call("info", tmp_path / "m", "--json").stdout)
    assert found["inputs"][0]["quantized"]["zero_point"] == -28


def test_info_of_what_is_no_model(tmp_path):
    (tmp_path / "x.xmodel").write_bytes(b"no model")
    assert "x.xmodel" in refused("info", tmp_path / "x.xmodel")
    assert "none.xmodel" in refused("info", tmp_path / "none.xmodel")


@pytest.mark.parametrize(
    ("command", "given", "instead"),
    [
        (
            caffe.quantizer,
            "quantize -model f/float.prototxt -weights f/float.caffemodel -gpu 0 -calib_iter 100 "
            "-keep_fixed_neuron -output_dir q",
            "opendpu quantize f/float.prototxt --calib IMAGES -o q/deploy.xmodel",
        ),
        (
            caffe.compiler,
            "--prototxt q/deploy.prototxt --caffemodel q/deploy.caffemodel --arch KV260/arch.json "
            "--output_dir c/ --net_name net --options {'mode':'normal'}",
            "opendpu compile q/deploy.prototxt --target KV260/arch.json --calib IMAGES "
            "-o c/net.xmodel",
        ),
        (caffe.compiler, "-p d.prototxt -c d.caffemodel -a B64 -o . -n d", "-o d.xmodel"),
    ],
)
def test_caffe_of_vitis_ai_1_names_what_does_it_here(command, given, instead):
    with pytest.raises(SystemExit) as end:
        command(given.split())
    message = str(end.value)
    assert "error: AMD dropped Caffe with Vitis AI 2.5" in message and message.endswith(instead)
