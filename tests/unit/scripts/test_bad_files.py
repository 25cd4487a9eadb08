# SPDX-License-Identifier: Apache-2.0
"""Every command that takes files, with a wrong argument, and with files that are none.

One line on stderr names the file and the reason, and nothing is left behind.
"""

import pathlib

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import vaitrace.main
import xdputil.app
import xir.cli
from opendpu.cli import vai_c
from opendpu.cli.app import app as opendpu

FILE = "FILE"
APPS: dict[str, typer.Typer] = {
    "opendpu": opendpu, "vai_c_xir": vai_c.app, "vai_c_tensorflow": vai_c.app_tensorflow,
    "vai_c_tensorflow2": vai_c.app_tensorflow2, "vai_c_onnx": vai_c.app_onnx,
    "vaitrace": vaitrace.main.app, "xdputil": xdputil.app.app, "xir": xir.cli.app,
}  # fmt: skip
VAI_C = ["-a", "B64", "-o", "out"]
FILES: dict[str, list[str]] = {
    "opendpu compile onnx": ["compile", "FILE.onnx", "--target", "B64", "-o", "o.xmodel"],
    "opendpu compile xmodel": ["compile", "FILE.xmodel", "--target", "B64", "-o", "o.xmodel"],
    "opendpu compile tflite": ["compile", "FILE.tflite", "--target", "B64", "-o", "o.xmodel"],
    "opendpu disasm": ["disasm", "FILE.xmodel"],
    "opendpu disasm code": ["disasm", "FILE.mc"],
    "opendpu evaluate": ["evaluate", "FILE.onnx", "--data", "good.npz"],
    "opendpu info": ["info", "FILE.xmodel"],
    "opendpu info onnx": ["info", "FILE.onnx"],
    "opendpu inspect": ["inspect", "FILE.onnx", "--target", "B64"],
    "opendpu optimize": [
        "optimize", "good.py:net", "--data", "FILE.npz", "--target", "B64", "--ratio", "0.5",
        "-o", "o.xmodel",
    ],
    "opendpu profile": ["profile", "FILE.xmodel"],
    "opendpu quantize": ["quantize", "FILE.onnx", "--calib", "good.npz", "-o", "o.xmodel"],
    "opendpu run": ["run", "FILE.xmodel", "--input", "good.npz", "--output", "o.npz"],
    "opendpu run input": ["run", "good.xmodel", "--input", "FILE.npz", "--output", "o.npz"],
    "opendpu run image": ["run", "FILE.onnx", "--image", "good.png"],
    "vai_c_xir": ["-x", "FILE.xmodel", *VAI_C],
    "vai_c_tensorflow": ["-f", "FILE.pb", *VAI_C],
    "vai_c_tensorflow2": ["-m", "FILE.h5", *VAI_C],
    "vai_c_onnx": ["-m", "FILE.onnx", *VAI_C],
    "vaitrace": ["-c", "FILE.json", "true"],
    "xdputil benchmark": ["benchmark", "FILE.xmodel", "1"],
    "xdputil comp_float": ["comp_float", "FILE.bin", "good.bin"],
    "xdputil run": ["run", "FILE.xmodel", "good.bin"],
    "xdputil run_op": ["run_op", "FILE.xmodel", "op"],
    "xdputil xmodel": ["xmodel", "FILE.xmodel", "-l"],
    "xir dump_bin": ["dump_bin", "FILE.xmodel", "out"],
    "xir dump_code": ["dump_code", "FILE.xmodel", "out"],
    "xir dump_reg": ["dump_reg", "FILE.xmodel"],
    "xir dump_txt": ["dump_txt", "FILE.xmodel", "out"],
    "xir graph": ["graph", "FILE.xmodel"],
    "xir png": ["png", "FILE.xmodel", "out"],
    "xir subgraph": ["subgraph", "FILE.xmodel"],
    "xir svg": ["svg", "FILE.xmodel", "out"],
}  # fmt: skip
KINDS: dict[str, tuple[int, str]] = {
    "vai_c_xir -x good.xmodel -a B64 -o out -f good.txt": (2, "No such option: -f"),
    "vai_c_xir -x good.txt -a B64 -o out": (1, "good.txt is no model"),
    "vai_c_xir -x good.xmodel -a good.txt -o out": (1, "arch.json 'good.txt' cannot be read"),
    "vai_c_xir -x good.xmodel -a good.xmodel -o out": (1, "arch.json 'good.xmodel' cannot be read"),
    "vai_c_xir -x good.xmodel -a B64 -o good.txt": (1, "good.txt cannot be made: File exists"),
    "vai_c_xir -x good.xmodel -a B64 -o out -e good.txt": (1, "options are 'good.txt', but must"),
    "vaitrace -c good.xmodel true": (1, "good.xmodel is no JSON"),
    "vaitrace --txt -o . true": (1, ". cannot be written: it is a directory"),
    "vaitrace --perfetto good.txt/x true": (1, "good.txt/x cannot be written: Not a directory"),
    "vaitrace good.xmodel": (1, "'good.xmodel' is not found, or cannot be run"),
    "xdputil xmodel good.xmodel -t .": (1, ". cannot be written: it is a directory"),
    "xdputil xmodel good.xmodel -p good.xmodel": (1, "it is the input good.xmodel"),
    "xdputil xmodel good.xmodel -b good.txt": (1, "good.txt is no folder"),
    "xdputil run good.xmodel good.txt": (1, "good.txt has 5 bytes, but tensor 'x'"),
    "xdputil run good.xmodel good.xmodel": (1, "bytes, but tensor 'x' [1, 2, 3, 4] xint8 has 24"),
    "xdputil comp_float good.bin good.txt": (1, "good.txt has 5 bytes, which are no float32"),
    "xdputil query --target good.txt": (1, "arch.json 'good.txt' cannot be read"),
}
"""Files of another kind than an option takes: the exit code and what is said."""
NO_FILES = {"opendpu targets", "xdputil mem", "xdputil query", "xdputil status", "xir help"}

