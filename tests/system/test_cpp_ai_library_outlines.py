# SPDX-License-Identifier: Apache-2.0
"""Solo of the AI Library in C++, against NumPy."""

import pathlib
import sys

import numpy as np
import onnx
import pytest

import xir
from opendpu.api import compile_graph
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu.runtime import Runner
from opendpu.runtime.program import dpu_subgraphs

sys.path.append(str(pathlib.Path(__file__).parent))

from ai_library import MEAN, SCALE, noise, run

SOURCE = pathlib.Path(__file__).with_name("cpp") / "outlines.cpp"
SIDE, MASK = 64, 32
GRIDS, STRIDES, CLASSES = (8, 4, 4, 2, 2), (8, 8, 16, 32, 32), 3
SCORE, SOFT, BEST, UPDATE, MOST = 0.15, 0.4, 40, 0.05, 12
NAMES = [f"{kind}{i}" for kind in ("cols", "rows", "top", "score") for i in range(5)]

pytestmark = [pytest.mark.system, pytest.mark.slow]


def network() -> tuple[onnx.ModelProto, dict[str, tuple[int, ...]]]:
    """Return a network with inputs of an image and of coordinates, and SOLO's outputs."""
    helper, rng = onnx.helper, np.random.default_rng(14)
    nodes, constants, inputs, outputs = [], {}, {"image": (3, SIDE, SIDE)}, {}

    def conv(source: str, name: str, into: int, out: int, size: int, gain: float, bias: float):
        constants[f"{name}_w"] = rng.normal(0, gain / np.sqrt(into * size * size),
                                            (out, into, size, size)).astype(np.float32)  # fmt: skip
        constants[f"{name}_b"] = np.full(out, bias, np.float32)
        taken = [source, f"{name}_w", f"{name}_b"]
        nodes.append(helper.make_node("Conv", taken, [name], name=name, strides=[size] * 2))

    conv("image", "stem", 3, 8, 2, 1.0, 0.1)
    nodes.append(helper.make_node("Relu", ["stem"], ["near"], name="near"))
    for i, grid in enumerate(GRIDS):
        inputs[f"coord{i}"] = (2, 4 * grid, 4 * grid)
        conv("near", f"cols{i}", 8, grid, 1, 0.5, 0.6)
        conv("near", f"rows{i}", 8, grid, 1, 0.5, 0.6)
        conv("near", f"seen{i}", 8, 6, 4, 1.0, 0.1)
        factor = MASK // 4 // grid
        conv(f"seen{i}", f"part{i}", 6, CLASSES, factor, 0.8, 0.1)
        conv(f"coord{i}", f"place{i}", 2, CLASSES, 4, 0.3, 0.0)
        nodes.append(
            helper.make_node("Add", [f"part{i}", f"place{i}"], [f"score{i}"], name=f"score{i}")
        )
        nodes.append(
            helper.make_node(
                "MaxPool", [f"score{i}"], [f"top{i}"], name=f"top{i}", kernel_shape=[2, 2],
                pads=[1, 1, 1, 1], strides=[1, 1],
            )
        )  # fmt: skip
        outputs[f"cols{i}"] = outputs[f"rows{i}"] = (grid, MASK, MASK)
        outputs[f"score{i}"] = (CLASSES, grid, grid)
        outputs[f"top{i}"] = (CLASSES, grid + 1, grid + 1)
    real = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "solo",
        [helper.make_tensor_value_info(name, real, (1, *shape)) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, real, (1, *outputs[name])) for name in NAMES],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8), inputs


@pytest.fixture(scope="module")
def solo(tmp_path_factory) -> pathlib.Path:
    rng = np.random.default_rng(15)
    model, inputs = network()
    samples = {n: rng.uniform(-1, 1, (4, *s)).astype(np.float32) for n, s in inputs.items()}
    path = tmp_path_factory.mktemp("solo") / "solo.xmodel"
    compile_graph(quantize(load_onnx(model), samples), target="B512").graph.serialize(path)
    kernel = "".join(f"mean: {m} scale: {s} " for m, s in zip(MEAN, SCALE, strict=True))
    named = "".join(f'input_tensor_name: "{name}" ' for name in inputs)
    named += "".join(f'output_tensor_name: "{name}" ' for name in NAMES)
    path.with_suffix(".prototxt").write_text(
        f'model {{ name: "solo" kernel {{ name: "k" {kernel} }} solo_param {{ {named}'
        f" score_thr: {SCORE} mask_thr: {SOFT} nms_pre: {BEST} update_thr: {UPDATE}"
        f" max_per_img: {MOST} }} }}\n"
    )
    return path


