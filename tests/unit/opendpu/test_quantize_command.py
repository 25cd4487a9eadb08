# SPDX-License-Identifier: Apache-2.0
"""``opendpu quantize``: what it writes compiles without data, and what it refuses."""

import html.parser
import json
import pathlib

import numpy as np
import onnx
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from opendpu import api
from opendpu.cli.app import app
from opendpu.frontend import load_onnx
from opendpu.quantize import complete, quantize
from opendpu.quantize_model import read_model
from opendpu_arch import kept_lines

SHAPE = (1, 3, 8, 8)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(result: Result) -> str:
    """Return the one line that a failing command prints to stderr."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line.partition(": error: ")[2]


def test_interrupted_it_goes_on(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["quantize", folder / "m.onnx", "--calib", folder / "calib.npz", "--progress"]
    whole, file, out = folder / "whole.xmodel", folder / "kept", folder / "q.xmodel"
    assert call(*command, folder / "other", "-o", whole).exit_code == 0
    add = kept_lines.KeptLines.add

    def interrupted(lines: kept_lines.KeptLines, value: object) -> None:
        add(lines, value)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kept_lines.KeptLines, "add", interrupted)
        result = call(*command, file, "-o", out)
    assert result.exit_code == 130
    assert (
        result.stderr == f"interrupted: {file} has: refining; the same command goes on from there\n"
    )
    assert not out.exists()
    assert call(*command, file, "-o", out).exit_code == 0
    assert out.read_bytes() == whole.read_bytes()
    assert "other options: seed was 0, and is 1 now" in refused(
        call(*command, file, "-o", out, "--seed", 1)
    )
    assert "is quantized already: there are no steps to keep (--progress)" in refused(
        call("quantize", whole, "--progress", file, "-o", folder / "q.onnx")
    )


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a folder with a float model of two layers, samples, and images."""
    random = np.random.default_rng(1)
    weights = {
        "w": random.normal(0, 0.3, (4, 3, 3, 3)), "v": random.normal(0, 0.3, (5, 4, 1, 1)),
    }  # fmt: skip
    helper = onnx.helper
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="first"),
        helper.make_node("Relu", ["c"], ["r"], name="act"),
        helper.make_node("Conv", ["r", "v"], ["y"], name="second"),
    ]
    graph = helper.make_graph(
        nodes, "two", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 5, 8, 8))],
        [onnx.numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()],
    )  # fmt: skip
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), tmp_path / "m.onnx")
    samples = random.normal(0, 1, (16, *SHAPE[1:])).astype(np.float32)
    np.savez(tmp_path / "calib.npz", x=samples)
    (tmp_path / "images").mkdir()
    for number in range(12):
        pixels = random.integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
    return tmp_path


def code(graph) -> list[bytes]:
    compiled = api.compile_graph(graph, target="B512")
    return [part.get_attr("mc_code") for part in api.dpu_subgraphs(compiled.graph)]


def fix_points(graph) -> dict[str, int]:
    return {node.name: node.fix_point for node in graph if node.kind == "fix"}


@pytest.mark.parametrize("suffix", ["xmodel", "onnx"])
def test_the_result_compiles_for_any_target_without_data(folder, suffix):
    output = folder / f"q.{suffix}"
    result = call("quantize", folder / "m.onnx", "--calib", folder / "calib.npz", "-o", output)
    assert result.exit_code == 0, result.output
    calib = {"x": np.load(folder / "calib.npz")["x"]}
    wanted = quantize(load_onnx(folder / "m.onnx"), calib)
    assert code(read_model(output)) == code(wanted)
    for target in ("B512", "B4096"):
        made = folder / f"{target}.xmodel"
        result = call("compile", output, "--target", target, "-o", made, "--no-count")
        assert result.exit_code == 0, result.output
    assert sorted(file.suffix for file in folder.glob(".*")) == []


