# SPDX-License-Identifier: Apache-2.0
"""``opendpu compile`` and ``vai_c_xir``: their options, and what they leave behind."""

import hashlib
import json
import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner, Result

import xir
from opendpu.cli.app import app
from opendpu.cli.vai_c import app as vai_c
from opendpu.cli.vai_c import app_tensorflow, app_tensorflow2
from opendpu.compiler.passes import PASSES
from opendpu.frontend import load_onnx
from opendpu.ir import to_xir
from opendpu.quantize import quantize
from opendpu_arch.target import Target


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(result: Result, name: str = "opendpu") -> str:
    """Return the one line that a failing command prints to stderr."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{name}: error: ")
    return line.removeprefix(f"{name}: error: ")


def model(path: pathlib.Path, rows: int | str = 8) -> None:
    """Write a float model: a 3x3 convolution, and a softmax that the DPU does not have."""
    weights = np.random.default_rng(1).normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    helper = onnx.helper
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="c"),
        helper.make_node("Softmax", ["c"], ["y"], axis=1, name="y"),
    ]
    graph = helper.make_graph(
        nodes,
        "conv",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, rows, 8))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a folder with a float model, samples, a quantized model and an arch.json."""
    model(tmp_path / "m.onnx")
    samples = np.random.default_rng(2).normal(0, 1, (8, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "calib.npz", x=samples)
    quantized = quantize(load_onnx(tmp_path / "m.onnx"), {"x": samples})
    to_xir(quantized).serialize(tmp_path / "q.xmodel")
    fingerprint = f"{Target.from_name('B64').fingerprint:#x}"
    (tmp_path / "arch.json").write_text(json.dumps({"fingerprint": fingerprint}))
    return tmp_path


def compile_quantized(folder: pathlib.Path, *more: object) -> Result:
    return call(
        "compile", folder / "q.xmodel", "--target", "B64", "-o", folder / "out.xmodel", *more
    )


def test_list_passes() -> None:
    lines = call("compile", "--list-passes").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [one.name for one in PASSES]
    assert lines[0] == (
        "fold       quantized graph -> quantized graph: what has no effect disappears, scales "
        "are propagated across ops that move data"
    )


def test_a_quantized_model_needs_no_samples(folder: pathlib.Path) -> None:
    result = compile_quantized(folder)
    assert result.exit_code == 0, result.output
    assert result.stderr == "", "no progress where there is no terminal"
    compiled = xir.Graph.deserialize(folder / "out.xmodel")
    call(
        "compile", folder / "m.onnx", "--calib", folder / "calib.npz", "--target", "B64",
        "-o", folder / "again.xmodel",
    )  # fmt: skip
    assert (folder / "again.xmodel").read_bytes() == compiled.to_bytes()


def test_json(folder: pathlib.Path) -> None:
    report = json.loads(compile_quantized(folder, "--json").stdout)
    assert report["target"] == "DPUCZDX8G_ISA1_B64"
    assert [s["device"] for s in report["subgraphs"]] == ["USER", "DPU", "CPU"]


def test_dump(folder: pathlib.Path) -> None:
    result = compile_quantized(
        folder, "--dump-after", "tile,partition", "--dump-dir", folder / "dump"
    )
    assert result.exit_code == 0, result.output
    assert {path.name for path in (folder / "dump").iterdir()} == {
        "02-partition.txt", "02-partition.svg", "02-partition.xmodel", "22-tile.0.txt",
        "22-tile.0.svg",
    }  # fmt: skip
    assert "no pass is called 'no'" in refused(compile_quantized(folder, "--dump-after", "no"))


def test_options(folder: pathlib.Path) -> None:
    result = compile_quantized(folder, "-e", '{"output_ops": "c"}', "--options", "prefetch=true")
    assert result.exit_code == 0, result.output
    compiled = xir.Graph.deserialize(folder / "out.xmodel")
    assert "softmax" not in {op.get_type() for op in compiled.get_ops()}
    assert "option 'foo' is unknown; known: input_shape, output_ops, plugins" in refused(
        compile_quantized(folder, "-e", "foo=1")
    )


@pytest.mark.parametrize(
    ("dims", "example"),
    [
        (["n", "h", "w", 3], "1,224,224,3"),
        (["n", 3, "h", "w"], "1,3,224,224"),
        (["n", "c", "h", "w"], "1,3,224,224"),
        (["n", 3, 64, "w"], "1,3,64,224"),
        (["n", "t", 80], "1,128,80"),
    ],
)
def test_example_of_sizes(folder: pathlib.Path, dims: list[Any], example: str) -> None:
    """The example keeps what is known, and has channels where they are."""
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])],
        "open",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    )
    onnx.save(onnx.helper.make_model(graph, ir_version=10), folder / "open.onnx")
    message = refused(call("inspect", folder / "open.onnx", "--target", "B64"))
    assert message.endswith(f"for example: --input-shape x={example}")


