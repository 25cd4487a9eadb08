# SPDX-License-Identifier: Apache-2.0
"""Normalizations of whole maps that programs write out: one operator, which computes the same."""

import numpy as np
import pytest
from test_feature_norms import CHANNELS, SIZES, floats, kinds, parsed

from opendpu.frontend import load_onnx
from opendpu.ops.foreign import KIND, label_of

MEAN = {
    "one": "{out} = ReduceMean <axes = [{axes}], keepdims = 1> ({x})",
    "steps": "{out}_0 = ReduceMean <axes = [1], keepdims = 1> ({x})\n"
    "{out} = ReduceMean <axes = [{rest}], keepdims = 1> ({out}_0)",
}
WHOLE = """
    {mean}
    c = Sub(x, m)
    {again}
    q = {square}
    {variance}
    e = Add(v, epsilon)
    r = {root}
    {end}"""


def whole(
    end: str, *, rank: int = 3, mean: str = "steps", axes: str = "", square: str = "Pow(c, two)",
    root: str = "Pow(e, half)", again: str = "", opset: int = 17, **changed: np.ndarray,
):  # fmt: skip
    every = ", ".join(map(str, range(1, rank)))
    axes, rest = axes or every, ", ".join(map(str, range(2, rank)))
    text = WHOLE.format(
        mean=MEAN[mean].format(out="m", x="x", axes=axes, rest=rest), again=again, square=square,
        variance=MEAN[mean].format(out="v", x="q", axes=axes, rest=rest), root=root, end=end,
    )  # fmt: skip
    arrays = {
        "two": np.float32(2), "half": np.float32(0.5), "four": np.float32(4),
        "epsilon": np.float32(1e-3),
        "w": floats(1, CHANNELS, *[1] * (rank - 2)), "b": floats(1, CHANNELS, *[1] * (rank - 2)),
    }  # fmt: skip
    return parsed(text, SIZES[rank], opset, **(arrays | changed))


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("mean", ["one", "steps"])
@pytest.mark.parametrize(
    "end",
    [
        "g = Mul(w, c) d = Div(g, r) y = Add(d, b)", "d = Div(c, r) s = Mul(d, w) y = Add(s, b)",
        "y = Div(c, r)", "g = Mul(c, w) y = Div(g, r)",
    ],
)  # fmt: skip
def test_of_all_axes(end, mean, rank):
    assert kinds(whole(end, mean=mean, rank=rank), samples=3) == ["groupnorm"]


@pytest.mark.parametrize(
    "changed",
    [{"square": "Mul(c, c)"}, {"root": "Sqrt(e)"}, {"again": "k = Sub(x, m)"}],
)
def test_in_other_words(changed):
    end = "d = Div({}, r) y = Add(d, b)".format("k" if "again" in changed else "c")
    assert kinds(whole(end, **changed)) == ["groupnorm"]


def test_without_epsilon():
    proto = whole("y = Div(c, r)", root="Sqrt(v)")
    (unused,) = (node for node in proto.graph.node if node.op_type == "Add")
    proto.graph.node.remove(unused)
    assert kinds(proto) == ["groupnorm"]


def test_over_space_alone_is_instance_normalization():
    proto = whole("g = Mul(w, c) d = Div(g, r) y = Add(d, b)", rank=4, mean="one", axes="2, 3")
    assert kinds(proto) in (["groupnorm"], ["instancenorm"])


def test_over_the_last_of_three_axes_is_layer_normalization():
    proto = whole("y = Div(c, r)", mean="one", axes="2", root="Sqrt(e)")
    (norm,) = (node for node in load_onnx(proto) if node.kind == KIND)
    assert label_of(norm) == "LayerNormalization"
    assert kinds(proto) == [KIND]


@pytest.mark.parametrize(
    ("end", "changed", "why"),
    [
        ("d = Div(c, r) y = Add(d, m)", {}, "the mean has another reader"),
        ("y = Div(x, r)", {}, "the mean is not taken away"),
        ("y = Div(c, e)", {}, "it is divided by the variance"),
        ("y = Div(c, r)", {"mean": "one", "axes": "1", "rank": 4}, "the axes are channels alone"),
        ("y = Div(c, r)", {"square": "Pow(c, four)"}, "there is no square"),
        ("y = Div(c, r)", {"epsilon": floats(1, CHANNELS, 1)}, "epsilon differs by channel"),
        ("y = Div(c, r)", {"root": "Pow(e, two)"}, "there is no root"),
    ],
)
def test_what_stays(end, changed, why):
    assert "groupnorm" not in kinds(whole(end, **changed)), why
