# SPDX-License-Identifier: Apache-2.0
"""The provider in a stock onnxruntime: memory that is bound, options of runs."""

import pathlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

import opendpu.onnxruntime
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


def test_available_providers_are_named_once(quantized_model: pathlib.Path) -> None:
    """Programs give all of them, or a list of theirs without those that are not there."""
    available = onnxruntime.get_available_providers()
    assert available.count(PROVIDER) == 1
    session = onnxruntime.InferenceSession(str(quantized_model), providers=available)
    assert session.get_providers()[0] == PROVIDER


def test_one_set_of_options_for_several_sessions(
    quantized_model: pathlib.Path, options: dict[str, str], samples: np.ndarray
) -> None:
    """As for an encoder and a decoder, each with a place of its own in the cache."""
    shared = onnxruntime.SessionOptions()
    shared.log_severity_level = 3
    shared.intra_op_num_threads = 1
    shared.add_session_config_entry("session.intra_op.allow_spinning", "0")
    sessions = [
        onnxruntime.InferenceSession(
            str(quantized_model), shared, [PROVIDER], [{**options, "cacheKey": key}]
        )
        for key in ("encoder", "decoder", "encoder")
    ]
    found = [session.run(["map"], {"x": samples[:1]})[0] for session in sessions]
    for session, result in zip(sessions, found, strict=True):
        assert session.get_providers()[0] == PROVIDER
        own = session.get_session_options()
        assert (own.log_severity_level, own.intra_op_num_threads) == (3, 1)
        assert own.get_session_config_entry("session.intra_op.allow_spinning") == "0"
        np.testing.assert_array_equal(result, found[0])
    cache = pathlib.Path(options["cacheDir"])
    assert {folder.name for folder in cache.iterdir()} >= {"encoder", "decoder"}


def test_providers_that_are_set_afterwards(
    quantized_model: pathlib.Path, options: dict[str, str], samples: np.ndarray
) -> None:
    session = onnxruntime.InferenceSession(str(quantized_model), None, ["CPUExecutionProvider"])
    expected = session.run(["map"], {"x": samples[:1]})[0]
    for providers, given in (
        ([PROVIDER], [options]), (["CPUExecutionProvider"], None), ([(PROVIDER, options)], None),
    ):  # fmt: skip
        session.set_providers(providers, given)
        first = providers[0]
        assert session.get_providers()[0] == (first if isinstance(first, str) else PROVIDER)
        np.testing.assert_array_equal(session.run(["map"], {"x": samples[:1]})[0], expected)


@pytest.mark.parametrize("kind", ["stock", "ours"])
def test_a_batch_of_nothing(
    kind: str, session: onnxruntime.InferenceSession, samples: np.ndarray,
    quantized_model: pathlib.Path, options: dict[str, str],
) -> None:  # fmt: skip
    made: Any = session
    if kind == "ours":
        made = opendpu.onnxruntime.InferenceSession(quantized_model, None, [PROVIDER], [options])
    expected = onnxruntime.InferenceSession(quantized_model).run(None, {"x": samples[:0]})
    found = made.run(None, {"x": samples[:0]})
    assert [one.shape for one in found] == [(0, 10), (0, 8, 8, 8)]
    assert [one.dtype for one in found] == [one.dtype for one in expected]
