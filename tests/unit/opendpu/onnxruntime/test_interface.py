# SPDX-License-Identifier: Apache-2.0
"""What the session without the library has of onnxruntime's interface, and what not."""

import inspect
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

from opendpu.onnxruntime import PROVIDER, InferenceSession
from opendpu.onnxruntime.binding import IOBinding
from opendpu_arch.errors import DPUError, TensorError, UnsupportedError

MISSING = {
    "create_ortvalue_from_shape_and_type": "the memory of devices; the DPU's is the host's",
    "get_input_epdevices": "of plug-in providers, which this session does without",
    "get_provider_graph_assignment_info": "of plug-in providers",
    "get_tuning_results": "kernels of GPUs",
    "release_captured_graph": "graphs of CUDA",
    "run_with_ortvaluevector": "a type that only onnxruntime's training makes",
    "set_ep_dynamic_options": "of plug-in providers",
    "set_tuning_results": "kernels of GPUs",
}
"""Methods of onnxruntime's that are not there, and why."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_method_is_there_or_has_a_reason() -> None:
    own, stock = public(InferenceSession), public(onnxruntime.InferenceSession)
    assert own <= stock
    assert stock - own <= MISSING.keys()
    assert not own & MISSING.keys()


@pytest.mark.parametrize("name", ["__init__", *sorted(public(InferenceSession))])
def test_arguments_are_those_of_onnxruntime(name: str) -> None:
    own, stock = (
        inspect.signature(getattr(kind, name)).parameters
        for kind in (InferenceSession, onnxruntime.InferenceSession)
    )
    assert list(own) == list(stock)
    for one, other in zip(own.values(), stock.values(), strict=True):
        assert (one.kind, one.default) == (other.kind, other.default)


def test_bindings_have_the_methods_of_onnxruntimes() -> None:
    stock = public(onnxruntime.IOBinding) - {"get_outputs_as_ortvaluevector"}  # as above
    assert public(IOBinding) >= stock


@pytest.fixture(params=["dpu", "cpu"])
def session(
    request: pytest.FixtureRequest, quantized_model: pathlib.Path, options: dict[str, str]
) -> InferenceSession:
    """Return a session of the DPU, or one whose model stays on the CPU."""
    provider = PROVIDER if request.param == "dpu" else "CPUExecutionProvider"
    made = InferenceSession(quantized_model, providers=[(provider, options)])
    assert made.get_providers()[0] == provider
    return made


def test_memory_of_the_program(
    session: InferenceSession,
    samples: np.ndarray,
    check_bound_memory: Callable[[Any, np.ndarray], None],
) -> None:
    check_bound_memory(session, samples)


def test_values_of_onnxruntime(session: InferenceSession, samples: np.ndarray) -> None:
    (expected,) = session.run(["map"], {"x": samples[:1]})
    value = onnxruntime.OrtValue.ortvalue_from_numpy(samples[:1])
    (found,) = session.run_with_ort_values(["map"], {"x": value})
    np.testing.assert_array_equal(found.numpy(), expected)
    result = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(expected.shape), np.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_ortvalue_output("map", result)
    session.run_with_iobinding(binding, onnxruntime.RunOptions())
    np.testing.assert_array_equal(result.numpy(), expected)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), expected)
    binding.clear_binding_outputs()
    with pytest.raises(TensorError, match="no output is bound"):
        session.run_with_iobinding(binding)
    binding.bind_cpu_input("x", samples[1:2])
    binding.bind_output("map")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(
        binding.copy_outputs_to_cpu()[0], session.run(["map"], {"x": samples[1:2]})[0]
    )


def test_runs_that_nobody_waits_for(session: InferenceSession, samples: np.ndarray) -> None:
    expected = session.run(None, {"x": samples[:1]})
    done = threading.Event()
    seen: list[object] = []

    def callback(results: list[np.ndarray], data: object, error: str) -> None:
        seen.extend((results, data, error))
        done.set()

    session.run_async(None, {"x": samples[:1]}, callback, "mine")
    assert done.wait(60)
    results, data, error = seen
    assert (data, error) == ("mine", "")
    for one, other in zip(results, expected, strict=True):  # type: ignore[call-overload]
        np.testing.assert_array_equal(one, other)


def test_a_run_that_fails_where_nobody_waits(
    quantized_model: pathlib.Path, samples: np.ndarray, options: dict[str, str]
) -> None:
    session = InferenceSession(quantized_model, providers=[(PROVIDER, options)])
    done = threading.Event()
    seen: list[object] = []
    session.run_async(None, {}, lambda *given: (seen.extend(given), done.set()), None)
    assert done.wait(60)
    assert seen == [[], None, "input 'x' is missing; needed: x"]


def test_options_of_a_run(session: InferenceSession, samples: np.ndarray) -> None:
    options = onnxruntime.RunOptions()
    options.log_verbosity_level = 1
    assert len(session.run(None, {"x": samples[:1]}, options)) == 2
    options.terminate = True
    with pytest.raises(Exception, match="terminate"):
        session.run(None, {"x": samples[:1]}, options)


def test_inputs_of_other_types(session: InferenceSession, samples: np.ndarray) -> None:
    expected = session.run(["map"], {"x": samples[:1]})[0]
    np.testing.assert_array_equal(session.run(["map"], {"x": samples[:1].tolist()})[0], expected)
    with pytest.raises(Exception, match=r"float64.*float32|double.*float"):
        session.run(None, {"x": samples[:1].astype(np.float64)})


def test_other_providers_for_a_session(
    quantized_model: pathlib.Path, samples: np.ndarray, options: dict[str, str]
) -> None:
    session = InferenceSession(quantized_model, providers=[(PROVIDER, options)])
    expected = session.run(["map"], {"x": samples[:1]})[0]
    session.set_providers(["CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    session.set_providers([PROVIDER], [options])
    assert session.get_providers()[0] == PROVIDER
    np.testing.assert_array_equal(session.run(["map"], {"x": samples[:1]})[0], expected)


def test_bindings_that_do_not_fit(
    quantized_model: pathlib.Path, samples: np.ndarray, options: dict[str, str]
) -> None:
    session = InferenceSession(quantized_model, providers=[(PROVIDER, options)])
    binding = session.io_binding()
    with pytest.raises(TensorError, match="there is no input 'z'; there are x"):
        binding.bind_cpu_input("z", samples)
    with pytest.raises(UnsupportedError, match="'x' is bound to memory of 'cuda'"):
        binding.bind_input("x", "cuda", 0, np.float32, samples.shape, 4096)
    place = np.zeros(4, np.float32)
    with pytest.raises(TensorError, match="element_type and shape must be given"):
        binding.bind_output("map", buffer_ptr=place.ctypes.data)
    binding.bind_cpu_input("x", samples[:1])
    binding.bind_output("map", "cpu", 0, 1, [4], place.ctypes.data)
    with pytest.raises(TensorError, match=r"output 'map' is float32 \[1, 8, 8, 8\], but was bound"):
        session.run_with_iobinding(binding)
    with pytest.raises(TensorError, match="what io_binding\\(\\) of this session gives"):
        session.run_with_iobinding(None)  # type: ignore[arg-type]


def test_terminate_is_an_error_of_ours(
    quantized_model: pathlib.Path, samples: np.ndarray, options: dict[str, str]
) -> None:
    stop = onnxruntime.RunOptions()
    stop.terminate = True
    session = InferenceSession(quantized_model, providers=[(PROVIDER, options)])
    with pytest.raises(DPUError, match="the run was not begun: terminate is set"):
        session.run(None, {"x": samples[:1]}, stop)
