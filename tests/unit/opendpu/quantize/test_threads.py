# SPDX-License-Identifier: Apache-2.0
"""Numpy's products of matrices take one thread while a network is quantized."""

import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from opendpu.quantize import quantize
from opendpu.quantize.threads import one_blas_thread
from opendpu_arch.errors import TensorError

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples


def net():
    made = Net()
    return made.done(made.conv("a", "x", 8))


def threads() -> set[int]:
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, user_api="blas"):
        assert threads() == {2}
        yield


def test_a_run_takes_one_and_restores_what_was():
    seen = set()
    quantize(net(), samples(), show=lambda _text: seen.update(threads()))
    assert seen == {1}
    assert threads() == {2}


def test_a_run_that_fails_restores_what_was():
    with pytest.raises(TensorError):
        quantize(net(), {"x": np.full((16, 8, 8, 4), np.nan, np.float32)})
    assert threads() == {2}


def test_runs_that_overlap_share_the_limit():
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads() == {1}
    second.__exit__(None, None, None)
    assert threads() == {2}
