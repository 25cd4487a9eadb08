# SPDX-License-Identifier: Apache-2.0
"""Batches: many jobs from arrays with one axis more, several of them in flight."""

import collections
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opendpu.runtime.arrays import Array, is_quantized
from opendpu.runtime.graph_runner import GraphRunner
from opendpu.runtime.runner import Runner
from opendpu_arch.errors import TensorError
from xir import Tensor


def run_batch(
    runner: GraphRunner | Runner, arrays: Mapping[str, Array], *, floats: bool = False
) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """Return outputs by tensor name, and the statistics of each job by DPU subgraph.

    ``arrays`` are inputs by tensor name: of one job; or of N jobs, with an extra first axis or
    with N instead of 1 in the tensors' own batch axis. Outputs of N jobs have the same axis. With
    ``floats``, fixed-point outputs come as float32, times ``2**-fix_point``.

    Raises
    ------
    TensorError
        An array is missing or too many, or has a wrong dtype or shape; or the outputs of several
        jobs cannot be one array, because their size depends on the input.
    """
    tensors = runner.get_input_names()
    if unknown := sorted(set(arrays) - set(tensors)):
        needed = ", ".join(tensor.name for tensor in runner.get_input_tensors())
        raise TensorError(f"unknown input {unknown[0]!r}; needed: {needed}")
    counts = {name: _jobs_in(array, tensors[name]) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name!r} for {count}" for name, count in counts.items())
        raise TensorError(f"inputs must be for the same number of jobs, but are {text}")
    count = next(iter(counts.values()), None)
    extra = any(array.ndim > tensors[name].ndim for name, array in arrays.items())
    results: list[dict[str, Array]] = []
    statistics = []
    waiting: collections.deque[int] = collections.deque()
    for index in range(1 if count is None else count):
        own = {
            name: array if count is None else _pick(array, index, tensors[name])
            for name, array in arrays.items()
        }
        job, found = _started(runner, own, floats)
        results.append(found)
        waiting.append(job)
        if len(waiting) > 2 * (os.cpu_count() or 1):
            statistics.append(_statistics(runner, waiting.popleft()))
    statistics += [_statistics(runner, job) for job in waiting]
    if count is None:
        return results[0], statistics
    made = {
        tensor.name: _joined([result[tensor.name] for result in results], tensor, extra)
        for tensor in runner.get_output_tensors()
    }
    return made, statistics


def _started(
    runner: GraphRunner | Runner, inputs: Mapping[str, Array], floats: bool
) -> tuple[int, dict[str, Array]]:
    """Start a job and return its number, and where its outputs will be."""
    if isinstance(runner, GraphRunner):
        return runner.start(inputs, floats=floats)
    found: dict[str, Array] = {
        tensor.name: np.empty(tensor.dims, _dtype(tensor, floats))
        for tensor in runner.get_output_tensors()
    }
    return runner.execute_async(inputs, found)[0], found


def _joined(arrays: Sequence[Array], tensor: Tensor, extra: bool) -> Array:
    """Return an output of all jobs as one array."""
    shapes = sorted({array.shape for array in arrays})
    if len(shapes) > 1 or (len(arrays) > 1 and not extra and _grew(shapes[0], tensor)):
        shown = ", ".join(map(str, shapes))
        raise TensorError(
            f"output {tensor.name!r} has shape {shown} with these inputs, and those of "
            f"{len(arrays)} jobs cannot be told apart in one array: give one at a time"
        )
    return np.stack(arrays) if extra else np.concatenate(arrays)


def _grew(shape: tuple[int, ...], tensor: Tensor) -> bool:
    """Tell whether an output has another first size than its tensor."""
    return shape[:1] != tuple(tensor.dims)[:1]


def _jobs_in(array: Array, tensor: Tensor) -> int | None:
    """Return how many jobs an array is for; nothing if it has no axis for jobs."""
    batch_axis = array.ndim == tensor.ndim and tensor.dims[0] == 1 and len(array) != 1
    if not batch_axis and array.ndim != tensor.ndim + 1:
        return None
    if not len(array):
        raise TensorError(f"input {tensor.name!r} has shape {array.shape}, which is no job")
    return len(array)


def _dtype(tensor: Tensor, floats: bool) -> np.dtype[Any]:
    fixed = floats and is_quantized(tensor)
    return np.dtype(np.float32) if fixed else tensor.data_type.numpy()


def _pick(array: Array, index: int, tensor: Tensor) -> Array:
    part = array[index] if array.ndim > tensor.ndim else array[index : index + 1]
    return np.ascontiguousarray(part)


def _statistics(runner: GraphRunner | Runner, job: int) -> dict[str, Any]:
    if isinstance(runner, Runner):
        return {runner.program.name: runner.statistics(job).as_dict()}
    return runner.statistics(job).as_dict()