def test_input_shape_of_a_float_model(folder: pathlib.Path) -> None:
    model(folder / "open.onnx", "rows")
    arguments = [
        "compile", folder / "open.onnx", "--calib", folder / "calib.npz", "--target", "B64",
        "-o", folder / "out.xmodel",
    ]  # fmt: skip
    message = refused(call(*arguments))
    assert "x: [1, 3, rows, 8]" in message
    assert message.endswith("for example: --input-shape x=1,3,224,8")
    for given in (
        ("-e", "input_shape=1,3,8,8"), ("--input-shape", "x=1,3,8,8"), ("--input-shape", "rows=8"),
    ):  # fmt: skip
        result = call(*arguments, *given)
        assert result.exit_code == 0, result.output
        (head,) = [
            op for op in xir.Graph.deserialize(folder / "out.xmodel").get_ops()
            if op.get_type() == "data-fix"
        ]  # fmt: skip
        assert head.get_output_tensor().dims == [1, 8, 8, 3]
    for shape, message in (
        ("3,8,9", "gives [3, 8, 9] for input 'x', but the model has [1, 3, rows, 8]"),
        ("z:1,3,8,8", "has input 'z', but the inputs are: x"),
    ):
        assert message in refused(call(*arguments, "-e", f"input_shape={shape}"))
    (folder / "bad.onnx").write_bytes(b"hello")
    arguments[1] = folder / "bad.onnx"
    assert "bad.onnx is not an ONNX model" in refused(call(*arguments, "-e", "input_shape=1"))


def test_refused(folder: pathlib.Path) -> None:
    assert compile_quantized(folder).exit_code == 0
    again = ["compile", folder / "out.xmodel", "--target", "B64", "-o", folder / "b.xmodel"]
    assert "out.xmodel is compiled already" in refused(call(*again))
    message = refused(compile_quantized(folder, "--calib", folder / "calib.npz"))
    assert message.startswith("--calib is for float models, but")
    message = refused(compile_quantized(folder, "--samples", "3"))
    assert message.startswith("--samples is for float models, but")
    message = refused(compile_quantized(folder, "--mean", "1"))
    assert message.endswith("are for a folder of images, but there is none (--calib)")
    float_model = ["compile", folder / "m.onnx", "--target", "B64", "-o", folder / "b.xmodel"]
    assert "is a float model: give samples" in refused(call(*float_model))
    calibrated = [*float_model, "--calib", folder / "calib.npz"]
    for name in ("no.so", folder):
        told = refused(call(*calibrated, "--onnx-library", name))
        assert told == f"{name}, a library of operators: there is no such file"
    options = refused(call(*calibrated, "-e", "[" * 100_000))
    assert options.endswith('but must be JSON such as \'{"output_ops": "a,b"}\', or key=value')
    assert not (folder / "b.xmodel").exists()


