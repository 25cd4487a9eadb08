# SPDX-License-Identifier: Apache-2.0
"""The AI Library's tracker in C++, against NumPy and SciPy's assignment."""

import pathlib
import sys

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

sys.path.append(str(pathlib.Path(__file__).parent))

from ai_library import run

SOURCE = pathlib.Path(__file__).with_name("cpp") / "texts.cpp"

pytestmark = [pytest.mark.system, pytest.mark.slow]

Detection = tuple[np.ndarray, float, int, np.ndarray]  # box, score, label, features


class Track:
    def __init__(self, detection: Detection) -> None:
        self.now, self.hits, self.unseen, self.id = 0, 0, 0, 0
        self.seen: list[tuple[int, float, float]] = []
        self.features = detection[3]
        self.learn(detection)

    def learn(self, detection: Detection) -> None:
        self.detection = detection
        x, y, w, h = detection[0]
        self.seen = [*self.seen, (self.now, x + w / 2, y + h / 2)][-3:]

    def advance(self) -> None:
        self.hits = 0 if self.unseen else self.hits
        self.now += 1
        self.unseen += 1

    def see(self, detection: Detection) -> None:
        self.unseen = 0
        self.hits += 1
        self.learn(detection)
        self.features = 0.9 * self.features + 0.1 * detection[3]

    @property
    def box(self) -> np.ndarray:
        times, *centres = np.transpose(self.seen)
        degree = min(len(times), 2) - 1
        middle = [np.polyval(np.polyfit(times, values, degree), self.now) for values in centres]
        size = self.detection[0][2:]
        return np.concatenate([middle - size / 2, size])


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.minimum(a[:2] + a[2:], b[:2] + b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    return common / (float(np.prod(a[2:])) + float(np.prod(b[2:])) - common)


def matched(tracks: list[Track], detections: list[Detection]) -> dict[int, int]:
    shape = len(tracks), len(detections)
    kinds = np.array([[t.detection[2] == d[2] for d in detections] for t in tracks], bool)
    kinds = kinds.reshape(shape)
    cost, apart, inside = np.ones(shape), np.full(shape, 2.0), np.zeros(shape, bool)
    for i, j in zip(*np.nonzero(kinds), strict=True):
        box, other = tracks[i].box, detections[j][0]
        cost[i, j] = 1 - overlap(box, other)
        apart[i, j] = np.linalg.norm(tracks[i].features - detections[j][3])
    for i, track in enumerate(tracks):
        for j, detection in enumerate(detections):
            centre = detection[0][:2] + detection[0][2:] / 2 - track.box[:2]
            inside[i, j] = (centre >= 0).all() and (centre <= track.box[2:]).all()
    pairs: dict[int, int] = {}

    def take(i: int, j: int) -> None:
        pairs[i] = j
        apart[i], apart[:, j] = 2, 2

    for i, j in zip(*linear_sum_assignment(cost), strict=True):
        if 1 - cost[i, j] >= 0.3 and apart[i, j] < 0.7:
            take(i, j)
        elif 1 - cost[i, j] >= 0.3 and apart[i, j] > 1:
            apart[i, j] = 2
    for most in (0.8, 1.0):
        for i, j in zip(*linear_sum_assignment(apart), strict=True):
            if apart[i, j] < most:
                take(i, j)
        apart[~inside] = 2
    return pairs


def expected(frames: list[list[Detection] | None]) -> list[list[float]]:
    tracks: list[Track] = []
    told, count = [], 0
    for number, detections in enumerate(frames, 1):
        for track in tracks:
            track.advance()
        if detections is not None:
            pairs = matched(tracks, detections)
            for i, j in pairs.items():
                tracks[i].see(detections[j])
            tracks += [Track(d) for j, d in enumerate(detections) if j not in pairs.values()]
        for track in reversed(tracks):
            if track.unseen == 0 and (track.hits >= 3 or number <= 3):
                if not track.id:
                    count += 1
                    track.id = count
                told.append([number, track.id, *track.box, *track.detection[1:3]])
        tracks = [track for track in tracks if track.unseen <= 60]
    return told


def walk(frames: int, *, silent: tuple[int, ...] = ()) -> list[list[Detection] | None]:
    """Return people who walk, cross, hide and come back, seen with noise."""
    rng = np.random.default_rng(41)
    people = rng.normal(0, 1, (7, 16))
    people /= np.linalg.norm(people, axis=1, keepdims=True)
    start, speed = rng.uniform(50, 500, (7, 2)), rng.uniform(-9, 9, (7, 2))
    made: list[list[Detection] | None] = []
    for frame in range(frames):
        detections = []
        for number in rng.permutation(7):
            hidden = number == 2 and 12 < frame < 20
            if hidden or rng.uniform() < 0.08:
                continue
            features = people[number] + rng.normal(0, 0.05, 16)
            place = start[number] + speed[number] * frame + rng.normal(0, 1, 2)
            size = np.array([40, 90]) + rng.normal(0, 1, 2)
            detections.append(
                (np.concatenate([place, size]), rng.uniform(0.5, 1), int(number % 2),
                 features / np.linalg.norm(features))
            )  # fmt: skip
        made.append(None if frame in silent else detections)
    return made


def saved(frames: list[list[Detection] | None], path: pathlib.Path) -> pathlib.Path:
    def one(detection: Detection) -> str:
        box, score, label, features = detection
        return (
            " ".join(repr(float(v)) for v in [*box, score])
            + f" {label} "
            + " ".join(repr(float(v)) for v in features)
        )

    lines = ["-" if frame is None else ";".join(map(one, frame)) for frame in frames]
    path.write_text("\n".join(lines) + "\n")
    return path


def told(lines: list[str]) -> np.ndarray:
    return np.array([[float(word) for word in line.split()] for line in lines])


@pytest.mark.parametrize("threads", [1, 2])
def test_people_who_walk(program, tmp_path, threads):
    frames = walk(60)
    lines = run(program, "track", saved(frames, tmp_path / "walk"), threads).stdout.splitlines()
    found, wanted = told(lines), np.array(expected(frames))
    found = found[np.argsort(found[:, 0], kind="stable")]  # threads print when they are done
    assert len(np.unique(wanted[:, 1])) >= 7
    np.testing.assert_allclose(found[:, :8], wanted, rtol=1e-4, atol=1e-2)
    assert (found[:, 8] >= 0).all()


def test_frames_without_detection(program, tmp_path):
    frames = walk(30, silent=(5, 6, 17))
    lines = run(program, "track", saved(frames, tmp_path / "walk"), 1).stdout.splitlines()
    np.testing.assert_allclose(told(lines)[:, :8], np.array(expected(frames)), rtol=1e-4, atol=1e-2)


def test_objects_that_end(program, tmp_path):
    feature = np.eye(4)[0]
    one: list[Detection] = [(np.array([1.0, 2, 3, 4]), 0.5, 0, feature)]
    path = saved([one, one, *[[] for _ in range(62)]], tmp_path / "end")
    lines = run(program, "track", path, 1).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["1", "1"], ["2", "1"], ["63", "ended"]]


def test_features_of_another_length(program, tmp_path):
    boxes = np.array([1.0, 2, 3, 4])
    frames: list[list[Detection] | None] = [
        [(boxes, 0.5, 0, np.eye(4)[0])], [(boxes, 0.5, 0, np.eye(3)[0])]
    ]  # fmt: skip
    done = run(program, "track", saved(frames, tmp_path / "walk"), 1, check=False)
    assert done.returncode == 3
    assert "features must be a row of floats, all of one length, but there are 1x3" in done.stderr