def test_from_one_form_to_the_other(folder):
    first, second, third = (folder / name for name in ("a.xmodel", "b.onnx", "c.xmodel"))
    calib = ("--calib", folder / "calib.npz")
    assert call("quantize", folder / "m.onnx", *calib, "-o", first).exit_code == 0
    assert call("quantize", first, "-o", second, "--onnx-form", "fixneuron").exit_code == 0
    kinds = {node.op_type for node in onnx.load(second).graph.node}
    assert "FixNeuron" in kinds
    result = call("quantize", second, "-o", third)
    assert result.stdout == "quantized already: written as it is\n"
    assert code(read_model(third)) == code(read_model(first))


def test_an_input_that_always_has_one_value(folder):
    """The quantized file does not have it, and no samples are asked for it."""
    model = onnx.load(folder / "m.onnx")
    model.graph.input.append(onnx.helper.make_tensor_value_info("gain", 1, [1, 5, 1, 1]))
    model.graph.node[2].output[0] = "z"
    model.graph.node.append(onnx.helper.make_node("Mul", ["z", "gain"], ["y"], name="gained"))
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "gain.npz", gain=np.full((1, 5, 1, 1), 0.5, np.float32))
    command = ["quantize", folder / "m.onnx", "--calib", folder / "calib.npz"]
    result = call(*command, "-o", folder / "q.onnx", "--input-value", f"gain={folder / 'gain.npz'}")
    assert result.exit_code == 0, result.output
    assert [one.name for one in onnx.load(folder / "q.onnx").graph.input] == ["x"]
    compiled = call("compile", folder / "q.onnx", "--target", "B64", "-o", folder / "c.xmodel")
    assert compiled.exit_code == 0, compiled.output
    short = call(*command, "-o", folder / "s.onnx", "--input-value", "gain=1,2,3")
    assert "gives a value of shape [3] for input 'gain'" in refused(short)
    assert not (folder / "s.onnx").exists()


