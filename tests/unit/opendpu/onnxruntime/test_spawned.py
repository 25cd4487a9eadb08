# SPDX-License-Identifier: Apache-2.0
"""Processes that a program starts anew know the provider."""

import multiprocessing.spawn
import os
import pathlib
import pickle
import subprocess
import sys

import pytest

from opendpu.onnxruntime import registration, spawned
from opendpu.onnxruntime.library import compiler
from opendpu_arch.errors import ToolError

SCRIPT = """
import multiprocessing, sys
import numpy, onnxruntime

def open_session(path, cache):
    global session
    options = [{"target": "B512", "cacheDir": cache}]
    session = onnxruntime.InferenceSession(
        path, providers=["VitisAIExecutionProvider"], provider_options=options)

def run(image):
    return session.get_providers()[0], session.run(["map"], {"x": image})[0]

if __name__ == "__main__":
    path, cache, method = sys.argv[1:]
    image = numpy.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype("float32")
    open_session(path, cache)
    own = run(image)
    with multiprocessing.get_context(method).Pool(1, open_session, (path, cache)) as pool:
        (found,) = pool.map(run, [image])
    print(own[0], found[0], numpy.array_equal(own[1], found[1]), len(numpy.unique(found[1])) > 10)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_pool_of_started_processes(
    method: str, quantized_model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    if compiler() is None:
        pytest.skip("the provider's library needs a C compiler")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    found = subprocess.run(
        [sys.executable, "-m", "opendpu.onnxruntime", script, quantized_model, tmp_path / "cache",
         method],
        capture_output=True, text=True, check=True, timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    provider = "VitisAIExecutionProvider"
    assert found.stdout.split() == [provider, provider, "True", "True"]


def test_what_a_process_is_handed_registers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(multiprocessing.spawn, "get_preparation_data", lambda name: {"name": name})
    monkeypatch.setattr(registration, "register", lambda: calls.append(1))
    spawned.hand_on.cache_clear()
    spawned.hand_on()
    spawned.hand_on()
    handed = pickle.dumps(multiprocessing.spawn.get_preparation_data("worker"))
    spawned.hand_on.cache_clear()
    assert not calls
    assert pickle.loads(handed)["name"] == "worker"
    assert calls == [1]


def test_a_process_that_cannot_register_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ToolError("no C compiler")

    monkeypatch.setattr(registration, "register", fail)
    pickle.loads(pickle.dumps(spawned._Registering()))
    assert "a started process has no provider: no C compiler" in caplog.text
