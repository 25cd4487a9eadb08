# SPDX-License-Identifier: Apache-2.0
"""Tasks of the AI Library in C++ for pairs of images: ARFlow and RGBDsegmentation."""

import pathlib
import shutil
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

from ai_library import run

SOURCE = pathlib.Path(__file__).with_name("cpp") / "pairs.cpp"
SIDE, CLASSES = 24, 5
MEAN, SCALE = np.float32([104, 117, 123]), np.float32([0.01, 0.02, 0.0125])  # blue, green, red

pytestmark = [pytest.mark.system, pytest.mark.slow]


def compiled(path: pathlib.Path, outputs: dict[str, tuple[int, int]]) -> pathlib.Path:
    """Compile a network of ``before`` and ``after``: outputs by name, with channels and stride."""
    helper, rng = onnx.helper, np.random.default_rng(51)
    real, inputs = onnx.TensorProto.FLOAT, ("before", "after")
    nodes, constants, told = [], {}, []
    for name, (channels, stride) in outputs.items():
        for source in inputs:
            weight = f"{name}_{source}_w"
            constants[weight] = rng.normal(0, 0.5, (channels, 3, stride, stride))
            nodes.append(
                helper.make_node("Conv", [source, weight], [f"{name}_{source}"],
                                 strides=[stride, stride], name=f"{name}_{source}")
            )  # fmt: skip
        terms = [f"{name}_{source}" for source in inputs]
        nodes.append(helper.make_node("Add", terms, [name], name=name))
        shape = (1, channels, SIDE // stride, SIDE // stride)
        told.append(helper.make_tensor_value_info(name, real, shape))
    shape = (1, 3, SIDE, SIDE)
    graph = helper.make_graph(
        nodes, "pairs", [helper.make_tensor_value_info(name, real, shape) for name in inputs], told,
        [onnx.numpy_helper.from_array(np.float32(v), name) for name, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = {name: rng.normal(0, 1, (8, *shape[1:])).astype(np.float32) for name in inputs}
    compile_graph(quantize(load_onnx(model), samples), target="B512").graph.serialize(path)
    return path


@pytest.fixture(scope="module")
def flow_model(tmp_path_factory) -> pathlib.Path:
    outputs = {"coarse": (2, 8), "fine": (2, 4)}
    return compiled(tmp_path_factory.mktemp("flow") / "flow.xmodel", outputs)


@pytest.fixture(scope="module")
def depth_model(tmp_path_factory) -> pathlib.Path:
    return compiled(tmp_path_factory.mktemp("depth") / "depth.xmodel", {"mask": (CLASSES, 1)})


def prepared(xmodel: pathlib.Path, folder: pathlib.Path, names: tuple[str, ...]) -> pathlib.Path:
    path = folder / "net.xmodel"
    shutil.copy(xmodel, path)
    numbers = "".join(f"mean: {m} scale: {s} " for m, s in zip(MEAN, SCALE, strict=True))
    kernels = " ".join(f'kernel {{ name: "{name}" {numbers}}}' for name in names)
    path.with_suffix(".prototxt").write_text(f'model {{ name: "net" {kernels} }}\n')
    return path


def pictures(folder: pathlib.Path, size: tuple[int, int]) -> list[tuple[pathlib.Path, np.ndarray]]:
    made, rng = [], np.random.default_rng(52)
    for name in ("first", "second"):
        pixels = rng.integers(0, 256, (*size, 3)).astype(np.uint8)
        path = folder / f"{name}.ppm"
        header = b"P6 %d %d 255\n" % size[::-1]
        path.write_bytes(header + pixels[..., ::-1].tobytes())
        made.append((path, pixels))
    return made


def outputs_of(xmodel: pathlib.Path, images: dict[str, np.ndarray], rounding) -> dict:
    """Return outputs as elements and as real values, for pixels of the inputs."""
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(xmodel))
    with Runner(dpu, device="iss") as runner:
        arrays = []
        for tensor in runner.get_input_tensors():
            (name,) = [name for name in images if name in tensor.name]
            factor = SCALE * np.float32(2.0 ** tensor.get_attr("fix_point"))
            whole = rounding((images[name] - MEAN) * factor).astype(np.int64).astype(np.int8)
            arrays.append(np.ascontiguousarray(whole[None, ..., ::-1]))
        given = runner.run(arrays)
        points = {t.name: t.get_attr("fix_point") for t in runner.get_output_tensors()}
    return {
        name: (array, np.ldexp(np.float64(array), -points[name])) for name, array in given.items()
    }


def test_how_pixels_move(program, flow_model, tmp_path):
    path = prepared(flow_model, tmp_path, ("before", "after"))
    (first, before), (second, after) = pictures(tmp_path, (SIDE, SIDE))
    lines = run(program, "flow", path, first, second, tmp_path / "out").stdout.splitlines()
    named = outputs_of(path, {"before": before, "after": after}, np.trunc)
    (fine,) = [array for name, (array, _) in named.items() if "fine" in name]
    assert np.ptp(fine.astype(int)) > 50
    name, *size = lines[0].split()
    assert "fine" in name and size[:3] == ["6", "6", "2"]
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out", np.int8), fine.ravel())
    assert lines[1:] == ["2", "2 first images, but 1 second ones given"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("before",), "the .prototxt must have two kernels, which name the inputs"),
        (("before", "then"), "kernel then of the .prototxt is in no input's name"),
    ],
)
def test_kernels_that_name_no_inputs(program, flow_model, tmp_path, names, message):
    path = prepared(flow_model, tmp_path, names)
    done = run(program, "flow", path, "a", "b", tmp_path / "out", check=False)
    assert done.returncode == 3 and message in done.stderr