def outputs_of(path: pathlib.Path, pixels: np.ndarray) -> dict[str, np.ndarray]:
    """Return the outputs as real values, rows and columns first."""
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(path))
    with Runner(dpu, device="iss") as runner:
        elements = []
        for tensor in runner.get_input_tensors():
            factor = 2.0 ** tensor.get_attr("fix_point")
            if "image" in tensor.name:
                reals = ((np.float32(pixels) - MEAN) * SCALE)[..., ::-1] * np.float32(factor)
            else:
                line = np.linspace(-1, 1, tensor.dims[1])
                reals = np.stack(np.meshgrid(line, line), -1) * factor
            whole = np.trunc(reals + np.copysign(0.5, reals)).clip(-128, 127)
            elements.append(whole.astype(np.int8)[None])
        given = runner.run(elements)
        points = {t.name: t.get_attr("fix_point") for t in runner.get_output_tensors()}
    found = {name: np.ldexp(np.float64(v), -points[name])[0] for name, v in given.items()}
    return {short: value for short in NAMES for name, value in found.items() if short in name}


def candidates(named: dict[str, np.ndarray]) -> list[tuple[float, int, np.ndarray]]:
    """Return score, class and mask of what each cell may be."""
    found = []
    for i, (grid, stride) in enumerate(zip(GRIDS, STRIDES, strict=True)):
        score = named[f"score{i}"]
        score = score * (named[f"top{i}"][:grid, :grid] == score)
        for row, column, label in zip(*np.nonzero(score > SCORE), strict=True):
            soft = named[f"rows{i}"][..., row] * named[f"cols{i}"][..., column]
            mask = soft > SOFT
            if mask.sum() > stride:
                found.append((score[row, column, label] * soft[mask].mean(), label, soft))
    return found


def objects(named: dict[str, np.ndarray]) -> list[tuple[float, int, np.ndarray]]:
    """Return score, class and mask of what remains."""
    best = sorted(candidates(named), key=lambda one: -one[0])
    assert len(best) > BEST, "the network finds too little"
    best = best[:BEST]
    flat = np.array([(soft > SOFT).ravel() for _, _, soft in best], float)
    labels = np.array([label for _, label, _ in best])
    common, sizes = flat @ flat.T, flat.sum(1)
    share = np.triu(common / (sizes[:, None] + sizes - common) * (labels[:, None] == labels), 1)
    factor = (np.exp(-2 * share**2) / np.exp(-2 * share.max(0)[:, None] ** 2)).min(0)
    assert (factor < 0.9).any()
    kept = [
        (score * f, label, soft)
        for (score, label, soft), f in zip(best, factor, strict=True)
        if score * f > UPDATE
    ]
    return sorted(kept, key=lambda one: -one[0])[:MOST]


def test_objects_with_outlines(program, solo, tmp_path):
    """The picture has the input's size, the masks half of it."""
    path, pixels = noise(tmp_path, (SIDE, SIDE))
    lines = run(program, solo, path, 0, tmp_path / "masks").stdout.splitlines()
    expected = objects(outputs_of(solo, pixels))
    assert lines[0].split()[2] == str(len(expected)) and len(expected) >= 4
    found = [[float(word) for word in line.split()] for line in lines[1:]]
    assert [row[2] for row in found] == sorted((row[2] for row in found), reverse=True)
    np.testing.assert_allclose(
        sorted(row[1::-1] for row in found),
        sorted([score, label] for score, label, _ in expected),
        rtol=1e-4,
    )
    masks = np.fromfile(tmp_path / "masks", np.int8).reshape(-1, SIDE, SIDE)
    assert [mask.sum() for mask in masks] == [row[2] for row in found]
    for mask, (label, score, _) in zip(masks, found, strict=True):
        (soft,) = (s for v, n, s in expected if n == label and abs(v - score) < 1e-4 * score)
        # Twice as many pixels: a quarter from a value's place, three quarters from the next one's.
        mixed = np.pad(soft, 1, mode="edge")
        for dy in (0, 1):
            for dx in (0, 1):
                near = np.roll(mixed, (1 - 2 * dy, 0), (0, 1))
                blend = 0.75 * mixed + 0.25 * near
                blend = 0.75 * blend + 0.25 * np.roll(blend, 1 - 2 * dx, 1)
                blend = blend[1:-1, 1:-1]
                sure = np.abs(blend - SOFT) > 1e-5
                np.testing.assert_array_equal(mask[dy::2, dx::2][sure], (blend > SOFT)[sure])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('input_tensor_name: "image"', 'input_tensor_name: "photo"', "has 'photo', which"),
        ('output_tensor_name: "score4"', "", "solo_param has 19 output_tensor_name, but must have"),
        ('output_tensor_name: "score4"', 'output_tensor_name: "score0"', "not those of one level"),
    ],
)  # fmt: skip
def test_what_does_not_fit(program, solo, tmp_path, old, new, message):
    path = tmp_path / "solo.xmodel"
    path.write_bytes(solo.read_bytes())
    text = solo.with_suffix(".prototxt").read_text()
    assert old in text
    path.with_suffix(".prototxt").write_text(text.replace(old, new))
    picture, _ = noise(tmp_path, (SIDE, SIDE))
    done = run(program, path, picture, 0, tmp_path / "masks", check=False)
    assert done.returncode == 3
    assert message in done.stderr