CONTENTS: dict[str, bytes | None] = {
    "empty": b"", "noise": bytes(range(251, 0, -1)), "text": b"hello\n" * 20, "folder": None,
    "nested": b"[" * 100_000, "device": None,
}  # fmt: skip


def commands() -> dict[str, tuple[typer.Typer, list[str]]]:
    """Return the words of every command by its name, and the app that has it."""
    found = {}
    for name, app in APPS.items():
        command = typer.main.get_command(app)
        is_group = hasattr(command, "list_commands")
        for word in command.list_commands(typer.Context(command)) if is_group else [""]:
            found[f"{name} {word}".strip()] = (app, [word] if word else [])
    return found


def test_every_command_is_here():
    told = {" ".join(name.split()[:2]) for name in FILES} | NO_FILES
    assert set(commands()) == told


@pytest.mark.parametrize("name", sorted(commands()))
def test_an_unknown_option(name):
    app, words = commands()[name]
    found = CliRunner().invoke(app, [*words, "--no-such-option"])
    assert found.exit_code == 2
    assert "no-such-option" in found.stderr


@pytest.fixture
def folder(copy_graph, tmp_path, monkeypatch):
    """Return a folder with one good file of each kind."""
    monkeypatch.chdir(tmp_path)
    copy_graph.serialize("good.xmodel")
    np.savez("good.npz", x=np.zeros((1, 1, 2, 2), np.float32), y=np.zeros(1))
    pathlib.Path("good.py").write_text("import torch\nnet = lambda: torch.nn.Conv2d(1, 1, 1)\n")
    pathlib.Path("good.bin").write_bytes(bytes(24))
    pathlib.Path("good.txt").write_text("text\n")
    pathlib.Path("good.png").write_bytes(b"")
    return tmp_path


def files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return what is in a folder, but for what Python compiles of modules that it imports."""
    return [path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts]


def refused(name: str, folder: pathlib.Path) -> str:
    """Return the line that a command ends with."""
    if name == "opendpu optimize":
        pytest.importorskip("torch_pruning", reason="torch-pruning is not installed")
    before = files(folder)
    app = APPS[name.split()[0]]
    found = CliRunner().invoke(app, [word.replace("FILE", "bad") for word in FILES[name]])
    assert found.exit_code == 1, found.output
    assert isinstance(found.exception, SystemExit)
    left = [path for path in files(folder) if path not in before]
    assert left == []
    lines = found.stderr.splitlines()
    assert len(lines) == 1, found.stderr
    return lines[0]


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_there(name, folder):
    line = refused(name, folder)
    assert ": error: " in line and "bad" in line


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_something_else(name, content, folder):
    (bad,) = {word for word in FILES[name] if word.startswith(FILE)}
    path, data = pathlib.Path(bad.replace(FILE, "bad")), CONTENTS[content]
    if content == "device":
        path.symlink_to("/dev/zero")
    elif data is None:
        path.mkdir()
    else:
        path.write_bytes(data)
    line = refused(name, folder)
    assert ": error: " in line and "bad" in line


@pytest.mark.parametrize("line", KINDS)
def test_a_file_of_another_kind_for_each_option(line, folder):
    name, *words = line.split()
    before = files(folder)
    code, said = KINDS[line]
    found = CliRunner().invoke(APPS[name], words)
    assert (found.exit_code, files(folder)) == (code, before), found.output
    assert isinstance(found.exception, SystemExit)
    assert said in found.stderr and (code == 2 or len(found.stderr.splitlines()) == 1)