@pytest.mark.parametrize("size", [(SIDE, SIDE), (14, 20), (40, 61), (15, 50)])
def test_pixels_with_depth(program, depth_model, tmp_path, size):
    path = prepared(depth_model, tmp_path, ("net",))
    (first, image), (second, depth) = pictures(tmp_path, size)
    line = run(program, "depth", path, first, second, tmp_path / "out").stdout
    assert line == f"{size[1]} {size[0]}\n"

    tensors = [t.name for t in sorted(
        Runner(dpu_subgraphs(xir.Graph.deserialize(path))[0], device="ref").get_input_tensors(),
        key=lambda t: t.name)]  # fmt: skip
    order = [next(n for n in ("before", "after") if n in name) for name in tensors]
    margin = [max(SIDE - length, 0) // 2 for length in size]
    more = [(m, max(SIDE - length - m, 0)) for m, length in zip(margin, size, strict=True)]
    whole = {name: np.pad(pixels, (*more, (0, 0)))
             for name, pixels in zip(order, (image, depth), strict=True)}  # fmt: skip
    height, width = whole[order[0]].shape[:2]
    sums = np.zeros((height, width, CLASSES))
    for top in starts(height):
        for left in starts(width):
            piece = np.s_[top : top + SIDE, left : left + SIDE]
            ((_, values),) = outputs_of(
                path, {n: p[piece] for n, p in whole.items()}, np.round
            ).values()
            sums[piece] += values[0]
    labels = sums[margin[0] : margin[0] + size[0], margin[1] : margin[1] + size[1]].argmax(-1)
    assert len(np.unique(labels)) > 2
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out", np.uint8), labels.ravel())


def starts(length: int) -> list[int]:
    stride = int(np.ceil(SIDE * 2 / 3))
    number = int(np.ceil((length - SIDE) / stride)) + 1
    return [min(i * stride, length - SIDE) for i in range(number)]


def test_depths_of_another_size(program, depth_model, tmp_path):
    path = prepared(depth_model, tmp_path, ("net",))
    (first, _), _ = pictures(tmp_path, (SIDE, SIDE))
    other = tmp_path / "other"
    other.mkdir()
    (second, _), _ = pictures(other, (SIDE, SIDE + 1))
    done = run(program, "depth", path, first, second, tmp_path / "out", check=False)
    assert done.returncode == 3
    assert "an image and its depth must have three channels of 8 bits and one size" in done.stderr
