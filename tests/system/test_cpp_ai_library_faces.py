# SPDX-License-Identifier: Apache-2.0
"""FaceDetectRecog in C++: three models behind one another, against the parts and a closed form."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

import ai_library
from ai_library import NMS, noise, prepared, run

SOURCE = pathlib.Path(__file__).with_name("cpp") / "faces.cpp"
SIZE = (37, 57)
"""Of pictures: no multiples of what parts of them begin at."""
DETECTOR = f"dense_box_param {{ num_of_classes: 2 nms_threshold: {NMS} det_threshold: 0.3 }}"

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> pathlib.Path:
    return ai_library.compiled_program(SOURCE, tmp_path_factory.mktemp("faces") / "faces")


def model(folder: pathlib.Path, name: str, heads, text: str, hidden=()) -> pathlib.Path:
    (folder / name).mkdir()
    xmodel = ai_library.compiled(heads, folder / f"{name}.xmodel", hidden)
    return prepared(xmodel, folder / name, text)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, pathlib.Path]:
    """A detector, two networks for points, whose faces differ, and one for features."""
    folder = tmp_path_factory.mktemp("models")
    points = {"points": (10, 0)}
    return {
        "detect": model(folder, "detect", {"corner": (4, 4), "face": (2, 4)}, DETECTOR),
        "points": model(folder, "points", points, "model_type: FACELANDMARK"),
        "others": model(folder, "others", points, "model_type: FACELANDMARK", (7,)),
        "more": model(folder, "more", points, "model_type: FACELANDMARK", (9,)),
        "feature": model(folder, "feature", {"feature": (512, 0)}, "model_type: FACEFEATURE"),
    }


def test_faces_and_their_features(program, models, tmp_path):
    picture, _ = noise(tmp_path, SIZE)
    kinds = set()
    for points in ("points", "others", "more"):
        done = run(program, models["detect"], models[points], models["feature"], picture)
        first, *lines, last = done.stdout.splitlines()
        width, height, *size, count = map(int, first.split())
        assert (height, width) == SIZE
        assert size == [ai_library.WIDTH, ai_library.HEIGHT]
        assert last == "0.999 0"
        found = [line.split() for line in lines]
        assert len(found) == 2 * count > 2
        kinds |= {line[0] for line in found[count:]}
        seen, expected = np.array([line[1:] for line in found], float).reshape(2, count, -1)
        np.testing.assert_array_equal(seen[:, :3], expected[:, :3])
        difference = np.abs(seen[:, 3:] - expected[:, 3:])
        assert difference.max() <= 2  # where a pixel's weight is rounded the other way
        assert np.std(expected[:, 3:]) > 10
    assert kinds == {"turned", "mirrored"}


def test_models_in_a_file(program, models, tmp_path):
    picture, _ = noise(tmp_path, SIZE)
    path = tmp_path / "faces.txt"
    path.write_text(
        f"# of one program\nFACEDETECT : {models['detect']} \nFACELANDMARK:{models['points']}\n"
        f"  FACEFEATURE :\t{models['feature']}\n"
    )
    whole = run(program, models["detect"], models["points"], models["feature"], picture).stdout
    told = run(program, path, picture).stdout.splitlines()
    assert len(told) > 3
    assert told[:-1] == whole.splitlines()[: len(told) - 1]
    path.write_text(f"FACEDETECT : {models['detect']}\nFACEFEATURE :\n")
    wrong = run(program, path, picture, check=False)
    assert wrong.returncode == 3
    assert 'faces.txt: has no line "FACELANDMARK : NAME" with a model' in wrong.stderr
