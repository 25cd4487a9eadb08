# SPDX-License-Identifier: Apache-2.0
"""Sessions of onnxruntime, all on the CPU and silent."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import onnx

from opendpu.ir import Array
from opendpu_arch.extras import needs

if TYPE_CHECKING:
    import onnxruntime

PRECISE = "session.x64quantprecision"
"""onnxruntime's option, see :func:`precise_session`."""


def open_session(
    model: onnx.ModelProto,
    libraries: Iterable[str] = (),
    *,
    threads: int = 0,
    optimized: bool = True,
    keep_memory: bool = True,
    packed: bool = True,
    integer_kernels: bool = True,
    weights: Mapping[str, Array] | None = None,
) -> "onnxruntime.InferenceSession":
    """Return a session for a model; what onnxruntime raises if it does not take it passes.

    Parameters
    ----------
    model
        The model, without ``weights``.
    libraries
        Shared libraries with operators of other domains.
    threads
        How many threads compute an op; 0 for as many as there are cores.
    optimized
        Whether onnxruntime may rewrite the model.
    keep_memory
        Whether the memory of a run stays for the next.
    packed
        Whether weights are stored a second time, as kernels like them.
    integer_kernels
        Whether operators between quantizers may become such of integers, which round otherwise.
    weights
        Values of initializers that the model says are elsewhere.
    """
    with needs("opendpu"):
        import onnxruntime  # a program that only drives a DPU need not load it

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    # Threads that wait for work sleep: spinning takes cores from numpy, and from other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The memory that runs share grows by doubling, which is not for weights.
    options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    options.enable_cpu_mem_arena = keep_memory
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    )
    if not integer_kernels:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    if not packed:
        options.add_session_config_entry("session.disable_prepacking", "1")
    if weights:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        options.add_external_initializers(list(weights), values)
    for library in libraries:
        options.register_custom_ops_library(library)
    return precise_session(model.SerializeToString(), options)


def precise_session(
    model: bytes | str, options: "onnxruntime.SessionOptions"
) -> "onnxruntime.InferenceSession":
    """Return a session, given a model or its path, in which no sum of products saturates.

    Processors with AVX2 but no VNNI add pairs of products of uint8 and int8 in 16 bits, unless
    weights are made uint8, which an option has the optimizer do. It does so beside int8, too, where
    nothing would saturate, and then finds no kernel: such models are opened without the option.
    """
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as states

    for wanted in ("1", "0"):
        options.add_session_config_entry(PRECISE, wanted)
        try:
            return onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"], enable_fallback=0
            )
        except states.NotImplemented:
            if wanted == "0":
                raise
    raise AssertionError


def reason_of(error: Exception) -> str:
    """Return the first line of an error of others that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