def test_images_with_a_line_of_preprocessing(folder):
    output = folder / "q.xmodel"
    result = call(
        "quantize", folder / "m.onnx", "--calib", folder / "images", "--mean", "127.5", "--scale",
        "0.0078125", "--channels", "bgr", "--samples", "10", "-o", output,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    files = sorted((folder / "images").iterdir())
    files = [files[index * 12 // 10] for index in range(10)]
    pixels = np.stack([np.asarray(Image.open(file))[:, :, ::-1] for file in files])
    samples = ((pixels - np.float32(127.5)) * np.float32(0.0078125)).transpose(0, 3, 1, 2)
    wanted = quantize(load_onnx(folder / "m.onnx"), {"x": samples})
    assert fix_points(read_model(output)) == fix_points(wanted)


def test_compiling_takes_the_same_images(folder):
    images = ("--calib", folder / "images", "--mean", "127.5", "--scale", "0.0078125", "--samples",
              "10")  # fmt: skip
    output, made, other = (folder / name for name in ("q.xmodel", "m.xmodel", "o.xmodel"))
    assert call("quantize", folder / "m.onnx", *images, "-o", output).exit_code == 0
    to = ("--target", "B512", "--no-count")
    assert call("compile", output, *to, "-o", made).exit_code == 0
    result = call("compile", folder / "m.onnx", *images, *to, "-o", other)
    assert result.exit_code == 0, result.output
    first, second = ([part.get_attr("mc_code") for part in api.dpu_subgraphs(api.load(path))]
                     for path in (made, other))  # fmt: skip
    assert first == second
    other.unlink()
    wrong = ("compile", folder / "m.onnx", "--calib", folder / "calib.npz", "--mean", "1", *to)
    assert "are for a folder of images" in refused(call(*wrong, "-o", other))
    assert not other.exists()


def test_knobs(folder):
    output = folder / "q.xmodel"
    result = call(
        "quantize", folder / "m.onnx", "--calib", folder / "calib.npz", "--method", "nonoverflow",
        "--no-refinement", "--no-cross-layer", "--no-bias-correction", "--batch", "4", "-o", output,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    wanted = quantize(
        load_onnx(folder / "m.onnx"), {"x": np.load(folder / "calib.npz")["x"]},
        method="nonoverflow", refinement=False, cross_layer=False, bias_correction=False,
    )  # fmt: skip
    assert fix_points(read_model(output)) == fix_points(wanted)


def test_the_guides_configuration(folder):
    given = {
        "include_cle": False, "include_bias_corr": False, "target_device": "CPU",
        "overall_quantize_config": {
            "round_mode": "half_up", "scale_type": "float", "method": "maxmin",
            "calib_statistic_method": "max",
        },
    }  # fmt: skip
    (folder / "c.json").write_text(json.dumps(given))
    arguments = ("quantize", folder / "m.onnx", "--calib", folder / "calib.npz")
    result = call(*arguments, "--config", folder / "c.json", "-o", folder / "q.xmodel")
    assert "which cannot run this: input has a scale of type float" in refused(result)
    assert not (folder / "q.xmodel").exists()
    (folder / "c.json").write_text('{"include_clee": true}')
    result = call(*arguments, "--config", folder / "c.json", "-o", folder / "q.xmodel")
    assert "has no key 'include_clee'" in refused(result)


def test_deploy_check_and_golden_results(folder):
    result = call(
        "quantize", folder / "m.onnx", "--calib", folder / "calib.npz", "-o", folder / "q.onnx",
        "--deploy-check", "B512", "--dump", folder / "dump",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-3:] == ["ref: agrees", "iss: agrees", "file: agrees"]
    names = {str(file.relative_to(folder / "dump")) for file in (folder / "dump").rglob("*.bin")}
    assert names == {
        *(f"dump_results_0/quant_{name}.bin" for name in ("x", "r", "y")),
        *(f"dump_results_weights/quant_{name}.bin" for name in
          ("c_kernel", "c_bias", "y_kernel", "y_bias")),
    }  # fmt: skip
    result = call(
        "quantize", folder / "m.onnx", "--calib", folder / "calib.npz", "-o", folder / "q.onnx",
        "--onnx-plain", "--deploy-check", "B512", "--json",
    )  # fmt: skip
    found = {one["opinion"]: one for one in json.loads(result.stdout)["deploy_check"]}
    assert found["iss"]["agrees"]
    assert found["file"]["agrees"] == (found["file"]["first"] is None)


def test_settings_of_roles_and_layers(folder):
    common = ("quantize", folder / "m.onnx", "--calib", folder / "calib.npz", "--no-refinement")
    result = call(
        *common, "-o", folder / "q.onnx", "--method", "max", "--set", "scale=float", "--set",
        "weights.granularity=per_channel", "--layer", "@Relu:activation.bits=16",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stdout.count("deployable: no, because input has a scale of type float") == 1
    model = onnx.load(folder / "q.onnx")
    scales = [t for t in model.graph.initializer if t.dims == [4]]
    assert len({tuple(onnx.numpy_helper.to_array(t)) for t in scales}) >= 1
    stored = {t.data_type for t in model.graph.initializer if len(t.dims) == 0}
    assert onnx.TensorProto.INT16 in stored
    result = call(*common, "-o", folder / "q.xmodel", "--set", "weights.bits=4")
    assert result.exit_code == 0, result.output
    graph = read_model(folder / "q.xmodel")
    weights = [
        graph[graph[layer].inputs["weights"][0]].sources()[0]
        for layer in graph.nodes
        if graph[layer].kind == "conv2d"
    ]
    assert all(len(np.unique(graph[name].value)) <= 16 for name in weights)
    made = folder / "c.xmodel"
    result = call("compile", folder / "q.xmodel", "--target", "B512", "-o", made, "--no-count")
    assert result.exit_code == 0, result.output


class Tags(html.parser.HTMLParser):
    """Collects the text of a page, and checks that every element ends."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_report_and_sensitivity(folder):
    result = call(
        "quantize", folder / "m.onnx", "--calib", folder / "calib.npz", "-o", folder / "q.xmodel",
        "--report", folder / "r.html", "--sensitivity", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {one["name"] for one in found["sensitivity"]} == {"c", "y"}
    assert found["report"]["samples"] == 16
    assert found["report"]["deployable"]
    page = Tags()
    page.feed((folder / "r.html").read_text())
    assert not page.open
    assert "Quantization of two" in page.text
    assert "Which layers deserve more bits" in page.text
    assert "16 samples" in page.text
    assert "http" not in (folder / "r.html").read_text().replace("http://www.w3.org/2000/svg", "")


def test_what_is_refused_before_long_work(folder, monkeypatch):
    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("the model was read")

    monkeypatch.setattr("opendpu.requantization.load_model", fail)
    model, calib = folder / "m.onnx", ("--calib", folder / "calib.npz")
    text = refused(call("quantize", model, *calib, "-o", folder / "q.txt"))
    assert "q.txt ends in '.txt', but a quantized model is .xmodel or .onnx" in text
    text = refused(call("quantize", model, *calib, "-o", folder / "none" / "q.xmodel"))
    assert "there is no folder" in text
    assert "it is the input" in refused(call("quantize", model, *calib, "-o", model))
    text = refused(call("quantize", model, "--calib", folder / "no.npz", "-o", folder / "q.xmodel"))
    assert "no.npz: there is no such calibration data" in text
    text = refused(call("quantize", model, *calib, "-o", folder / "q.onnx", "--onnx-form", "qdq"))
    assert "form 'qdq' of quantized ONNX files is unknown" in text
    text = refused(call("quantize", model, *calib, "-o", folder / "q.xmodel", "--mean", "1"))
    assert "are for a folder of images" in text
    text = refused(
        call("quantize", model, *calib, "-o", folder / "q.onnx", "--report", folder / "q.onnx")
    )
    assert "is written to the same file" in text
    text = refused(call("quantize", model, *calib, "--bits", "9", "-o", folder / "q.xmodel"))
    assert "input has 9 bits, but the DPU has 8" in text
    arguments = ("--bits", "9", "--deploy-check", "B512", "-o", folder / "q.onnx")
    text = refused(call("quantize", model, *calib, *arguments))
    assert "no DPU runs this, so that none can be checked (--deploy-check): input has 9" in text
    arguments = ("--set", "weights.number_format=mx9", "--dump", folder / "d")
    text = refused(call("quantize", model, *calib, *arguments, "-o", folder / "q.onnx"))
    assert text == "golden results (--dump) are integers, but weights is mx9"


def test_what_is_refused_later(folder):
    model, output = folder / "m.onnx", folder / "q.xmodel"
    assert "give samples to calibrate it with (--calib)" in refused(
        call("quantize", model, "-o", output)
    )
    assert call("quantize", model, "--calib", folder / "calib.npz", "-o", output).exit_code == 0
    text = refused(
        call("quantize", output, "--calib", folder / "calib.npz", "-o", folder / "p.onnx")
    )
    assert "is quantized already: it needs no calibration data" in text
    text = refused(call("quantize", output, "--sensitivity", "-o", folder / "p.onnx"))
    assert "there is neither a float model nor a sample to compare with" in text
    text = refused(call("quantize", output, "--method", "entropy", "-o", folder / "p.onnx"))
    assert "q.xmodel is quantized already: settings of the quantizer" in text
    compiled = folder / "c.xmodel"
    assert call("compile", output, "--target", "B512", "-o", compiled, "--no-count").exit_code == 0
    assert "is compiled already" in refused(call("quantize", compiled, "-o", folder / "p.onnx"))


def test_a_python_iterator_calibrates(folder):
    samples = np.load(folder / "calib.npz")["x"]
    batches = ({"x": samples[start : start + 3]} for start in range(0, len(samples), 3))
    found = api.quantize_onnx(
        folder / "m.onnx", calibration=batches, output=folder / "q.onnx", exact=False
    )
    assert found.report is not None
    assert found.report.samples == 16
    assert not onnx.load(folder / "q.onnx").functions
    assert code(complete(load_onnx(folder / "q.onnx"))) == code(found.graph)
