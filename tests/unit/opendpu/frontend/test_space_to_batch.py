# SPDX-License-Identifier: Apache-2.0
"""Dilated convolutions of TensorFlow, as tf2onnx writes them, are one convolution."""

import numpy as np
import onnx
import pytest
from onnx_text import compare, parse

SPLIT = "a = Transpose <perm = [1, 0, 2, 3]> (p)  b = SpaceToDepth <blocksize = {b}> (a)"
CONV = "d = Conv <kernel_shape = [3, 3]> (c, w)"
JOIN = "e = Transpose <perm = [1, 0, 2, 3]> (d)  f = DepthToSpace <blocksize = {b}> (e)"
CUT = "g = Slice (f, low, high, axes)  h = Add (g, bias)"
END = "y = Transpose <perm = [1, 0, 2, 3]> ({last})"
EXCHANGED = "c = Transpose <perm = [1, 0, 2, 3]> (b)"


def model(body: str, *, channels: int, block: int, out: str, samples: int = 1) -> onnx.ModelProto:
    """Return a model of a body between the padded input ``p`` and the result ``y``."""
    size = 6 * block
    text = f"""g (float[{samples}, {channels}, {size}, {size}] x) => (float[{out}] y)
      <int64[2] low = {{0, 0}}, int64[2] high = {{{4 * block - 1}, {4 * block - 2}}},
       int64[2] axes = {{2, 3}}, int64[6] apart = {{1, 1, {block * block}, 6, 6, 1}},
       int64[4] phases = {{{block * block}, 1, 6, 6}}>
      {{ p = Abs (x) {body.replace("{b}", str(block))} }}"""
    proto = parse(text)
    rng = np.random.default_rng(3)
    for name, shape in (("w", (5, channels, 3, 3)), ("bias", (5, 1, 1, 1))):
        values = rng.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return proto


def dilations(graph) -> list[list[int]]:
    kinds = ("transpose", "reshape", "conv2d", "data", "const", "strided_slice")
    assert {n.kind for n in graph} <= {*kinds, "onnx", "add"}
    return [n.attrs["dilation"] for n in graph if n.kind == "conv2d"]


@pytest.mark.parametrize("block", [2, 3])
@pytest.mark.parametrize("samples", [1, 2])
def test_phases_of_several_channels(block: int, samples: int, rng: np.random.Generator) -> None:
    body = " ".join([SPLIT, EXCHANGED, CONV, JOIN, END.format(last="f")])
    out = f"{samples}, 5, {4 * block}, {4 * block}"
    proto = model(body, channels=4, block=block, out=out, samples=samples)
    assert dilations(compare(proto, rng)) == [[block, block]]


def test_padding_that_is_cut_off_and_a_bias_go_along(rng: np.random.Generator) -> None:
    body = " ".join([SPLIT, EXCHANGED, CONV, JOIN, CUT, END.format(last="h")])
    graph = compare(model(body, channels=4, block=2, out="1, 5, 7, 6"), rng)
    assert dilations(graph) == [[2, 2]]
    (conv,) = [node for node in graph if node.kind == "conv2d"]
    assert conv.inputs.get("bias")
    assert not [node for node in graph if node.kind == "add"]


def test_one_channel_whose_axes_are_exchanged_by_views(rng: np.random.Generator) -> None:
    """Two convolutions read the same phases."""
    views = "u = Reshape (b, apart)  c = Reshape (u, phases)"
    second = "d2 = Conv <kernel_shape = [3, 3]> (c, w)  e2 = Transpose <perm = [1, 0, 2, 3]> (d2)"
    body = " ".join([
        SPLIT, views, CONV, JOIN, second, "f2 = DepthToSpace <blocksize = {b}> (e2)",
        "s = Add (f, f2)", END.format(last="s"),
    ])  # fmt: skip
    graph = compare(model(body, channels=1, block=2, out="1, 5, 8, 8"), rng)
    assert dilations(graph) == [[2, 2]] * 2


def test_phases_that_are_padded_are_no_dilation(rng: np.random.Generator) -> None:
    body = " ".join([SPLIT, EXCHANGED, CONV, JOIN, END.format(last="f")])
    body = body.replace("kernel_shape = [3, 3]", "kernel_shape = [3, 3], pads = [1, 1, 1, 1]")
    graph = compare(model(body, channels=4, block=2, out="1, 5, 12, 12"), rng)
    assert [n.attrs["dilation"] for n in graph if n.kind == "conv2d"] == [[1, 1]]


def test_phases_that_another_node_reads_stay(rng: np.random.Generator) -> None:
    body = " ".join([
        SPLIT, EXCHANGED, CONV, JOIN, "m = ReduceMax (d)  s = Add (f, m)", END.format(last="s"),
    ])  # fmt: skip
    graph = compare(model(body, channels=4, block=2, out="1, 5, 8, 8"), rng)
    assert [n.attrs["dilation"] for n in graph if n.kind == "conv2d"] == [[1, 1]]
