# SPDX-License-Identifier: Apache-2.0
"""Dilated convolutions on the RTL: results of the reference, cycles of the cycle model."""

import pathlib
import sys
from collections.abc import Callable

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "unit" / "opendpu" / "compiler"))

from graph_draws import Quantized  # noqa: E402
from test_dilation import dilated  # noqa: E402

pytestmark = pytest.mark.cosim

CASES = {
    "same size": {"kernel": (3, 3), "gap": (6, 6), "pad": (6,) * 4},
    "stride": {"kernel": (3, 2), "gap": (5, 9), "pad": (4, 7, 3, 8), "stride": (2, 3)},
    "groups": {"kernel": (3, 3), "gap": (7, 2), "pad": (2, 1, 7, 6), "group": 2},
    "depthwise": {"kernel": (3, 3), "gap": (4, 5), "pad": (5, 5, 4, 4), "kind": "depthwise-conv2d"},
}


@pytest.mark.parametrize("case", CASES)
def test_dilated(case: str, as_reference: Callable[..., None]) -> None:
    q = Quantized()
    graph = q.done(dilated(q, q.data(17, 19, 10), channels=12, act="relu", **CASES[case]))
    as_reference(graph, memory="kv260")
