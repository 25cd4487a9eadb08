# SPDX-License-Identifier: Apache-2.0
"""What pruners refuse: each check, with its message and the guide's code."""

import pathlib

import numpy as np
import pytest

from opendpu.pruning import arguments
from opendpu_arch.errors import UnsupportedError

NAN, INF = float("nan"), float("inf")


def refused(text):
    return pytest.raises(UnsupportedError, match=rf"^\[OPTIMIZER_INVALID_ARGUMENT_ERROR\] {text}")


@pytest.mark.parametrize("given", ["a", "0.5", None, True, NAN, INF, [], {}, object(), 10**400])
def test_what_is_no_number_is_refused(given):
    with refused("step is .*, but must be a number$"):
        arguments.number("step", given)


@pytest.mark.parametrize("given", ["a", None, 0, 1, -0.5, 2, NAN, True, [0.5]])
def test_what_is_no_part_is_refused(given):
    with refused("removal_ratio is .*, but must be between 0 and 1: the part that is removed$"):
        arguments.check_ratio(given)
    with refused("threshold is .*, but must be between 0 and 1: the part of the score that may"):
        arguments.check_threshold(given)


@pytest.mark.parametrize(
    "given", ["a", "3", None, 0, -1, 2.5, 3.0, NAN, True, [3], np.array([1, 2])]
)
def test_what_is_no_whole_number_is_refused(given):
    with refused("workers is .*, but must be at least 1$"):
        arguments.whole("workers", given)


def test_numbers_of_every_kind_are_taken():
    assert arguments.number("step", np.float32(2.5)) == 2.5
    assert arguments.whole("workers", np.int64(3)) == 3 and arguments.whole("seed", 0, 0) == 0
    assert arguments.check_ratio(np.float64(0.25)) == 0.25


def test_a_choice_is_one_of_what_there_is():
    assert arguments.one_of("mode", "slim", ("sparse", "slim")) == "slim"
    for given in ("dense", None, 1, [], {}, True, np.zeros(3)):
        with refused("mode is .*, but must be one of sparse, slim, 1.5$"):
            arguments.one_of("mode", given, ("sparse", "slim", 1.5))
    with refused("block is True, but must be one of 1, 2$"):
        arguments.one_of("block", True, (1, 2))


def test_collections_functions_and_paths():
    assert arguments.several("excludes", None, "layers") == []
    assert arguments.several("excludes", iter("ab"), "layers") == ["a", "b"]
    for given in ("conv1", 3, True, b"conv1"):
        with refused("excludes is .*, but must be a list of layers$"):
            arguments.several("excludes", given, "layers")
    assert arguments.arguments("args", (1, 2)) == (1, 2)
    for given in (None, 3, "data", np.zeros(2), iter(())):
        with refused("args is .*, but must be a list or tuple of arguments$"):
            arguments.arguments("args", given)
    assert arguments.function("eval_fn", len) is len
    with refused("eval_fn is 'len', but must be a function that takes the network first$"):
        arguments.function("eval_fn", "len")
    assert arguments.path_of("file_name", pathlib.Path("a") / "b") == "a/b"
    for given in (3, None, [], True):
        with refused("file_name is .*, but must be a path$"):
            arguments.path_of("file_name", given)


def test_a_long_value_is_told_by_its_class():
    with refused("args is of class ndarray, but must be a list or tuple of arguments$"):
        arguments.arguments("args", np.zeros(200))