@pytest.mark.parametrize("name", [one.name for one in PASSES])
def test_a_failing_pass_leaves_nothing(
    folder: pathlib.Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever pass breaks a rule: one line, and no file that was not there."""
    from opendpu.compiler.verify import boundary
    from opendpu.compiler.verify.rules import Finding

    real = boundary._rules

    def broken(which: str, value: object):
        if which == name:
            return (lambda value, target: iter([Finding("op", "rule", "asked for")])), "XCOM_X"
        return real(which, value)

    monkeypatch.setattr(boundary, "_rules", broken)
    if name == "schedule":
        monkeypatch.setattr(
            boundary, "verify", lambda *_: (_ for _ in ()).throw(boundary.DPUError("asked for"))
        )
    before = sorted(folder.iterdir())
    message = refused(compile_quantized(folder))
    assert f"after pass {name!r}: " in message
    assert message.endswith("asked for")
    assert sorted(folder.iterdir()) == before


def test_a_full_disk_leaves_nothing(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
        raise OSError(28, "No space left on device")

    before = sorted(folder.iterdir())
    monkeypatch.setattr(pathlib.Path, "replace", fail)
    message = refused(compile_quantized(folder))
    assert message.endswith("out.xmodel cannot be written: No space left on device")
    assert sorted(folder.iterdir()) == before


def test_vai_c_xir(folder: pathlib.Path) -> None:
    arguments = ["-x", folder / "q.xmodel", "-a", folder / "arch.json", "-o", folder / "new/dir"]
    result = CliRunner().invoke(
        vai_c, [*map(str, arguments), "-n", "net", "-e", '{"hd_opt": "true"}']
    )
    assert result.exit_code == 0, result.output
    file = folder / "new" / "dir" / "net.xmodel"
    assert compile_quantized(folder).exit_code == 0
    assert file.read_bytes() == (folder / "out.xmodel").read_bytes()
    meta = json.loads((file.parent / "meta.json").read_text())
    assert meta == {
        "target": "DPUCZDX8G_ISA1_B64", "lib": "libvart-dpu-runner.so", "filename": "net.xmodel",
        "kernel": ["subgraph_c"],
    }  # fmt: skip
    digest = hashlib.md5(file.read_bytes()).hexdigest()
    assert (file.parent / "md5sum.txt").read_text() == f"{digest}  net.xmodel\n"
    bad = CliRunner().invoke(vai_c, [*map(str, arguments), "-e", "prefetch=false"])
    assert "'prefetch' is 'false', but must be true" in refused(bad, "vai-c-xir")
    bad = CliRunner().invoke(vai_c, [*map(str, arguments), "-n", ""])
    assert "--net_name is '', but must be a file's name" in refused(bad, "vai-c-xir")


@pytest.mark.parametrize(
    ("command", "option", "kind"),
    [("xir", "-x", "XIR"), ("tensorflow", "-f", "frozen graph"), ("tensorflow2", "-m", "Keras")],
)
def test_compilers_of_the_guide_refuse_what_is_no_model(tmp_path, command, option, kind):
    (tmp_path / "notes.txt").write_text("hello")
    app = {"xir": vai_c, "tensorflow": app_tensorflow, "tensorflow2": app_tensorflow2}[command]
    for name, message in (
        ("notes.txt", f"notes.txt is no model: a {kind} is what this command compiles"),
        ("none.bin", "[XCOM_FILE_NOT_EXISTS] "),
    ):
        arguments = [option, tmp_path / name, "-a", "DPUCZDX8G_ISA1_B64", "-o", tmp_path / "out"]
        result = CliRunner().invoke(app, [*map(str, arguments)])
        assert message in refused(result, f"vai-c-{command}")
        assert not (tmp_path / "out").exists()


def test_input_value_of_a_float_model(folder: pathlib.Path) -> None:
    """The input is none of the compiled model, and no calibration data is asked for it."""
    path = folder / "gained.onnx"
    model(path)
    made = onnx.load(path)
    (result,) = made.graph.output
    made.graph.input.append(onnx.helper.make_tensor_value_info("gain", onnx.TensorProto.FLOAT, []))
    made.graph.node.append(onnx.helper.make_node("Mul", [result.name, "gain"], ["gained"]))
    result.name = "gained"
    onnx.save(made, path)
    arguments = [
        "compile", path, "--calib", folder / "calib.npz", "--target", "B64",
        "-o", folder / "out.xmodel",
    ]  # fmt: skip
    for place in (folder, folder / "run=3"):
        place.mkdir(exist_ok=True)
        np.save(place / "gain.npy", np.float32(0.5))
    for value in ("0.5", str(folder / "gain.npy"), str(folder / "run=3" / "gain.npy")):
        result = call(*arguments, "--input-value", f"gain={value}")
        assert result.exit_code == 0, result.output
        ops = xir.Graph.deserialize(folder / "out.xmodel").get_ops()
        assert [op.get_type() for op in ops].count("data-fix") == 1
    (folder / "out.xmodel").unlink()
    for given, message in (
        ("gain=often", "is 'gain=often', but must be NAME=VALUE, where VALUE is a number"),
        ("gain=0.5,1", "gives a value of shape [2] for input 'gain'"),
        ("again=1", "has input 'again', but the inputs are: x"),
        (f"gain={folder / 'none.npy'}", "none.npy"),
    ):
        assert message in refused(call(*arguments, "--input-value", given))
        assert not (folder / "out.xmodel").exists()
    compiled = refused(
        call("compile", folder / "any.xmodel", "--target", "B64", "-o", folder / "out.xmodel",
             "--input-value", "gain=1")
    )  # fmt: skip
    assert "is for models of frameworks, not for an .xmodel" in compiled
