# SPDX-License-Identifier: Apache-2.0
"""Sequences of tensors: what is known of them is tensors, and the rest stays a sequence."""

import numpy as np
import pytest
from onnx_text import compare, parse
from test_fallback import calls, kinds, with_weights

from opendpu.frontend import load_onnx

NUMBERS = {
    "zero": np.array(0), "two": np.array(2), "last": np.array(-1), "three": np.array(3),
    "sizes": np.array([1, 5, 2]),
}  # fmt: skip


def check(rng, body, opset=17, feeds=None, inputs="float[2,3,8] x", types="float[N] y"):
    """Compare what a body in text computes with onnxruntime; return the graph."""
    model = parse(f"g ({inputs}) => ({types}) {{ {body} }}", opset)
    with_weights(model, **{n: a for n, a in NUMBERS.items() if n in body})
    return compare(model, rng, feeds=feeds)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("s = SplitToSequence<axis=2>(x, three) a = SequenceAt(s, two) y = Relu(a)", (2, 3, 2)),
        ("s = SplitToSequence<axis=-1>(x, sizes) a = SequenceAt(s, last) y = Relu(a)", (2, 3, 2)),
        ("s = SplitToSequence<axis=1>(x) a = SequenceAt(s, last) y = Relu(a)", (2, 1, 8)),
        ("s = SplitToSequence<axis=1, keepdims=0>(x) a = SequenceAt(s, zero) y = Relu(a)", (2, 8)),
        ("r = Relu(x) s = SequenceConstruct(x, r) t = SequenceInsert(s, r, last) "
         "y = ConcatFromSequence<axis=1>(t)", (2, 9, 8)),
        ("r = Relu(x) s = SequenceEmpty() t = SequenceInsert(s, x) u = SequenceInsert(t, r, zero) "
         "y = ConcatFromSequence<axis=-1, new_axis=1>(u)", (2, 3, 8, 2)),
        ("r = Relu(x) s = SequenceConstruct(x, r, x) t = SequenceErase(s, zero) "
         "u = SequenceErase(t) y = SequenceAt(u, zero)", (2, 3, 8)),
        ("s = SplitToSequence<axis=2>(x) n = SequenceLength(s) f = Cast<to=1>(n) y = Mul(x, f)",
         (2, 3, 8)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("opset", [11, 17])
def test_known_members_are_tensors(rng, body, shape, opset):
    graph = check(rng, body, opset)
    assert graph["y"].shape == shape
    assert not any("Sequence" in name for call in calls(graph) for name in call)


def test_optional_values_that_are_there_are_what_they_hold(rng):
    graph = check(
        rng,
        "h = SequenceConstruct(x) i = Identity(h) a = SequenceAt(i, zero) r = Relu(a) "
        "o = Optional(r) b = OptionalHasElement(o) e = OptionalGetElement(o) "
        "y = If(b) <then_branch = t () => (float[2,3,8] n) { n = Neg(e) }, "
        "else_branch = f () => (float[2,3,8] c) { c = Identity(e) }>",
    )
    assert "onnx" not in kinds(graph)


@pytest.mark.parametrize("place", [0, 2])
def test_members_at_an_unknown_place_are_those_of_a_sequence(rng, place):
    """What is known of the members until then is written as the sequence that it is."""
    graph = check(
        rng,
        "s = SplitToSequence<axis=1>(x) e = SequenceAt(s, zero) r = Relu(e) "
        "t = SequenceInsert(s, r) y = SequenceAt(t, place)",
        inputs="float[2,3,8] x, int64 place", feeds={"place": np.array(place)},
    )  # fmt: skip
    assert any("SequenceConstruct" in call for call in calls(graph))


def test_an_empty_sequence_has_its_element_type(rng):
    graph = check(
        rng,
        "s = SequenceEmpty<dtype=7>() p = Cast<to=7>(x) t = If(b) "
        "<then_branch = a () => (seq(int64[N]) u) { u = SequenceInsert(s, p) }, "
        "else_branch = f () => (seq(int64[N]) v) { v = SequenceConstruct(p, p) }> "
        "y = SequenceAt(t, last)",
        inputs="float[2,3,8] x, bool b", types="int64[2,3,8] y", feeds={"b": np.array(True)},
    )  # fmt: skip
    assert len(calls(graph)) == 1


@pytest.mark.parametrize("count", ["two", "last"])
def test_places_outside_are_onnxruntime_s(rng, count):
    """The file is wrong for these shapes only: it loads, and says so when it runs."""
    model = parse(
        "g (float[2,3,8] x) => (float[2,3,8] y) "
        f"{{ s = SequenceConstruct(x) t = SequenceErase(s) y = SequenceAt(t, {count}) }}"
    )
    with_weights(model, **{count: NUMBERS[count]})
    assert kinds(load_onnx(model)) == ["onnx"]
