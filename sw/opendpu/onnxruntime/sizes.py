# SPDX-License-Identifier: Apache-2.0
"""Sizes of a session's inputs, and whether a model treats every sample of a batch by itself."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from opendpu.frontend.binding import OPEN, OpenSizesError, Sizes
from opendpu.ir import Array
from opendpu.onnxruntime.identity import Model
from opendpu.onnxruntime.port import dtype_of
from opendpu_arch.errors import DPUError

TOLERANCE = 1e-3
"""Of the largest magnitude of a result: kernels add in another order for other batches."""
_LARGEST_INSIDE = 1 << 30
"""Bytes of a model in memory that onnxruntime is given as one message."""

Dims = Sequence[int | str | None]
"""A shape as onnxruntime says it: open sizes are names or nothing."""


def given_sizes(inputs: Mapping[str, Dims]) -> Sizes:
    """Return the sizes that a session has for its inputs, ``add_free_dimension_override`` and all.

    Inputs that still have open ones, but for the batch, are left out.
    """
    found: dict[str, list[int]] = {}
    for name, dims in inputs.items():
        known = [size for size in dims[1:] if isinstance(size, int) and size >= 0]
        if len(dims) > 1 and len(known) == len(dims) - 1:
            found[name] = [OPEN, *known]
        elif len(dims) == 1 and isinstance(dims[0], int) and dims[0] > 0:
            found[name] = [dims[0]]
    return found


class NotWorthItError(DPUError):
    """The model stays where it is: float without calibration, say, or too little for a DPU."""


def left_open(error: OpenSizesError) -> NotWorthItError:
    """Leave a model with open sizes where it is, and say how onnxruntime takes them."""
    return NotWorthItError(
        f"{error.what}\nGive their sizes by name: SessionOptions."
        "add_free_dimension_override_by_name(NAME, SIZE), or write the model with fixed ones"
    )


def mixes_batch(model: Model) -> bool:
    """Tell whether results for two samples are others than those of each, by trying it.

    A model whose batch is fixed, or that onnxruntime does not compute, mixes nothing.
    """
    try:
        session = _session(model)
        heads = {one.name: one for one in session.get_inputs()}
        if not any(one.shape and not isinstance(one.shape[0], int) for one in heads.values()):
            return False
        rng = np.random.default_rng(0)
        two = {name: _random(rng, one) for name, one in heads.items()}
        whole = session.run(None, two)
        parts = [
            session.run(
                None, {n: a[i : i + 1] if _has_batch(heads[n]) else a for n, a in two.items()}
            )
            for i in range(2)
        ]
    except Exception:  # onnxruntime's errors have no common base
        return False
    return any(
        not _is_joined(both, one, other) for both, one, other in zip(whole, *parts, strict=True)
    )


def _session(model: Model) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    given = os.fspath(model) if not isinstance(model, onnx.ModelProto) else _written(model)
    return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])


def _written(model: onnx.ModelProto) -> bytes:
    if model.ByteSize() > _LARGEST_INSIDE:
        raise ValueError("too large for one message")
    return bytes(model.SerializeToString())


def _has_batch(one: Any) -> bool:
    return bool(one.shape) and not isinstance(one.shape[0], int)


def _random(rng: np.random.Generator, one: Any) -> Array:
    """Return two samples of an input."""
    shape = [2, *one.shape[1:]] if _has_batch(one) else list(one.shape)
    dtype = dtype_of(one)
    if dtype.kind in "iub":
        return rng.integers(0, 2, shape).astype(dtype)
    found: Array = rng.standard_normal(shape).astype(dtype)
    return found


def _is_joined(both: Any, one: Any, other: Any) -> bool:
    """Tell whether a result is those of two samples, one after the other."""
    if not all(isinstance(part, np.ndarray) for part in (both, one, other)):
        return True
    if one.shape != other.shape:
        return True  # as large as it is, of each sample
    if one.shape[:1] == (1,):
        wanted = np.concatenate([one, other])
    else:
        wanted = np.stack([one, other])
        if one.ndim and both.shape == (2 * len(one), *one.shape[1:]):
            wanted = np.concatenate([one, other])
    if both.shape != wanted.shape:
        return False
    if both.dtype.kind not in "fiu":
        return True
    limit = TOLERANCE * max(float(np.abs(wanted).max(initial=0)), 1e-12)
    return bool(np.abs(both.astype(np.float64) - wanted).max(initial=0) <= limit)
