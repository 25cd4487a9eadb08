# SPDX-License-Identifier: Apache-2.0
"""Normalizations, means and resizes as JAX's libraries and Keras write them, channels last."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.parser import parse_model

from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.ops.foreign import KIND, label_of
from opendpu.ops.session import Session

FAST = """
  mean = ReduceMean (x, axes)
  square = Mul (x, x)
  moment = ReduceMean (square, axes)
  below = Mul (mean, mean)
  rest = Sub (moment, below)
  variance = Max (rest, zero)
  sum = Add (variance, epsilon)
  root = Sqrt (sum)
"""
"""The variance by second moments, as Flax has it."""
PLAIN = """
  mean = ReduceMean (x, axes)
  differs = Sub (x, mean)
  square = Mul (differs, differs)
  variance = ReduceMean (square, axes)
  sum = Add (variance, epsilon)
  root = Sqrt (sum)
"""
QUOTIENT = "centred = Sub (x, mean)  y = Div (centred, root)"
SCALED_FIRST = """
  inverse = Reciprocal (root)  factor = Mul (inverse, scale)  centred = Sub (x, mean)
  product = Mul (centred, factor)  y = Add (product, bias)
"""
SHIFTED = """
  inverse = Reciprocal (root)  factor = Mul (inverse, scale)  product = Mul (x, factor)
  less = Mul (mean, factor)  shift = Sub (bias, less)  y = Add (product, shift)
"""


def model(body: str, shape: tuple[int, ...], axes: tuple[int, ...], affine: tuple[int, ...] = (),
          inside: str = "", out: tuple[int, ...] = ()) -> onnx.ModelProto:  # fmt: skip
    """Return a model of ``x`` and ``y``; scale and bias have the shape ``affine``."""
    random = np.random.default_rng(5)
    found = parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]>
        norm (float[{",".join(map(str, shape))}] given) =>
        (float[{",".join(map(str, out or shape))}] result)
        <float epsilon = {{0.001}}, float zero = {{0}}, int64[{len(axes)}] axes =
        {{{",".join(map(str, axes))}}}>
        {{ {inside or "x = Identity (given)"} {body} {"" if out else "result = Identity (y)"} }}"""
    )
    for name, low in (("scale", 0.5), ("bias", -1.0)):
        value = random.uniform(low, 2, affine).astype(np.float32)
        found.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    onnx.checker.check_model(found)
    return found


