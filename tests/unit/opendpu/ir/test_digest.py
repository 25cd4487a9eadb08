# SPDX-License-Identifier: Apache-2.0
"""What tells graphs from others: everything in them, but not where it is in memory."""

import pickle

import numpy as np
import pytest

from opendpu.frontend import load_onnx
from opendpu.ir import digest_of


@pytest.fixture
def digits(repository):
    return load_onnx(repository / "scripts/demo/digits.onnx")


def test_a_copy_with_strings_of_its_own_is_the_same(digits):
    copy = pickle.loads(pickle.dumps(digits))
    assert pickle.dumps(copy) != pickle.dumps(digits), "the pickles would do"
    assert digest_of(copy) == digest_of(digits)


def test_a_constant_an_attribute_and_a_name_count(digits):
    found = {digest_of(digits)}
    constant = next(node for node in digits if node.value is not None)
    changed = np.array(constant.value)
    changed.ravel()[-1] += 1
    constant.value = changed
    found.add(digest_of(digits))
    next(node for node in digits if node.kind == "conv2d").attrs["pad_mode"] = "other"
    found.add(digest_of(digits))
    digits.outputs = []
    found.add(digest_of(digits))
    assert len(found) == 4
