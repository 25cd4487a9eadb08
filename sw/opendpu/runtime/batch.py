# SPDX-License-Identifier: Apache-2.0
"""Batches: many jobs from arrays with one axis more, several of them in flight."""

import collections
import os
from collections.abc import Mapping
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
        An array is missing or too many, or has a wrong dtype or shape.
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
    waiting: collections.deque[tuple[int, int]] = collections.deque()
    for index in range(1 if count is None else count):
        own = {
            name: array if count is None else _pick(array, index, tensors[name])
            for name, array in arrays.items()
        }
        results.append(
            {t.name: np.empty(t.dims, _dtype(t, floats)) for t in runner.get_output_tensors()}
        )
        waiting.append(runner.execute_async(own, results[-1]))
        if len(waiting) > 2 * (os.cpu_count() or 1):
            statistics.append(_statistics(runner, waiting.popleft()))
    statistics += [_statistics(runner, job) for job in waiting]
    if count is None:
        return results[0], statistics
    join = np.stack if extra else np.concatenate
    names = [tensor.name for tensor in runner.get_output_tensors()]
    return {name: join([result[name] for result in results]) for name in names}, statistics


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


def _statistics(runner: GraphRunner | Runner, job: tuple[int, int]) -> dict[str, Any]:
    if isinstance(runner, Runner):
        return {runner.program.name: runner.statistics(job).as_dict()}
    return runner.statistics(job).as_dict()
