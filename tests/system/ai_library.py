# SPDX-License-Identifier: Apache-2.0
"""What tests of the AI Library share: programs, models with given outputs, boxes in NumPy."""

import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest

import opendpu.cpp
import xir
from opendpu.api import compile_graph
from opendpu.cpp import ai_library_build, packages
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu.runtime import Runner
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch.errors import ToolError

HEIGHT, WIDTH = 32, 48
MEAN, SCALE = np.float32([104, 117, 123]), np.float32([0.01, 0.02, 0.0125])  # blue, green, red
CONF, NMS = 0.3, 0.45
PLACES = {
    "corner": [-5, -5, 5, 5],
    "box6": [6, 6, 6, 6],
    **dict.fromkeys(("box_at8", "box_at16"), [0, 0, 3.5, 3.5] * 2),
    "extent": [4, 3],
    "sides8": [1, 1, 1.5, 1.5],
    "sides16": [1, 1, 1.5, 1.5],
}
"""Biases of outputs for places, so that boxes have a size."""


def compiled_program(source: pathlib.Path, path: pathlib.Path) -> pathlib.Path:
    """Compile a program of ours with the AI Library; skips where it cannot be built."""
    try:
        prefix = ai_library_build.prefix()
        includes = ai_library_build.cflags()
    except ToolError as error:
        pytest.skip(str(error))
    subprocess.run(
        [opendpu.cpp.compiler(), "-O0", "-Wall", "-Wextra", "-Werror", *packages.cflags(prefix),
         *includes, "-o", path, source, *packages.ai_libs(prefix), "-lopencv_imgcodecs",
         "-lopencv_highgui", "-lopencv_videoio", "-lpthread"],
        check=True, timeout=300,
    )  # fmt: skip
    return path


def compiled(
    heads: Mapping[str, tuple[int, int]],
    path: pathlib.Path,
    hidden: tuple[int, ...] = (),
    size: tuple[int, int] = (HEIGHT, WIDTH),
    **options,
) -> pathlib.Path:
    """Compile a network with outputs of ``heads``: their channels and stride, 0 for one cell.

    ``hidden`` are channels of layers in front of those of one cell, ``size`` is the input's.
    """
    helper, rng = onnx.helper, np.random.default_rng(11)
    nodes, constants, outputs = [], {}, []

    def conv(source: str, target: str, channels: int, inputs: int, size: int) -> None:
        weight = rng.normal(0, 1.6 / np.sqrt(inputs * size * size), (channels, inputs, size, size))
        constants[f"{target}_w"] = weight.astype(np.float32)
        constants[f"{target}_b"] = rng.normal(0, 0.5, channels).astype(np.float32)
        nodes.append(
            helper.make_node(
                "Conv", [source, f"{target}_w", f"{target}_b"], [target], name=target,
                strides=[size, size],
            )
        )  # fmt: skip

    conv("x", "stem", 12, 3, 4)
    nodes.append(helper.make_node("Relu", ["stem"], ["s4"], name="s4"))
    for stride in (8, 16):
        conv(f"s{stride // 2}", f"down{stride}", 12, 12, 2)
        nodes.append(helper.make_node("Relu", [f"down{stride}"], [f"s{stride}"], name=f"s{stride}"))
    nodes.append(helper.make_node("GlobalAveragePool", ["s16"], ["s0"], name="s0"))
    source, inputs = "s0", 12
    for number, channels in enumerate(hidden):
        conv(source, f"wide{number}", channels, inputs, 1)
        source, inputs = f"wide{number}", channels
    for name, (channels, stride) in heads.items():
        if stride:
            conv(f"s{stride}", name, channels, 12, 1)
        else:
            conv(source, name, channels, inputs, 1)
        height, width = (size[0] // stride, size[1] // stride) if stride else (1, 1)
        shape = (1, channels, height, width)
        if name in PLACES:
            constants[f"{name}_b"] = np.float32(PLACES[name])
        outputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    shape = (1, 3, *size)
    graph = helper.make_graph(
        nodes, "heads", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        outputs, [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = rng.normal(0, 1, (8, 3, *size)).astype(np.float32)
    quantized = quantize(load_onnx(model), {"x": samples}, **options)
    compile_graph(quantized, target="B512").graph.serialize(path)
    return path


def noise(
    folder: pathlib.Path, size: tuple[int, int] = (HEIGHT, WIDTH)
) -> tuple[pathlib.Path, np.ndarray]:
    """Return a picture's file, and its pixels: blue, green, red."""
    pixels = np.random.default_rng(12).integers(0, 256, (*size, 3)).astype(np.uint8)
    path = folder / "noise.ppm"
    header = b"P6 %d %d 255\n" % size[::-1]
    path.write_bytes(header + pixels[..., ::-1].tobytes())
    return path, pixels


def results(
    xmodel: pathlib.Path, pixels: np.ndarray, heads: Mapping[str, object], *, rgb: bool
) -> dict[str, np.ndarray]:
    """Return every output as real values, by its name."""
    return results_of(xmodel, lambda runner: elements_of(runner, pixels, rgb=rgb), heads)


def results_of(
    xmodel: pathlib.Path, elements: Callable[[Runner], np.ndarray], heads: Mapping[str, object]
) -> dict[str, np.ndarray]:
    """Return every output as real values, by its name, for elements of the input."""
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(xmodel))
    with Runner(dpu, device="iss") as runner:
        given = runner.run([elements(runner)])
        points = {t.name: t.get_attr("fix_point") for t in runner.get_output_tensors()}
    named = {}
    for name, array in given.items():
        (head,) = [head for head in heads if head in name]
        named[head] = np.ldexp(np.float64(array), -points[name])[0]
    return named


def elements_of(runner: Runner, pixels: np.ndarray, *, rgb: bool) -> np.ndarray:
    """Return what a picture becomes in the network's input."""
    (tensor,) = runner.get_input_tensors()
    factor = SCALE * np.float32(2.0 ** tensor.get_attr("fix_point"))
    whole = np.trunc((pixels - MEAN) * factor).astype(np.int64)
    return np.ascontiguousarray(whole.astype(np.int8)[None, ..., :: -1 if rgb else 1])


def over_averages(xmodel: pathlib.Path, pixels: np.ndarray, head: str) -> np.ndarray:
    """Return an output behind the average of the first DPU subgraph's results."""
    first, *rest = dpu_subgraphs(xir.Graph.deserialize(xmodel))
    if not rest:
        return results(xmodel, pixels, {head: None}, rgb=False)[head]
    (second,) = rest
    with Runner(first, device="iss") as runner:
        given = runner.run([elements_of(runner, pixels, rgb=False)])
        (tensor,) = runner.get_output_tensors()
        reals = np.ldexp(np.float64(given[tensor.name]), -tensor.get_attr("fix_point"))
    with Runner(second, device="iss") as runner:
        (tensor,) = runner.get_input_tensors()
        means = np.ldexp(reals.mean((1, 2)), tensor.get_attr("fix_point"))
        whole = np.trunc(means + np.copysign(0.5, means)).clip(-128, 127).astype(np.int8)
        given = runner.run([whole.reshape(tensor.dims)])
        (tensor,) = runner.get_output_tensors()
        return np.ldexp(np.float64(given[tensor.name]), -tensor.get_attr("fix_point"))[0]


def steps(xmodel: pathlib.Path, heads: Mapping[str, object]) -> dict[str, float]:
    """Return what one is worth in every output."""
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(xmodel))
    with Runner(dpu, device="ref") as runner:
        points = {t.name: t.get_attr("fix_point") for t in runner.get_output_tensors()}
    return {head: 2.0**-p for head in heads for name, p in points.items() if head in name}


def prepared(xmodel: pathlib.Path, folder: pathlib.Path, text: str) -> pathlib.Path:
    """Return a copy of the model with a .prototxt beside it."""
    path = folder / "net.xmodel"
    shutil.copy(xmodel, path)
    kernel = "".join(f"mean: {m} scale: {s} " for m, s in zip(MEAN, SCALE, strict=True))
    path.with_suffix(".prototxt").write_text(
        f'model {{ name: "net" kernel {{ name: "net" {kernel}}} {text} }}\n'
    )
    return path


def run(program, *arguments, check: bool = True, folder=None, **environment):
    done = subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False,
        cwd=folder, env={**os.environ, "OPENDPU_DEVICE": "ref", **environment},
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done


def found(program, kind, path, picture, **environment) -> list[list[float]]:
    lines = run(program, kind, path, picture, **environment).stdout.splitlines()
    assert lines[0] == f"size {WIDTH} {HEIGHT}"
    return [[float(word) for word in line.split()] for line in lines[1:]]


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values)
    return powers / powers.sum(-1, keepdims=True)


