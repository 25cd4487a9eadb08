# SPDX-License-Identifier: Apache-2.0
"""The end of detectors, which LiteRT has too though it is no operator of TFLite."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")

from flatbuffers import flexbuffers
from tflite_files import Network, litert

from opendpu.frontend.tflite import load_tflite
from opendpu.ops.session import Session
from opendpu_arch.errors import UnsupportedError

KIND = "TFLite_Detection_PostProcess"
ANCHORS, CLASSES = 40, 3
OPTIONS = {
    "max_detections": 6, "max_classes_per_detection": 1, "detections_per_class": 4,
    "use_regular_nms": False, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.5,
    "num_classes": CLASSES, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip


def detector(path, background=1, **changed):
    anchors = np.random.default_rng(3).uniform(0.1, 0.9, (ANCHORS, 4)).astype(np.float32)
    net = Network()
    given = [
        net.data("offsets", (1, ANCHORS, 4)),
        net.data("scores", (1, ANCHORS, CLASSES + background)), net.const("anchors", anchors),
    ]  # fmt: skip
    outputs = ["boxes", "classes", "best", "count"]
    given_options = bytes(flexbuffers.Dumps({**OPTIONS, **changed}))
    net.op(KIND, given, outputs, custom=given_options)
    return net.write(path / "detector.tflite", outputs)


@pytest.mark.parametrize("background", [0, 1])
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("lowest", [0.0, 0.3, 0.97, 2.0])
def test_boxes(by_class, lowest, background, tmp_path, rng):
    path = detector(tmp_path, background, use_regular_nms=by_class, nms_score_threshold=lowest)
    feeds = {
        "offsets": rng.standard_normal((1, ANCHORS, 4)).astype(np.float32),
        "scores": rng.uniform(0, 1, (1, ANCHORS, CLASSES + background)).astype(np.float32),
    }
    wanted, found = litert(path, feeds), Session(load_tflite(path)).run(feeds)
    count = int(wanted["count"][0])
    assert int(found["count"].ravel()[0]) == count
    for name in ("boxes", "classes", "best"):
        assert found[name].shape == wanted[name].shape
        np.testing.assert_allclose(
            found[name][:, :count], wanted[name][:, :count], atol=1e-5, err_msg=name
        )
        assert not found[name][:, count:].any()


def test_what_it_does_not_do(tmp_path):
    path = detector(tmp_path, max_classes_per_detection=2)
    with pytest.raises(UnsupportedError, match="max_classes_per_detection is 2, but must be 1"):
        load_tflite(path)
