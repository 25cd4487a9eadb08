# SPDX-License-Identifier: Apache-2.0
"""The provider in a stock onnxruntime: memory that is bound, options of runs."""

import pathlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

from opendpu.onnxruntime import PROVIDER
from opendpu.onnxruntime.registration import RegisteredSession

pytestmark = pytest.mark.usefixtures("registered")


@pytest.fixture
def session(
    registered: None, quantized_model: pathlib.Path, options: dict[str, str]
) -> onnxruntime.InferenceSession:
    made = RegisteredSession(str(quantized_model), None, [PROVIDER], [options])
    assert made.get_providers()[0] == PROVIDER
    return made


def test_memory_that_is_bound(
    session: onnxruntime.InferenceSession,
    samples: np.ndarray,
    check_bound_memory: Callable[[Any, np.ndarray], None],
) -> None:
    check_bound_memory(session, samples)


def test_values_of_onnxruntime(session: onnxruntime.InferenceSession, samples: np.ndarray) -> None:
    expected = session.run(["map"], {"x": samples[:1]})[0]
    value = onnxruntime.OrtValue.ortvalue_from_numpy(samples[:1])
    (found,) = session.run_with_ort_values(["map"], {"x": value})
    np.testing.assert_array_equal(found.numpy(), expected)


def test_memory_that_is_too_small(
    session: onnxruntime.InferenceSession, samples: np.ndarray
) -> None:
    place = np.zeros((1, 8, 2, 2), np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", samples[:1])
    binding.bind_output("map", "cpu", 0, np.float32, place.shape, place.ctypes.data)
    with pytest.raises(Exception, match=r"invalid dimensions for output: map"):
        session.run_with_iobinding(binding)
    assert not place.any()


def test_options_of_a_run(session: onnxruntime.InferenceSession, samples: np.ndarray) -> None:
    options = onnxruntime.RunOptions()
    options.log_verbosity_level, options.logid = 1, "mine"
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    expected = session.run(["map"], {"x": samples[:1]})[0]
    np.testing.assert_array_equal(session.run(["map"], {"x": samples[:1]}, options)[0], expected)
    stop = onnxruntime.RunOptions()
    stop.terminate = True
    with pytest.raises(Exception, match="terminate"):
        session.run(None, {"x": samples[:1]}, stop)


def test_runs_that_nobody_waits_for(
    session: onnxruntime.InferenceSession, samples: np.ndarray
) -> None:
    expected = session.run(["map"], {"x": samples[:1]})[0]
    done = threading.Event()
    seen: list[object] = []
    session.run_async(
        ["map"], {"x": samples[:1]}, lambda *given: (seen.extend(given), done.set()), 7
    )
    assert done.wait(60)
    results, data, error = seen
    assert (data, error) == (7, "")
    np.testing.assert_array_equal(results[0], expected)  # type: ignore[index]
