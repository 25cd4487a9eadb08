# SPDX-License-Identifier: Apache-2.0
"""Inputs that always have one value, of ONNX and of frozen graphs: results and what is refused."""

import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_text import parse

from opendpu.frontend import load_model, load_onnx
from opendpu.ops.session import Session
from opendpu_arch.errors import UnsupportedError

MODEL = """
switched (float[1,3,6,6] x, bool training, float gain, float[1,"c",1,1] mask, int64[2] sizes)
    => (float[1,3,h,w] y)
<float[3,3,1,1] w, float[1] half = {0.5}>
{
    c = Conv(x, w)
    s = If(training) <
        then_branch = noisy () => (float[1,3,6,6] n) { n = Mul(c, half) },
        else_branch = plain () => (float[1,3,6,6] p) { p = Identity(c) }
    >
    g = Mul(s, gain)
    m = Mul(g, mask)
    begin = Constant <value_ints = [0, 0]> ()
    axes = Constant <value_ints = [2, 3]> ()
    y = Slice(m, begin, sizes, axes)
}
"""
VALUES = {"training": False, "gain": 1.5, "mask": [1.0, 0.0, 2.0], "sizes": [4, 5]}


@pytest.fixture
def model(tmp_path: pathlib.Path, rng: np.random.Generator) -> pathlib.Path:
    made = parse(MODEL)
    del made.graph.initializer[:]
    weights = {
        "w": rng.standard_normal((3, 3, 1, 1)).astype(np.float32),
        "half": np.array([0.5], np.float32),
    }
    made.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in weights.items())
    path = tmp_path / "switched.onnx"
    onnx.save(made, path)
    return path


@pytest.mark.parametrize("training", [False, True])
def test_results_are_those_of_onnxruntime_with_these_inputs(
    model: pathlib.Path, rng: np.random.Generator, training: bool
) -> None:
    x = rng.standard_normal((1, 3, 6, 6)).astype(np.float32)
    fed = {
        "x": x, "training": np.array(training), "gain": np.array(1.5, np.float32),
        "mask": np.array([1, 0, 2], np.float32).reshape(1, 3, 1, 1), "sizes": np.array([4, 5]),
    }  # fmt: skip
    (wanted,) = onnxruntime.InferenceSession(str(model)).run(None, fed)
    graph = load_onnx(model, {"c": 3}, input_values={**VALUES, "training": training})
    assert [node.name for node in graph if node.kind == "data"] == ["x"]
    (found,) = Session(graph).run({"x": x.transpose(0, 2, 3, 1)}).values()
    np.testing.assert_allclose(found.transpose(0, 3, 1, 2), wanted, rtol=1e-5, atol=1e-6)


def test_an_array_says_the_sizes_of_its_input(model: pathlib.Path) -> None:
    mask = np.ones((1, 3, 1, 1), np.float32)
    graph = load_onnx(model, input_values={**VALUES, "mask": mask})
    assert graph["y"].shape == (1, 4, 5, 3)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"trainin": 0}, r"has input 'trainin', but the inputs are: x: \[1, 3, 6, 6\]; training"),
        ({"w": 0}, "has input 'w'.*but the inputs are: x"),
        ({"": 0}, "has one value without a name, but the inputs are"),
        ({"training": 2}, "gives 2 for input 'training', but it must be of bool: true, false"),
        ({"gain": "much"}, "gives much for input 'gain', but it must be numbers or bools"),
        ({"sizes": [1.5, 2]}, r"gives \[1.5 2. \] for input 'sizes', but it must be of int64"),
        ({"sizes": [1, 2, 3]}, r"shape \[3\] for input 'sizes', but the model has \[2\]"),
        ({"mask": np.ones((1, 3, 2, 1))}, r"shape \[1, 3, 2, 1\] for input 'mask'"),
        ({"x": 0}, "has all inputs, and leaves nothing to compute"),
        (
            {"sizes": [[n] * (1 + n % 2) for n in range(15)]},
            r"gives \[\[0\], \[1, 1\], .*… for input 'sizes', but",
        ),
        ({"gain": 1e60}, r"gives 1e\+60 for input 'gain', but it must be of float32: numbers from"),
        ({"gain": -(10**50)}, "for input 'gain', but it must be numbers or bools"),
        ({"sizes": [4.0, float("nan")]}, "for input 'sizes', but it must be of int64: integers"),
        ({"sizes": [4.0, 2.0**63]}, "for input 'sizes', but it must be of int64: integers"),
    ],
)
def test_what_does_not_fit(model: pathlib.Path, given: dict[str, object], text: str) -> None:
    with pytest.raises(UnsupportedError, match=text):
        load_onnx(model, {"c": 3}, input_values={**VALUES, **given})


def test_whole_numbers_may_be_written_as_floats(model: pathlib.Path) -> None:
    graph = load_onnx(model, {"c": 3}, input_values={**VALUES, "sizes": np.array([4.0, 5.0])})
    assert graph["y"].shape == (1, 4, 5, 3)


def test_a_value_that_is_not_finite_stays_one(model: pathlib.Path) -> None:
    graph = load_onnx(model, {"c": 3}, input_values={**VALUES, "gain": float("inf")})
    assert [node.name for node in graph if node.kind == "data"] == ["x"]


def test_the_largest_integer_of_a_type(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "clipped.onnx"
    onnx.save(
        parse("clipped (float[2] x, int64 most) => (float[2] y) "
              "{ m = Cast <to = 1> (most) y = Min(x, m) }"), path,
    )  # fmt: skip
    graph = load_onnx(path, input_values={"most": np.iinfo(np.int64).max})
    assert [node.name for node in graph if node.kind == "data"] == ["x"]


@pytest.mark.parametrize("ending", [".pt2", ".prototxt"])
def test_formats_whose_inputs_stay(tmp_path: pathlib.Path, ending: str) -> None:
    path = tmp_path / f"model{ending}"
    path.write_bytes(b"")
    with pytest.raises(UnsupportedError, match="option 'input_value' is not for"):
        load_model(path, {}, input_values={"x": 0})
