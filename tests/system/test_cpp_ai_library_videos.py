# SPDX-License-Identifier: Apache-2.0
"""Programs of the AI Library with videos: which frames they show, in which order, how they end."""

import collections
import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

import ai_library
from ai_library import run

SOURCE = pathlib.Path(__file__).with_name("cpp") / "videos.cpp"
FRAMES = 5
SHOWN = 12

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> pathlib.Path:
    return ai_library.compiled_program(SOURCE, tmp_path_factory.mktemp("videos") / "videos")


@pytest.fixture
def video(tmp_path) -> str:
    """A video whose frames have their numbers as pixels."""
    return drawn(tmp_path, "long")


def drawn(folder: pathlib.Path, name: str, width: int = 8) -> str:
    for number in range(FRAMES):
        pixels = np.full((8, width, 3), number, np.uint8)
        path = folder / f"{name}_{number:02d}.ppm"
        path.write_bytes(b"P6 %d 8 255\n" % width + pixels.tobytes())
    return str(folder / f"{name}_%02d.ppm")


def shown(program, *arguments) -> dict[str, list[int]]:
    """Return the pixels that each window showed."""
    windows = collections.defaultdict(list)
    for line in run(program, *arguments).stdout.splitlines():
        name, pixel = line.split()
        windows[name].append(int(pixel))
    assert sum(map(len, windows.values())) == SHOWN
    return dict(windows)


def numbers(count: int, more: int = 0) -> list[int]:
    """Return what frames in order have, of a video that begins anew at its end."""
    return [index % FRAMES + more for index in range(count)]


@pytest.mark.parametrize("threads", [1, 3])
def test_frames_in_order(program, video, threads):
    assert shown(program, "one", "-t", threads, video) == {"CH-0": numbers(SHOWN, 100)}


def test_several_videos_and_models_with_lists(program, video, tmp_path):
    windows = shown(program, "several", "-t", 2, video, drawn(tmp_path, "other"))
    assert windows.keys() <= {"CH-0", "CH-1", "CH-2"}
    for name, more in (("CH-0", 100), ("CH-1", 150), ("CH-2", 200)):
        found = windows.get(name, [])
        assert found == numbers(len(found), more)


def test_one_filter_for_all(program, video, tmp_path):
    windows = shown(program, "batch", video, drawn(tmp_path, "other"))
    assert windows.keys() <= {"CH-0", "CH-1"}
    for found in windows.values():
        assert found == numbers(len(found), 200)


def test_filters_by_name(program, video):
    windows = shown(program, "named", "-m", "lists", "-v", video, "-m", "ones", "-v", video)
    for name, more in (("CH-0", 150), ("CH-1", 100)):
        found = windows.get(name, [])
        assert found == numbers(len(found), more)
    wrong = run(program, "named", "-m", "none", "-v", video, check=False)
    assert wrong.returncode != 0
    assert "there is no filter none" in wrong.stderr
    assert run(program, "named", "-m", "ones", check=False).returncode == 1


def test_threads_of_a_programs_own(program, video):
    """Frames that are missing are not waited for."""
    kept = [index % FRAMES + 100 for index in range(3 * SHOWN) if index % 3 != 2]
    assert shown(program, "own", video) == {"CH-3": kept[:SHOWN]}


def test_what_goes_wrong_in_a_thread_ends_the_program(program, tmp_path):
    done = run(program, "one", drawn(tmp_path, "narrow", 7), check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == "this picture is seven wide"
    missing = run(program, "one", tmp_path / "none.avi", check=False)
    assert missing.returncode != 0
    assert "[VAILIB_DEMO_VIDEO_OPEN_ERROR] cannot open video" in missing.stderr
    assert run(program, "one", check=False).returncode == 1