def remaining(boxes: np.ndarray, scores: np.ndarray, extra: float = 0.0) -> list[int]:
    """Return what NMS leaves of boxes x1, y1, x2, y2."""
    order, kept = list(np.argsort(-scores, kind="stable")), []
    sizes = np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2] + extra, 0), 1)
    while order:
        first = order.pop(0)
        kept.append(first)
        low = np.maximum(boxes[first, :2], boxes[order, :2])
        high = np.minimum(boxes[first, 2:], boxes[order, 2:])
        common = np.prod(np.maximum(high - low + extra, 0), 1)
        iou = common / (sizes[first] + sizes[order] - common)
        order = [i for i, value in zip(order, iou, strict=True) if value < NMS]
    return kept


def same(lines: list[list[float]], expected: list[tuple[float, ...]]) -> None:
    assert len(expected) >= 3, "the network finds too little for a test"
    assert len(lines) == len(expected)

    def rank(row):
        return (row[0], *np.round(row[1:], 4))

    np.testing.assert_allclose(
        sorted(lines, key=rank), sorted(expected, key=rank), rtol=1e-4, atol=1e-5
    )


def per_class(xywh: np.ndarray, scores: np.ndarray) -> list[tuple[float, ...]]:
    """Return label, score, x, y, w, h of what remains of boxes by centre, class by class."""
    corners = np.concatenate([xywh[:, :2] - xywh[:, 2:] / 2, xywh[:, :2] + xywh[:, 2:] / 2], 1)
    made = []
    for label in range(scores.shape[1]):
        (chosen,) = np.nonzero(scores[:, label] >= CONF)
        for i in remaining(corners[chosen], scores[chosen, label]):
            k = chosen[i]
            made.append((label, scores[k, label], *corners[k, :2], *xywh[k, 2:]))
    return made


def numbers(lines: list[str]) -> np.ndarray:
    """Return what lines say."""
    return np.array([[float(word) for word in line.split()] for line in lines])


def told(program, kind, path, picture, size: tuple[int, int] = (HEIGHT, WIDTH)) -> list[str]:
    """Return what a program tells, but for the input's size, which comes first."""
    first, *lines = run(program, kind, path, picture).stdout.splitlines()
    assert first == f"size {size[1]} {size[0]}"
    return lines
