# SPDX-License-Identifier: Apache-2.0
"""MediaPipe's own operators in TFLite files, against their definitions, in loops over pixels.

LiteRT does not have them; of the transposed convolution it has one that computes the same.
"""

import struct

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")

from flatbuffers import flexbuffers
from tflite_files import Network, litert, options, schema

from opendpu.frontend.tflite import load_tflite
from opendpu.ops.session import Session
from opendpu_arch.errors import UnsupportedError

SAME, VALID = 1, 2


def computed(net, tmp_path, feeds):
    graph = load_tflite(net.write(tmp_path / "custom.tflite", ["y"]))
    return Session(graph).run(feeds)["y"]


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "size"),
    [((2, 2), (2, 2), VALID, (10, 8)), ((3, 4), (2, 3), VALID, (11, 13)),
     ((2, 2), (2, 2), SAME, (9, 8)), ((4, 3), (3, 2), SAME, (14, 8))],
)  # fmt: skip
def test_transposed_convolution_with_bias(kernel, stride, padding, size, tmp_path, rng):
    shape = (1, 5, 4, 6)
    x = rng.standard_normal(shape).astype(np.float32)
    weights = rng.standard_normal((3, *kernel, 6)).astype(np.float32)
    bias = rng.standard_normal(3).astype(np.float32)
    net = Network()
    inputs = [net.data("x", shape), net.const("w", weights), net.const("b", bias)]
    net.op("Convolution2DTransposeBias", inputs, ["y"],
           custom=struct.pack("<3i", padding, stride[1], stride[0]))  # fmt: skip
    found = computed(net, tmp_path, {"x": x})
    if padding == VALID:
        same = Network()
        sizes = same.const("size", np.array([1, *size, 3], np.int32))
        given = [sizes, same.const("w", weights), same.data("x", shape), same.const("b", bias)]
        same.op("TRANSPOSE_CONV", given, ["y"],
                options("TransposeConv", padding=schema.Padding.VALID, strideH=stride[0],
                        strideW=stride[1]), version=3)  # fmt: skip
        wanted = litert(same.write(tmp_path / "same.tflite", ["y"]), {"x": x})["y"]
    else:
        cut = [max(0, k - (n - 1) % s - 1) for n, k, s in zip((5, 4), kernel, stride, strict=True)]
        wanted = scattered(x[0], weights, bias, stride, [c // 2 for c in cut], size)[None]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def scattered(x, weights, bias, stride, before, size):
    """Return what every pixel of ``x`` adds to the result: MediaPipe's loops."""
    result = np.tile(bias, (*size, 1)).astype(np.float64)
    for row, column in np.ndindex(*x.shape[:2]):
        for i, j in np.ndindex(*weights.shape[1:3]):
            at = row * stride[0] - before[0] + i, column * stride[1] - before[1] + j
            if 0 <= at[0] < size[0] and 0 <= at[1] < size[1]:
                result[at] += weights[:, i, j] @ x[row, column]
    return result


def matrix_of(turn, scale, shift):
    made = np.eye(4, dtype=np.float32)
    made[:2, :2] = scale * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    made[:2, 3] = shift
    return made[None]


def test_landmarks_are_moved(tmp_path, rng):
    matrix, points = matrix_of(0.4, 1.7, (3, -2)), rng.standard_normal((1, 9, 2)).astype(np.float32)
    net = Network()
    net.op("TransformLandmarks", [net.data("x", (1, 9, 2)), net.data("m", (1, 4, 4))], ["y"],
           version=2)  # fmt: skip
    found = computed(net, tmp_path, {"x": points, "m": matrix})
    full = np.concatenate([points[0], np.zeros((9, 1)), np.ones((9, 1))], -1) @ matrix[0].T
    np.testing.assert_allclose(found[0], full[:, :2], atol=1e-5)


def test_a_map_is_cut_out(tmp_path, rng):
    x = rng.standard_normal((1, 12, 10, 3)).astype(np.float32)
    matrix = matrix_of(0.3, 1.9, (-1.3, 0.4))
    net = Network()
    given = flexbuffers.Dumps({"output_height": 6, "output_width": 5})
    net.op("TransformTensorBilinear", [net.data("x", x.shape), net.data("m", (1, 4, 4))], ["y"],
           custom=given, version=2)  # fmt: skip
    found = computed(net, tmp_path, {"x": x, "m": matrix})
    wanted, outside = np.zeros((6, 5, 3)), 0
    for row, column in np.ndindex(6, 5):
        right, down, *_ = matrix[0] @ [column + 0.5, row + 0.5, 0, 1] - 0.5
        if not (0 <= right <= 9 and 0 <= down <= 11):
            outside += 1
            continue
        left, up = int(right), int(down)
        for i, j in np.ndindex(2, 2):
            share = (down - up if i else 1 - down + up) * (right - left if j else 1 - right + left)
            if share:
                wanted[row, column] += share * x[0, up + i, left + j]
    assert 0 < outside < 30
    np.testing.assert_allclose(found[0], wanted, atol=1e-4)


@pytest.mark.parametrize("target", [0.0, 0.7])
def test_where_landmarks_are(target, tmp_path, rng):
    points = rng.uniform(5, 40, (1, 20, 3)).astype(np.float32)
    subset, (height, width), (across, down) = [1, 4, 4, 7, 12, 19], (16, 8), (1.5, 1.25)
    given = {"left_rotation_idx": 3, "right_rotation_idx": 8, "subset_idxs": subset,
             "output_height": height, "output_width": width, "scale_x": across, "scale_y": down,
             "target_rotation_radians": target}  # fmt: skip
    net = Network()
    net.op("Landmarks2TransformMatrix", [net.data("x", points.shape)], ["y"],
           custom=flexbuffers.Dumps(given), version=2)  # fmt: skip
    found = computed(net, tmp_path, {"x": points})
    plane = points[0, :, :2].astype(np.float64)
    wide = plane[8] - plane[3]
    angle = target - np.arctan2(wide[1], wide[0])

    def turning(by):
        return np.array([[np.cos(by), -np.sin(by)], [np.sin(by), np.cos(by)]])

    turned = plane[subset] @ turning(angle).T
    low, high = turned.min(0), turned.max(0)
    wanted = np.eye(4)
    wanted[:2, :2] = turning(-angle) * ((high - low) * (across, down) / (width, height))
    wanted[:2, 3] = turning(-angle) @ ((low + high) / 2) - wanted[:2, :2] @ (width / 2, height / 2)
    np.testing.assert_allclose(found[0], wanted, atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "custom", "version", "reason"),
    [("TransformLandmarks", b"", 1, "version 1 is not supported, but 2 is"),
     ("TransformTensorBilinear", b"\x01\x02", 2, "its options cannot be read"),
     ("TransformTensorBilinear", flexbuffers.Dumps({"output_width": 3}), 2,
      "its options do not say output_height"),
     ("Convolution2DTransposeBias", b"", 1, "its options have 0 bytes, not 12 or more")],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(kind, custom, version, reason, tmp_path):
    net = Network()
    net.op(kind, [net.data("x", (1, 4, 4, 2)), net.data("m", (1, 4, 4))], ["y"], custom=custom,
           version=version)  # fmt: skip
    with pytest.raises(UnsupportedError, match=reason):
        load_tflite(net.write(tmp_path / "odd.tflite", ["y"]))
