# SPDX-License-Identifier: Apache-2.0
"""GroupNorm, InstanceNorm and vectors over their lengths in the spellings of exporters."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from opendpu.frontend import load_onnx
from opendpu.ops.session import Session

RNG = np.random.default_rng(5)
SIZES = {3: (1, 12, 7), 4: (1, 12, 5, 6)}
CHANNELS = 12


def floats(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 2, shape).astype(np.float32)


def parsed(
    text: str, size_of_x: tuple[int, ...], opset: int, **arrays: np.ndarray
) -> onnx.ModelProto:
    size = ", ".join(map(str, size_of_x))
    proto = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : {opset}]>
        g (float[{size}] x) => (float[{size}] y) {{ {text} }}""")
    for name, array in arrays.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return proto


def kinds(proto: onnx.ModelProto, samples: int = 1) -> list[str]:
    """Return the kinds of ops; what they compute is compared with ONNX's reference."""
    graph = load_onnx(proto)
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    x = RNG.standard_normal((samples, *shape[1:])).astype(np.float32) + 0.3
    order = graph.attrs.get("onnx_order", {})
    axes = order.get("x", range(len(shape)))
    given = x.transpose(axes).reshape(samples, *graph["x"].shape[1:])
    y = Session(graph, batched=True).run({"x": given})["y"]
    evaluator = ReferenceEvaluator(proto)
    wanted = np.concatenate([evaluator.run(["y"], {"x": one[None]})[0] for one in x])
    back = np.argsort(order["y"]) if "y" in order else range(y.ndim)
    y = y.transpose(back).reshape(wanted.shape)
    np.testing.assert_allclose(y, wanted, rtol=2e-4, atol=2e-4)
    moving = ("data", "const", "reshape", "transpose")
    return [node.kind for node in graph if node.kind not in moving]


GROUPS = """
    r = Reshape(x, groups)
    i = InstanceNormalization <epsilon = 0.001> (r, ones, zeros)
    {end}"""


def grouped(end: str, rank: int = 4, opset: int = 13, **changed: np.ndarray) -> onnx.ModelProto:
    """Return PyTorch's GroupNorm of three groups."""
    arrays = {
        "groups": np.int64([0, 3, -1]), "ones": np.ones(3, np.float32),
        "zeros": np.zeros(3, np.float32), "shape": np.int64(SIZES[rank]),
        "w": floats(CHANNELS, *[1] * (rank - 2)), "b": floats(CHANNELS, *[1] * (rank - 2)),
    }  # fmt: skip
    return parsed(GROUPS.format(end=end), SIZES[rank], opset, **(arrays | changed))


@pytest.mark.parametrize("opset", [11, 17, 20])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize(
    "end",
    [
        "s = Reshape(i, shape) m = Mul(s, w) y = Add(m, b)",
        "s = Reshape(i, shape) m = Mul(w, s) y = Add(b, m)",
        "s = Reshape(i, shape) y = Mul(s, w)",
        "y = Reshape(i, shape)",
    ],
)
def test_group_normalization(end: str, rank: int, opset: int) -> None:
    assert kinds(grouped(end, rank, opset), samples=3) == ["groupnorm"]


def test_scales_of_groups_and_channels() -> None:
    end = "s = Reshape(i, shape) m = Mul(s, w) y = Add(m, b)"
    proto = grouped(end, ones=floats(3), zeros=floats(3))
    assert kinds(proto) == ["groupnorm"]


@pytest.mark.parametrize(
    ("end", "changed"),
    [
        ("s = Reshape(i, shape) z = Mul(s, w) y = Add(z, s)", {}),
        ("s = Reshape(i, shape) q = Reshape(i, shape) y = Add(s, q)", {}),
        ("s = Reshape(i, shape) y = Mul(s, w)", {"w": floats(1, 1, 5, 6)}),
        ("s = Reshape(i, shape) y = Mul(s, w)", {"w": floats(6)}),
        ("k = Relu(i) y = Reshape(k, shape)", {}),
    ],
)
def test_groups_that_are_not_all(end: str, changed: dict[str, np.ndarray]) -> None:
    """What else reads, or is no number a channel, stays outside and keeps its value."""
    kinds(grouped(end, **changed))


@pytest.mark.parametrize(("opset", "size"), [(18, 3), (21, CHANNELS)])
def test_the_operator_itself(opset: int, size: int) -> None:
    text = "y = GroupNormalization <num_groups = 3, epsilon = 0.001> (x, w, b)"
    proto = parsed(text, SIZES[4], opset, w=floats(size), b=floats(size))
    assert kinds(proto) == ["groupnorm"]


@pytest.mark.parametrize("rank", [3, 4])
def test_instance_normalization(rank: int) -> None:
    text = "y = InstanceNormalization <epsilon = 0.001> (x, w, b)"
    proto = parsed(text, SIZES[rank], 17, w=floats(CHANNELS), b=floats(CHANNELS))
    assert kinds(proto, samples=2) == ["instancenorm"]


NORMALIZED = {
    "PyTorch": "n = ReduceL2 <axes = [AXIS]> (x) c = Clip(n, least) e = Expand(c, shape) "
    "y = Div(x, e)",
    "no expansion": "n = ReduceL2 <axes = [AXIS]> (x) c = Clip(n, least) y = Div(x, c)",
    "maximum": "n = ReduceL2 <axes = [AXIS]> (x) c = Max(n, least) y = Div(x, c)",
    "no bound": "n = ReduceL2 <axes = [AXIS]> (x) y = Div(x, n)",
    "operator": "y = LpNormalization <axis = AXIS> (x)",
}


@pytest.mark.parametrize("axis", [-1, 1, 2])
@pytest.mark.parametrize("spelling", NORMALIZED)
def test_vectors_over_their_lengths(spelling: str, axis: int) -> None:
    text = NORMALIZED[spelling].replace("AXIS", str(axis))
    arrays = {"least": np.float32(1e-6), "shape": np.int64(SIZES[4])}
    used = {name: value for name, value in arrays.items() if name in text}
    assert kinds(parsed(text, SIZES[4], 17, **used), samples=2) == ["l2_normalize"]


@pytest.mark.parametrize(
    "text",
    [
        "n = ReduceL2 <axes = [1, 2]> (x) y = Div(x, n)",
        "z = Relu(x) n = ReduceL2 <axes = [1]> (z) y = Div(x, n)",
        "n = ReduceL2 <axes = [1]> (x) e = Expand(n, shape) d = Div(x, e) y = Add(d, e)",
    ],
)
def test_other_quotients(text: str) -> None:
    used = {"shape": np.int64(SIZES[4])} if "shape" in text else {}
    assert "l2_normalize" not in kinds(parsed(text, SIZES[4], 17, **used))
