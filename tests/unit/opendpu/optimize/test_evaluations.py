# SPDX-License-Identifier: Apache-2.0
"""Scores from several processes: whatever functions, and what becomes of those that fail."""

import os
import threading

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[optimizer])")
pytest.importorskip("torch_pruning", reason="torch-pruning is not installed (opendpu[optimizer])")

from opendpu.optimize.evaluations import evaluated
from opendpu_arch.errors import DPUError, UnsupportedError


class Calling:
    """Scores by a function, as a user's script has them."""

    def __init__(self, function):
        self.function = function

    def score(self, task):
        return self.function(task)


def refusing(task):
    if task == 1:
        raise UnsupportedError("refusing failed: ValueError: no data")
    return 0.0


def ending(task):
    if task == 1:
        os._exit(3)
    return 0.0


@pytest.mark.slow
def test_functions_without_a_module_beside_busy_threads():
    """A process that began as a copy of this one could wait for a thread that it has not."""
    stop = threading.Event()

    def multiply():
        matrix = np.ones((300, 300), np.float32)
        while not stop.is_set():
            matrix @ matrix

    threads = [threading.Thread(target=multiply) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        offset = 0.5
        tasks = list(range(5))
        found = list(evaluated(Calling(lambda task: task + offset), tasks, workers=2))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert found == [(task, task + 0.5) for task in tasks]


@pytest.mark.slow
def test_what_fails_in_a_process_is_told_as_here():
    found = evaluated(Calling(refusing), [0, 1, 2], workers=2)
    assert next(found) == (0, 0.0)
    with pytest.raises(UnsupportedError, match="refusing failed: ValueError: no data"):
        list(found)


def test_a_process_that_ends_is_an_error_not_a_wait():
    with pytest.raises(DPUError, match="ended before its work did"):
        list(evaluated(Calling(ending), [0, 1, 2], workers=2))


def test_what_cannot_be_sent_is_refused_but_for_one_worker():
    lock = threading.Lock()

    def locked(task):
        with lock:
            return float(task)

    with pytest.raises(UnsupportedError, match=r"cannot be sent to processes .*lock.*one worker"):
        list(evaluated(Calling(locked), [1, 2], workers=2))
    assert list(evaluated(Calling(locked), [1, 2])) == [(1, 1.0), (2, 2.0)]