def loaded(proto: onnx.ModelProto) -> FloatGraph:
    """Return the graph of a model, which computes what onnxruntime does."""
    graph = load_onnx(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (given,) = session.get_inputs()
    x = np.random.default_rng(6).standard_normal(given.shape).astype(np.float32) + 0.5
    (wanted,) = session.run(None, {given.name: x})
    orders = graph.attrs.get("onnx_order", {})
    order = orders.get("given")
    feed = x if order is None else np.ascontiguousarray(x.transpose(order))
    (found,) = Session(graph).run({"given": feed}).values()
    back = orders.get("result")
    found = found if back is None else found.transpose(np.argsort(back))
    np.testing.assert_allclose(found, wanted, atol=2e-5, rtol=1e-4)
    return graph


def labels(graph: FloatGraph) -> list[str]:
    return [label_of(node) for node in graph if node.kind == KIND]


ROWS = ((2, 5, 24), (2,), (24,))
GROUPS_LAST = ((1, 4, 6, 3, 8), (1, 2, 4), (1, 1, 1, 3, 8))
GROUPS_FIRST = ((1, 3, 8, 4, 6), (2, 3, 4), (1, 3, 8, 1, 1))
EACH_LAST = ((1, 4, 6, 8), (1, 2), (8,))
EACH_FIRST = ((1, 8, 4, 6), (2, 3), (8, 1, 1))
FORMS = {"rows": ROWS, "groups last": GROUPS_LAST, "groups first": GROUPS_FIRST,
         "each last": EACH_LAST, "each first": EACH_FIRST}  # fmt: skip


@pytest.mark.parametrize("variance", [FAST, PLAIN], ids=["moments", "plain"])
@pytest.mark.parametrize("end", [QUOTIENT, SCALED_FIRST, SHIFTED], ids=["div", "first", "shift"])
@pytest.mark.parametrize("form", FORMS)
def test_it_is_one_operator(form: str, end: str, variance: str) -> None:
    found = loaded(model(variance + end, *FORMS[form]))
    kinds = Counter(node.kind for node in found)
    if form == "rows":
        assert labels(found) == ["LayerNormalization"]
    else:
        assert kinds["groupnorm"] == 1
    assert kinds.keys() <= {"data", "const", KIND, "groupnorm", "transpose", "reshape", "identity"}


@pytest.mark.parametrize(
    ("change", "to"),
    [
        ("square = Mul (x, x)", "square = Mul (x, mean)"),
        ("rest = Sub (moment, below)", "rest = Sub (below, moment)"),
        ("variance = Max (rest, zero)", "variance = Max (rest, epsilon)"),
        ("below = Mul (mean, mean)", "other = Neg (mean)  below = Mul (mean, other)"),
    ],
)
def test_other_moments_stay(change: str, to: str) -> None:
    assert change in FAST
    body = FAST.replace(change, to) + QUOTIENT
    assert "LayerNormalization" not in str(labels(load_onnx(model(body, *ROWS))))


@pytest.mark.parametrize("affine", [(1, 1, 1, 3, 1), (1, 1, 1, 1, 8), (1,)])
def test_scales_by_group_or_by_place_in_one(affine: tuple[int, ...]) -> None:
    shape, axes, _ = GROUPS_LAST
    found = loaded(model(PLAIN + SCALED_FIRST, shape, axes, affine))
    assert [node.kind for node in found].count("groupnorm") == 1


def test_scales_by_row_stay() -> None:
    shape, axes, _ = GROUPS_LAST
    found = loaded(model(PLAIN + SCALED_FIRST, shape, axes, (1, 4, 1, 1, 1)))
    assert "groupnorm" not in {node.kind for node in found}


@pytest.mark.parametrize(
    ("body", "is_mean"),
    [
        ("s = ReduceSum <keepdims=0> (x, axes)  c = Constant <value_float=24.0> ()"
         " result = Div (s, c)", True),
        ("s = ReduceSum <keepdims=0> (x, axes)  c = Constant <value_float=0.041666668> ()"
         " result = Mul (c, s)", True),
        ("s = ReduceSum <keepdims=0> (x, axes)  c = Constant <value_float=23.0> ()"
         " result = Div (s, c)", False),
        ("s = ReduceSum <keepdims=0> (x, axes)  c = Constant <value_float=24.0> ()"
         " result = Div (c, s)", False),
    ],
)  # fmt: skip
def test_sums_over_their_count_are_means(body: str, is_mean: bool) -> None:
    graph = loaded(model(body, (1, 4, 6, 8), (1, -2), out=(1, 8)))
    assert ("reduction_mean" in {node.kind for node in graph}) == is_mean


@pytest.mark.parametrize("how", ["scales", "sizes"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resizes_of_channels_last(how: str, mode: str) -> None:
    inputs, kind = ("x, , s", "floats=[1.0, 2.0, 2.0, 1.0]") if how == "scales" else (
        "x, , , s", "ints=[1, 8, 12, 8]"
    )  # fmt: skip
    body = (
        f's = Constant <value_{kind}> ()  result = Resize <mode="{mode}", '
        f'coordinate_transformation_mode="asymmetric", nearest_mode="floor"> ({inputs})'
    )
    graph = loaded(model(body, (1, 4, 6, 8), (1,), out=(1, 8, 12, 8)))
    assert {node.kind for node in graph} <= {"data", "resize", "identity", "const"}
