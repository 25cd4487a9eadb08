# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of networks calls a difference: any integer, floats beyond their rounding."""

import importlib
import pathlib

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("wanted", "found", "equal"),
    [
        (np.int8([1, 2]), np.int8([1, 2]), True),
        (np.int8([1, 2]), np.int8([1, 3]), False),
        (np.int64([1 << 60]), np.int64([(1 << 60) + 1]), False),
        (np.float32([0.25, 0.5]), np.float32([0.25 + 2e-8, 0.5]), True),
        (np.float32([0.25, 0.5]), np.float32([0.25 + 2e-5, 0.5]), False),
        (np.float32([0.25]), np.float32([[0.25]]), False),
    ],
)
def test_check(
    wanted: np.ndarray, found: np.ndarray, equal: bool, repository: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for folder in ("tests", "scripts/bench"):
        monkeypatch.syspath_prepend(str(repository / folder))
    check = importlib.import_module("bench_networks").check
    if equal:
        check("net", {"y": found}, {"y": wanted}, "the reference")
        return
    with pytest.raises(SystemExit, match="net: output y differs from the reference's"):
        check("net", {"y": found}, {"y": wanted}, "the reference")
